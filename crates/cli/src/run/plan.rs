//! From the command line and the project's file to a spec.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use minimal_proto::spec::{BoxType, Builtin, Lifetime, Restart};
use minimal_proto::{ByteString, ErrorCode, Spec};
use minimal_spec::{Entry, Expanded, Layer, Overrides, read_words};
use serde_json::json;

use crate::args::{BoxOptions, NetworkArg, RestartArg, RunArgs, StartArgs, WorkspaceArg};
use crate::context::Context;
use crate::error::Failure;
use crate::project_file;
use crate::run::mounts;

/// What is to be run: an entry of the project, or the command line's own words.
pub(super) enum What<'a> {
    Entry(&'a Entry, Overrides),
    Command(Builtin, Overrides),
}

/// What the words of a command line say.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// What the box is given.
    pub options: &'a BoxOptions,
    /// An entry and its arguments, or a command.
    pub argv: &'a [OsString],
    /// Whether it is a command.
    pub is_command: bool,
    /// What is made of them.
    pub wish: Wish,
    /// When the command is started again, if that is said.
    pub restart: Option<RestartArg>,
}

/// What is made of the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A box that ends with its command: a task.
    Run,
    /// A box with a terminal, which ends with its command: a session.
    Interact,
    /// The box of a session, under its name.
    Session,
    /// One more box of a session.
    NewSession,
    /// A box that runs until it is stopped.
    Start,
    /// The same without a command.
    Bare,
}

impl<'a> From<&'a RunArgs> for Words<'a> {
    fn from(args: &'a RunArgs) -> Self {
        let RunArgs { options, argv, is_command, .. } = args;
        let wish = if args.tty { Wish::Interact } else { Wish::Run };
        Self { options, argv, is_command: *is_command, wish, restart: None }
    }
}

impl<'a> From<&'a StartArgs> for Words<'a> {
    fn from(args: &'a StartArgs) -> Self {
        let StartArgs { options, argv, is_command, bare, restart, no_wait: _ } = args;
        let wish = if *bare { Wish::Bare } else { Wish::Start };
        Self { options, argv, is_command: *is_command, wish, restart: *restart }
    }
}

/// What the words mean.
///
/// # Errors
/// A mistake of usage.
pub(super) fn what<'a>(
    args: Words<'_>,
    project: &'a minimal_spec::Project,
    values: &BTreeMap<String, ByteString>,
    home: Option<&Path>,
) -> Result<What<'a>, Failure> {
    let mut layer = options(args.options, values)?;
    for text in &args.options.mounts {
        let mount = mounts::read(text, home)?;
        layer.option_adds("--mount", &["files", "mounts"], json!(mount));
    }
    if args.wish == Wish::Interact {
        layer.option("--tty", &["io", "pty_enabled"], true);
    }
    if let Some(policy) = args.restart {
        let word = match policy {
            RestartArg::Never => "never",
            RestartArg::OnFailure => "on_failure",
            RestartArg::Always => "always",
        };
        layer.option("--restart", &["execution", "restart", "policy"], word);
    }
    if args.wish == Wish::Bare {
        let overrides = Overrides { command_line: layer, ..Overrides::default() };
        return Ok(What::Command(Builtin::Sandbox, overrides));
    }
    let named = args.argv.split_first().filter(|_| !args.is_command);
    if let Some((name, words)) = named {
        let entry = match args.wish {
            Wish::Run | Wish::Interact => task(project, name, words)?,
            Wish::Start | Wish::Bare | Wish::Session | Wish::NewSession => {
                startable(project, name, words)?
            }
        };
        let words = texts(words)?;
        let arguments = read_words(&entry.arguments(), &words).map_err(|error| {
            Failure::usage(error.to_string()).hint(format!("usage: {}", usage(entry, args.wish)))
        })?;
        let overrides = Overrides { arguments, command_line: layer, ..Overrides::default() };
        return Ok(What::Entry(entry, overrides));
    }
    if args.argv.is_empty() && args.wish == Wish::Start {
        return Err(Failure::usage("there is nothing to start").hint(
            "name a service, write a command behind two dashes, or give --bare for a box without one",
        ));
    }
    if args.argv.is_empty() {
        return Err(Failure::usage("there is no command to run")
            .hint("write it behind two dashes: `min run -- <command>`"));
    }
    let argv: Vec<_> = args.argv.iter().cloned().map(ByteString::from).collect();
    layer.argv(&argv);
    let builtin = match args.wish {
        Wish::Run => Builtin::Task,
        Wish::Interact | Wish::Session | Wish::NewSession => Builtin::Session,
        Wish::Start | Wish::Bare => {
            if args.restart.is_none() {
                // Nobody has said that it can be run twice.
                layer.option("--", &["execution", "restart"], json!(Restart::default()));
            }
            Builtin::Service
        }
    };
    Ok(What::Command(builtin, Overrides { command_line: layer, ..Overrides::default() }))
}

