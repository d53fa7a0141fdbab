//! What holds for every file and every layer.

use minimal_spec::{Layer, LayerName, Overrides, Project, canonical_bytes};
use proptest::prelude::*;

fn bytes(spec: &minimal_proto::Spec) -> String {
    String::from_utf8(canonical_bytes(spec)).unwrap()
}

/// Some lines of an entry, in any order that TOML allows.
fn settings() -> impl Strategy<Value = Vec<&'static str>> {
    let lines = vec![
        "timeout = \"5m\"",
        "timeout = \"7s\"",
        "ram = \"64MiB\"",
        "ram = { max = \"1GiB\", required = true }",
        "vars = { A = \"1\", B = \"2\" }",
        "vars = { B = \"3\", C = { inherit = true } }",
        "mounts = [{ source = \"~/a\" }]",
        "mounts = [{ source = \"~/a\" }, { source = \"/b\", dest = \"~/b\", mode = \"rw\" }]",
        "network = { mode = \"own_ip\", egress.deny_subnets = [\"10.0.0.0/8\"] }",
        "network = { mode = \"own_ip\", egress = { allow_subnets = [\"0.0.0.0/0\"], deny_subnets = [\"192.168.0.0/16\"] } }",
        "network = { mode = \"none\" }",
        "lifecycle_hooks = [{ event = \"on_attach\", script = \"true\" }]",
        "params = { a = 1.5, b = [true, \"x\"] }",
        "workspace = \"copy\"",
        "user = \"root\"",
    ];
    proptest::sample::subsequence(lines, 0..8).prop_map(|lines| {
        let mut seen = std::collections::BTreeSet::new();
        lines.into_iter().filter(|line| seen.insert(line.split(' ').next())).collect()
    })
}

fn file(defaults: &[&str], of_type: &[&str], entry: &[&str]) -> String {
    format!(
        "[defaults]\n{}\n[defaults.task]\n{}\n[tasks.t]\nexec = [\"a\"]\n{}\n",
        defaults.join("\n"),
        of_type.join("\n"),
        entry.join("\n")
    )
}

fn overrides(layer: Layer) -> Overrides {
    Overrides { command_line: layer, ..Overrides::default() }
}

