//! A file with a little of everything.

use minimal_proto::ByteString;
use minimal_proto::spec::{EnvSource, Lifetime, MountMode, NetworkMode, OnOom, Workspace};
use minimal_spec::{LayerName, Overrides, Project, Values};

pub(crate) const EXAMPLE: &str = include_str!("../../../../tests/golden/spec/example.toml");

fn expand(entry: &str, arguments: Values) -> minimal_spec::Expanded {
    let project = Project::parse("minimal.toml", EXAMPLE).unwrap();
    project.expand(entry, &Overrides { arguments, ..Overrides::default() }).unwrap()
}

#[test]
fn a_task_is_what_its_layers_say() {
    let values = Values::from([("filter".to_owned(), vec!["a b".to_owned()])]);
    let expanded = expand("test", values);
    let spec = &expanded.spec;
    let words: Vec<ByteString> = ["cargo", "test", "a b"].map(ByteString::from).into();
    assert_eq!(spec.execution.exec, words);
    assert_eq!(spec.execution.timeout_ms, Some(20 * 60 * 1000));
    assert_eq!(spec.execution.on_oom, OnOom::KillProcess);
    assert_eq!(spec.execution.env["RUST_BACKTRACE"], EnvSource::Value("1".into()));
    assert_eq!(spec.files.workspace, Workspace::Overlay);
    assert_eq!(spec.identity.lifetime, Lifetime::UntilComplete);
    let mount = &spec.files.mounts[1];
    assert_eq!(mount.source, ByteString::from("~/.rustup"));
    assert_eq!(mount.dest, ByteString::from("/home/box/.rustup"));
    assert_eq!(mount.mode, MountMode::Ro);
    assert!(expanded.inherit_cwd && !spec.io.pty_enabled);
}

#[test]
fn each_value_names_who_has_set_it() {
    let explained = expand("test", Values::new()).explain();
    let of = |path: &str| {
        let it = explained.iter().find(|it| it.path == path).unwrap();
        let position = it.origin.position().map(|(file, line)| format!("{file}:{line}"));
        (it.origin.layer.clone(), position)
    };
    let file = |line: u32| Some(format!("minimal.toml:{line}"));
    assert_eq!(of("execution.env.RUST_BACKTRACE.value"), (LayerName::Defaults, file(2)));
    let entry = LayerName::Entry("tasks.test".into());
    assert_eq!(of("execution.timeout_ms"), (entry.clone(), file(15)));
    assert_eq!(of("files.mounts[1].source"), (entry, file(14)));
    assert_eq!(of("files.workspace"), (LayerName::Type("task".into()), None));
    assert_eq!(of("io.log_max"), (LayerName::Builtin, None));
    // Nothing is left out.
    let json = serde_json::to_value(expand("test", Values::new()).spec).unwrap();
    let sections = json.as_object().unwrap().keys();
    for section in sections {
        assert!(explained.iter().any(|it| it.path.starts_with(section.as_str())), "{section}");
    }
}

#[test]
fn a_script_finds_its_arguments_in_variables() {
    let spec = expand("hello", Values::from([("who".into(), vec!["$(id)".into()])])).spec;
    assert_eq!(spec.execution.exec[0], ByteString::from("/bin/bash"));
    assert_eq!(spec.execution.env["ARG_WHO"], EnvSource::Value("$(id)".into()));
    assert_eq!(spec.execution.exec.len(), 3);
}

#[test]
fn a_network_table_replaces_all_of_it() {
    let spec = expand("fetch", Values::new()).spec;
    assert_eq!(spec.network.mode, NetworkMode::OwnIp);
    assert_eq!(spec.network.egress.allow_dns_hosts, ["example.com"]);
    assert!(spec.network.egress.allow_subnets.is_empty());
}

#[test]
fn there_is_always_a_session() {
    let expand = |project: &Project| project.expand("default", &Overrides::default()).unwrap();
    let session = expand(&Project::without_file()).spec;
    assert!(session.io.pty_enabled);
    assert_eq!(session.execution.exec[0], ByteString::from("bash"));
    let with_task = Project::parse("f", "[tasks.a]\nexec = \"true\"").unwrap();
    assert_eq!(expand(&with_task).spec, session);
    // Unless something else has its name.
    let taken = Project::parse("f", "[tasks.default]\nexec = \"true\"").unwrap();
    assert!(!expand(&taken).spec.io.pty_enabled);
    let other = Project::parse("f", "[sessions.a]").unwrap();
    assert!(other.expand("default", &Overrides::default()).is_err());
}