/// The task of a name.
fn task<'a>(
    project: &'a minimal_spec::Project,
    name: &OsString,
    words: &[OsString],
) -> Result<&'a Entry, Failure> {
    let text = name.to_string_lossy();
    let entry = project.entry(&text);
    if let Some(entry) = entry.filter(|entry| is_task(&entry.box_type)) {
        return Ok(entry);
    }
    if let Some(entry) = entry {
        let message = format!("`{text}` is a {}, and `min run` runs tasks", entry.box_type);
        let failure = Failure::usage(message);
        return Err(match is_service(&entry.box_type) {
            true => failure.hint(format!("it is started with `min box start {text}`")),
            false => failure,
        });
    }
    Err(no_entry(project, ("task", is_task), "min run", (name, words)))
}

/// The entry of a name that can be started. Whether its box lives until it is stopped is known once
/// its layers are.
fn startable<'a>(
    project: &'a minimal_spec::Project,
    name: &OsString,
    words: &[OsString],
) -> Result<&'a Entry, Failure> {
    let entry = project.entry(&name.to_string_lossy());
    entry.ok_or_else(|| no_entry(project, ("service", is_service), "min box start", (name, words)))
}

/// There is no such entry.
fn no_entry(
    project: &minimal_spec::Project,
    (kind, is_of_kind): (&str, fn(&BoxType) -> bool),
    command: &str,
    (name, words): (&OsString, &[OsString]),
) -> Failure {
    let known: Vec<&str> = project
        .entries()
        .filter(|entry| is_of_kind(&entry.box_type))
        .map(|entry| entry.name.as_str())
        .collect();
    let line: Vec<_> = std::iter::once(name).chain(words).map(|it| it.to_string_lossy()).collect();
    let line: String = line.join(" ").chars().take(200).collect();
    let shown: String = name.to_string_lossy().chars().take(80).collect();
    let known = match known.is_empty() {
        true => format!("this project has no {kind}s"),
        false => format!("{kind}s of this project: {}", known.join(", ")),
    };
    Failure::usage(format!("there is no {kind} `{shown}`; {known}"))
        .hint(format!("a command stands behind two dashes: `{command} -- {line}`"))
}

/// Whether an entry runs until it is stopped, as its type has it.
fn is_service(box_type: &BoxType) -> bool {
    matches!(box_type.root(), Builtin::Service | Builtin::Sandbox)
}

/// Whether an entry can be run and waited for: what is of type task, or derived from it.
pub(crate) fn is_task(box_type: &BoxType) -> bool {
    box_type.root() == Builtin::Task
}

/// Words that an argument can hold.
fn texts(words: &[OsString]) -> Result<Vec<String>, Failure> {
    let text = |word: &OsString| {
        word.clone().into_string().map_err(|word| {
            Failure::usage(format!("`{}` is not UTF-8, as arguments of tasks are", word.display()))
        })
    };
    words.iter().map(text).collect()
}

/// How an entry is called.
pub(crate) fn usage(entry: &Entry, wish: Wish) -> String {
    let mut usage = match wish {
        Wish::Run => format!("min run {}", entry.name),
        Wish::Interact => format!("min run -t {}", entry.name),
        Wish::Session | Wish::NewSession => format!("min shell {}", entry.name),
        Wish::Start | Wish::Bare => format!("min box start {}", entry.name),
    };
    for (name, argument) in entry.arguments() {
        let one = format!("--{name} <{}>", argument.argument_type);
        let one = if argument.default.is_some() { format!("[{one}]") } else { one };
        usage.push(' ');
        usage.push_str(&one);
    }
    usage
}