proptest! {
    #[test]
    fn the_same_inputs_are_the_same_bytes(a in settings(), b in settings(), c in settings()) {
        let text = file(&a, &b, &c);
        let once = || {
            let project = Project::parse("f", &text).unwrap();
            project.expand("t", &Overrides::default()).map(|it| bytes(&it.spec))
        };
        match (once(), once()) {
            (Ok(first), Ok(second)) => prop_assert_eq!(first, second),
            (Err(first), Err(second)) => prop_assert_eq!(first.to_string(), second.to_string()),
            (first, second) => prop_assert!(false, "{:?} {:?}", first, second),
        }
    }

    /// A spec laid over its own entry as the last layer changes nothing.
    #[test]
    fn expanding_an_expanded_spec_changes_nothing(a in settings(), b in settings(), c in settings()) {
        let project = Project::parse("f", &file(&a, &b, &c)).unwrap();
        let Ok(first) = project.expand("t", &Overrides::default()) else { return Ok(()) };
        let again = Layer::of_spec(&first.spec, LayerName::Loadout("again".into()));
        let second = project.expand("t", &overrides(again.clone())).unwrap();
        prop_assert_eq!(bytes(&first.spec), bytes(&second.spec));
        // And all by itself it says as much, but for the entry's name.
        let alone = Project::without_file().expand_command(&overrides(again)).unwrap();
        let mut alone = alone.spec;
        alone.identity.entry.clone_from(&first.spec.identity.entry);
        prop_assert_eq!(bytes(&first.spec), bytes(&alone));
    }

    /// Variables merge by name, the higher layer's winning; lists hold what any layer has, each once.
    #[test]
    fn layers_fold_by_their_rules(a in settings(), b in settings(), c in settings()) {
        let project = Project::parse("f", &file(&a, &b, &c)).unwrap();
        let Ok(expanded) = project.expand("t", &Overrides::default()) else { return Ok(()) };
        let layers = [&a, &b, &c];
        let has = |key: &str| layers.iter().any(|lines| lines.iter().any(|line| line.contains(key)));
        prop_assert_eq!(expanded.spec.execution.env.contains_key("A"), has("A ="));
        prop_assert_eq!(expanded.spec.execution.env.contains_key("C"), has("C ="));
        let last = layers.iter().rev().find_map(|lines| {
            lines.iter().rev().find(|line| line.contains("B = "))
        });
        let b_value = last.map(|line| if line.contains("\"3\"") { "3" } else { "2" });
        let in_spec = expanded.spec.execution.env.get("B").map(|it| format!("{it:?}"));
        prop_assert_eq!(in_spec, b_value.map(|it| format!("Value(\"{it}\")")));
        let mounts = expanded.spec.files.mounts.len();
        let wanted = usize::from(has("source = \"~/a\"")) + usize::from(has("source = \"/b\""));
        prop_assert_eq!(mounts, wanted);
        let denied = &expanded.spec.network.egress.deny_subnets;
        prop_assert_eq!(denied.contains(&"10.0.0.0/8".to_owned()), has("10.0.0.0/8"));
        prop_assert_eq!(denied.contains(&"192.168.0.0/16".to_owned()), has("192.168.0.0/16"));
        let network = layers.iter().rev().find_map(|lines| {
            lines.iter().find(|line| line.starts_with("network"))
        });
        let open = network.is_some_and(|line| line.contains("allow_subnets"));
        prop_assert_eq!(!expanded.spec.network.egress.allow_subnets.is_empty(), open);
    }

    /// Whatever a type adds, what it allows was allowed before.
    #[test]
    fn constraints_only_narrow(
        upper in proptest::sample::subsequence(vec!["none", "host_ip", "own_ip"], 0..=3),
        lower in proptest::sample::subsequence(vec!["none", "host_ip", "own_ip"], 0..=3),
        mode in proptest::sample::select(vec!["none", "host_ip", "own_ip"]),
    ) {
        let text = format!(
            "[box_types.a]\nextends = \"task\"\nconstraints.network.mode = {upper:?}\n\
             [box_types.b]\nextends = \"a\"\nconstraints.network.mode = {lower:?}\n\
             [boxes.x]\ntype = \"b\"\nexec = \"true\"\nnetwork.mode = \"{mode}\"\n"
        );
        let narrows = !lower.is_empty() && lower.iter().all(|it| upper.contains(it));
        match Project::parse("f", &text) {
            Err(problems) => prop_assert!(!narrows, "{problems}"),
            Ok(project) => {
                prop_assert!(narrows);
                let passes = project.expand("x", &Overrides::default()).is_ok();
                prop_assert_eq!(passes, lower.contains(&mode));
            }
        }
    }

    #[test]
    fn no_text_panics(text: String) {
        drop(Project::parse("f", &text));
    }

    /// The same for what looks like a file.
    #[test]
    fn no_toml_panics(
        lines in proptest::collection::vec(
            "(\\[(tasks|boxes|defaults|box_types|sessions)\\.[a-c]\\]|(exec|args|vars|mounts|network|ram|timeout|type|extends|defaults|constraints|io)(\\.[a-z_]{1,4})? = (\"[a-z%{} ]{0,6}\"|[0-9.]{1,4}|true|\\[\\]|\\{\\}|\\[\"a\"\\]|\\{ a = 1 \\}))",
            0..12,
        ),
    ) {
        if let Ok(project) = Project::parse("f", &lines.join("\n")) {
            for entry in project.entries() {
                drop(project.expand(entry.name.as_str(), &Overrides::default()));
            }
        }
    }
}