/// An entry's help.
pub(super) fn help(entry: &Entry, wish: Wish) -> String {
    let mut text = String::new();
    if let Some(description) = entry.description() {
        text.push_str(&format_line(&description));
        text.push('\n');
    }
    text.push_str(&format_line(&format!("Usage: {}", usage(entry, wish))));
    let arguments = entry.arguments();
    if !arguments.is_empty() {
        text.push_str("\nArguments:\n");
    }
    for (name, argument) in &arguments {
        let default = match &argument.default {
            None => "must be given".to_owned(),
            Some(values) => format!("default: {}", json!(values.join(" "))),
        };
        let help = argument.help.clone().unwrap_or_default();
        let head = format!("--{name} <{}>", argument.argument_type);
        text.push_str(&format_line(&format!("  {head:<28} {help} [{default}]")));
    }
    text
}

fn format_line(text: &str) -> String {
    format!("{}\n", text.trim_end())
}

/// The entry that `--help` behind a task's name asks about.
pub(crate) fn asks_for_help<'a>(
    args: Words<'_>,
    project: &'a minimal_spec::Project,
) -> Result<Option<&'a Entry>, Failure> {
    let named = args.argv.split_first().filter(|_| !args.is_command);
    let Some((name, words)) = named else { return Ok(None) };
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return match args.wish {
            Wish::Run | Wish::Interact => task(project, name, words).map(Some),
            Wish::Start | Wish::Bare | Wish::Session | Wish::NewSession => {
                startable(project, name, words).map(Some)
            }
        };
    }
    Ok(None)
}

/// The last layer.
fn options(args: &BoxOptions, values: &BTreeMap<String, ByteString>) -> Result<Layer, Failure> {
    let mut layer = Layer::default();
    for name in values.keys() {
        layer.option("-e", &["execution", "env", name], "given");
    }
    if let Some(name) = &args.name {
        layer.option("--name", &["box", "name"], name.as_str());
    }
    if let Some(timeout) = args.timeout {
        layer.option("--timeout", &["execution", "timeout_ms"], milliseconds(timeout));
    }
    if let Some(directory) = &args.workdir {
        let directory = ByteString::from(directory.clone());
        layer.option("--workdir", &["execution", "cwd"], json!(directory));
    }
    if let Some(user) = &args.user {
        layer.option("--user", &["execution", "user"], user.as_str());
    }
    for (option, key, max) in [("--ram", "ram", args.ram), ("--pids", "pids", args.pids)] {
        if let Some(max) = max {
            layer.option(option, &["machine", key], json!({"max": max, "required": false}));
        }
    }
    if let Some(network) = args.network {
        let mode = match network {
            NetworkArg::None => "none",
            NetworkArg::HostIp => "host_ip",
        };
        layer.option("--network", &["network", "mode"], mode);
        for list in ["allow_dns_hosts", "allow_subnets", "allow_protocols"] {
            layer.option("--network", &["network", "egress", list], json!([]));
        }
        layer.option("--network", &["network", "ingress"], json!([]));
        layer.option("--network", &["network", "dynamic_ingress"], "deny");
    }
    if let Some(rootfs) = &args.rootfs {
        let path = ByteString::from(directory(rootfs)?.into_os_string());
        layer.option("--rootfs", &["files", "rootfs"], json!({"path": path}));
    }
    if let Some(workspace) = args.workspace {
        let word = match workspace {
            WorkspaceArg::Overlay => "overlay",
            WorkspaceArg::Copy => "copy",
            WorkspaceArg::Bind => "bind",
            WorkspaceArg::None => "none",
        };
        layer.option("--workspace", &["files", "workspace"], word);
        if word != "copy" {
            layer.option("--workspace", &["files", "workspace_exclude"], json!([]));
        }
        layer.option("--workspace", &["files", "workspace_required"], word != "none");
    }
    Ok(layer)
}

/// The directory that a path names, in full.
fn directory(path: &Path) -> Result<PathBuf, Failure> {
    let refused = |why: &dyn std::fmt::Display| {
        Failure::usage(format!("--rootfs {}: {why}", path.display()))
            .hint("name a directory that holds a whole system, with its own /bin and /lib")
    };
    let real = path.canonicalize().map_err(|error| refused(&error))?;
    if real.is_dir() { Ok(real) } else { Err(refused(&"it is not a directory")) }
}

/// Whole milliseconds, at least one: a limit of nothing is no limit.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// The spec, but for what this host has to say about it.
///
/// # Errors
/// The layers do not make a spec.
pub(super) fn expand(
    project: &minimal_spec::Project,
    wish: Wish,
    what: &What<'_>,
) -> Result<Expanded, Failure> {
    let expanded = match what {
        What::Entry(entry, overrides) => project.expand(entry.name.as_str(), overrides),
        What::Command(builtin, overrides) => project.expand_as(*builtin, overrides),
    };
    expanded.map_err(|error| {
        let failure = project_file::no_spec(error);
        match what {
            What::Entry(entry, _) if failure.code == ErrorCode::BadRequest => {
                failure.hint(format!("usage: {}", usage(entry, wish)))
            }
            What::Entry(..) | What::Command(..) => failure,
        }
    })
}

/// Refuses to start what ends by itself, and to wait for what does not.
///
/// # Errors
/// A mistake of usage.
pub(super) fn check_lifetime(wish: Wish, what: &What<'_>, spec: &Spec) -> Result<(), Failure> {
    let What::Entry(entry, _) = what else { return Ok(()) };
    let name = &entry.name;
    match (wish, spec.identity.lifetime) {
        (Wish::Run, Lifetime::UntilStopped) => Err(Failure::usage(format!(
            "`{name}` runs until it is stopped, and `min run` waits for the end"
        ))
        .hint(format!("it is started with `min box start {name}`"))),
        (Wish::Start | Wish::Bare, Lifetime::UntilComplete) => {
            let message = format!("`{name}` is a {} that ends by itself", entry.box_type);
            let failure = Failure::usage(message);
            Err(match is_task(&entry.box_type) {
                true => {
                    failure.hint(format!("it is run with `min run {name}`, or `min run -d {name}`"))
                }
                false => failure,
            })
        }
        _ => Ok(()),
    }
}

/// Values of the variables that an entry inherits: the caller's, as they are now.
///
/// # Errors
/// One that the caller does not have, and that has no default.
pub(super) fn inherit(
    context: &Context,
    expanded: &Expanded,
    values: &mut BTreeMap<String, ByteString>,
) -> Result<(), Failure> {
    for (name, default) in &expanded.inherits {
        if values.contains_key(name) {
            continue;
        }
        let value = context.env.get(name).map(ByteString::from);
        let Some(value) = value.or_else(|| default.as_deref().map(ByteString::from)) else {
            let message = format!("the variable {name} is to be inherited, and you have none");
            return Err(Failure::new(ErrorCode::InvalidConfig, message).hint(format!(
                "set {name}, give it with `-e {name}=…`, or give it a `default` in minimal.toml"
            )));
        };
        values.insert(name.clone(), value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_never_rounded_to_none() {
        assert_eq!(milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(milliseconds(Duration::from_millis(1500)), 1500);
    }

    #[test]
    fn the_help_of_a_task_names_its_arguments() {
        let text = "[tasks.t]\ndescription = \"does it\"\nexec = \"a\"\nargs.one = { type = \"number\" }\n\
                    args.two = { type = [\"x\", \"y\"], default = \"x\", help = \"which\" }\n";
        let project = minimal_spec::Project::parse("f", text).unwrap();
        insta::assert_snapshot!(help(project.entry("t").unwrap(), Wish::Run), @r#"
        does it

        Usage: min run t --one <number> [--two <x|y>]

        Arguments:
          --one <number>                [must be given]
          --two <x|y>                  which [default: "x"]
        "#);
    }
}
