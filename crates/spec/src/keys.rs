//! Every key of an entry, as data: for reading, for unknown ones, for the schema and the reference.

use serde_json::{Value as Json, json};

/// A key of an entry.
#[derive(Debug)]
pub struct KeyInfo {
    /// The key.
    pub name: &'static str,
    /// What it takes, as JSON Schema.
    pub form: fn() -> Json,
    /// What it sets in the spec; `None`: nothing of its own.
    pub sets: Option<&'static str>,
    /// What holds where no layer has it, in words.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Whether `[defaults]` and types have it: else only an entry.
    pub in_defaults: bool,
}

const fn key(
    name: &'static str,
    form: fn() -> Json,
    sets: Option<&'static str>,
    default: &'static str,
    doc: &'static str,
) -> KeyInfo {
    KeyInfo { name, form, sets, default, doc, in_defaults: true }
}

const fn of_entry(
    name: &'static str,
    form: fn() -> Json,
    default: &'static str,
    doc: &'static str,
) -> KeyInfo {
    KeyInfo { name, form, sets: None, default, doc, in_defaults: false }
}

pub(crate) const LIFETIMES: &[&str] = &["until_complete", "until_stopped"];
pub(crate) const RESUMES: &[&str] = &["attach", "explicit", "never"];
pub(crate) const RESTARTS: &[&str] = &["never", "on_failure", "always"];
pub(crate) const WORKSPACES: &[&str] = &["none", "overlay", "copy", "bind"];
pub(crate) const MOUNT_MODES: &[&str] = &["ro", "rw", "overlay"];
pub(crate) const NETWORK_MODES: &[&str] = &["none", "host_ip", "own_ip"];
pub(crate) const DYNAMIC: &[&str] = &["allow", "ask", "deny"];
pub(crate) const PROTOCOLS: &[&str] = &["tcp", "udp"];
pub(crate) const OOM: &[&str] = &["kill_process", "end_box"];
pub(crate) const ARCHS: &[&str] = &["x86_64", "aarch64", "riscv64"];
pub(crate) const EVENTS: &[&str] = &["on_activate", "on_attach", "on_detach", "on_destroy"];

/// Every key of an entry, by section of the spec.
pub const KEYS: &[KeyInfo] = &[
    of_entry(
        "type",
        text,
        "by the table",
        "The type, where the table does not say it: `[boxes.x]`.",
    ),
    of_entry("description", text, "none", "What it is for; listings show it."),
    of_entry("args", table_of_arguments, "none", "Arguments, given as `--name value`."),
    key(
        "exec",
        words,
        Some("execution.exec"),
        "none; a session: `bash -l`",
        "Program and arguments: a list, or one text that is split as a shell would. `%{name}` stands for an argument, as a whole value.",
    ),
    key(
        "bash",
        text,
        Some("execution.exec"),
        "none",
        "A script, run by `/bin/bash -c`. It finds arguments in `$ARG_NAME`.",
    ),
    key(
        "inherit_cwd",
        boolean,
        None,
        "false",
        "Start in the caller's directory below the project, instead of at its root.",
    ),
    key(
        "lifetime",
        || one_of(LIFETIMES),
        Some("box.lifetime"),
        "by the type",
        "Whether the box ends with its program, or when it is stopped.",
    ),
    key(
        "vars",
        table_of_variables,
        Some("execution.env"),
        "none",
        "Variables. `{ inherit = true }` takes the caller's value at the start; it is never stored.",
    ),
    key("user", user, Some("execution.user"), "`box`", "Who runs it: a name or uid of the box."),
    key("timeout", duration, Some("execution.timeout_ms"), "none", "Ends the box after this time."),
    key(
        "stop_grace",
        duration,
        Some("execution.stop_grace_ms"),
        "`10s`",
        "How long a stop waits between TERM and KILL.",
    ),
    key(
        "on_oom",
        || one_of(OOM),
        Some("execution.on_oom"),
        "by the type",
        "What ends when the box runs out of memory.",
    ),
    key(
        "restart",
        restart,
        Some("execution.restart"),
        "by the type",
        "Whether a program that returned is started again.",
    ),
    key(
        "ready",
        ready,
        Some("execution.ready"),
        "none",
        "What tells that the box is ready: a port or a command.",
    ),
    key(
        "pty_enabled",
        boolean,
        Some("io.pty_enabled"),
        "by the type",
        "Whether the program has a terminal.",
    ),
    key(
        "resume",
        || one_of(RESUMES),
        Some("io.resume"),
        "by the type",
        "What begins a further life of the ended box.",
    ),
    key("log_max", size, Some("io.log_max"), "`256MiB`", "How much of the output is kept."),
    key(
        "io",
        io,
        Some("io"),
        "none",
        "`exec_enabled` (whether further commands may run in the box), and the keys above.",
    ),
    key(
        "rootfs",
        text,
        Some("files.rootfs"),
        "`host`",
        "Where system directories come from: `host`, or a directory.",
    ),
    key(
        "workspace",
        workspace,
        Some("files.workspace"),
        "by the type",
        "How the project is at `/workbench`. `exclude` is what a copy leaves out: names at any depth, or paths from the project with a `/` in them.",
    ),
    key(
        "mounts",
        mounts,
        Some("files.mounts"),
        "none",
        "Files and directories of the host that the box sees. `dest` is where; without it the same place below the box's home.",
    ),
    key(
        "patches",
        patches,
        Some("files.patches"),
        "none",
        "Files and directories of the host that are copied into the box's home, `/tmp` or workspace before its first life. In the last part of `source`, `*` and `?` stand for parts of names.",
    ),
    key("network", network, Some("network"), "`mode = \"none\"`", "What the box reaches."),
    key("ram", size_limit, Some("machine.ram"), "`auto`", "Memory, swap included."),
    key("pids", count_limit, Some("machine.pids"), "`auto`", "Processes and threads at a time."),
    key("cpus", cpu_limit, Some("machine.cpus"), "`auto`", "Processor time, in processors."),
    key("disk", size_limit, Some("machine.disk"), "`auto`", "What its own files may take."),
    key("cpu_arch", || one_of(ARCHS), Some("machine.cpu_arch"), "any", "The processor it needs."),
    key(
        "params",
        || json!({"type": "object"}),
        Some("params"),
        "none",
        "Values that the box reads as JSON from the file `$MINIMAL_PARAMS_FILE`.",
    ),
    key(
        "lifecycle_hooks",
        hooks,
        Some("hooks"),
        "none",
        "Scripts that run in the box at points of its life.",
    ),
    key(
        "hooks_on_resume",
        boolean,
        Some("hooks.on_resume"),
        "false",
        "Whether a further life runs `on_activate` again.",
    ),
];

/// The keys that an entry has, or `[defaults]` and types.
pub(crate) fn names(in_defaults: bool) -> impl Iterator<Item = &'static str> {
    KEYS.iter().filter(move |key| !in_defaults || key.in_defaults).map(|key| key.name)
}

fn text() -> Json {
    json!({"type": "string"})
}

fn user() -> Json {
    json!({"oneOf": [text(), {"type": "integer", "minimum": 0}]})
}

fn boolean() -> Json {
    json!({"type": "boolean"})
}

fn one_of(words: &[&str]) -> Json {
    json!({"enum": words})
}

fn words() -> Json {
    json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]})
}

fn duration() -> Json {
    json!({"type": "string", "title": "duration", "pattern": "^([0-9]+(\\.[0-9]+)?(ms|s|m|h|d))+$"})
}

fn size() -> Json {
    json!({"type": "string", "title": "size", "pattern": "^[0-9]+(\\.[0-9]+)?(KiB|MiB|GiB|TiB)$"})
}

fn limit(max: &Json) -> Json {
    let max = json!({"oneOf": [{"const": "auto"}, max]});
    json!({"oneOf": [max, {
        "type": "object",
        "properties": {"max": max, "required": boolean()},
        "additionalProperties": false,
    }]})
}

fn size_limit() -> Json {
    limit(&size())
}

fn count_limit() -> Json {
    limit(&json!({"type": "integer", "minimum": 1}))
}

fn cpu_limit() -> Json {
    limit(&json!({"type": "number", "minimum": 0.001}))
}

fn object(properties: &Json, required: &[&str]) -> Json {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn table_of_arguments() -> Json {
    let one = object(
        &json!({
            "type": {"oneOf": [
                {"enum": [
                    "string", "number", "boolean", "bool",
                    "Array string", "Array number", "Array boolean", "Array bool",
                ]},
                {"type": "array", "items": text(), "minItems": 1},
            ]},
            "default": true,
            "help": text(),
        }),
        &["type"],
    );
    json!({"type": "object", "additionalProperties": one})
}

fn table_of_variables() -> Json {
    let inherit = object(&json!({"inherit": {"const": true}, "default": text()}), &["inherit"]);
    json!({"type": "object", "additionalProperties": {"oneOf": [text(), inherit]}})
}

fn restart() -> Json {
    let table = object(
        &json!({
            "policy": one_of(RESTARTS),
            "max": {"type": "integer", "minimum": 1},
            "backoff": duration(),
            "backoff_max": duration(),
        }),
        &["policy"],
    );
    json!({"oneOf": [one_of(RESTARTS), table]})
}

fn ready() -> Json {
    let port = json!({"type": "integer", "minimum": 1, "maximum": 65535});
    object(
        &json!({"port": port, "exec": words(), "timeout": duration(), "interval": duration()}),
        &[],
    )
}

fn io() -> Json {
    object(
        &json!({
            "pty_enabled": boolean(),
            "exec_enabled": boolean(),
            "resume": one_of(RESUMES),
            "log_max": size(),
        }),
        &[],
    )
}

fn workspace() -> Json {
    let exclude = json!({"type": "array", "items": text()});
    let table = object(
        &json!({"mode": one_of(WORKSPACES), "exclude": exclude, "required": boolean()}),
        &["mode"],
    );
    json!({"oneOf": [one_of(WORKSPACES), table]})
}

fn mounts() -> Json {
    let one = object(
        &json!({"source": text(), "dest": text(), "mode": one_of(MOUNT_MODES)}),
        &["source"],
    );
    json!({"type": "array", "items": one})
}

fn patches() -> Json {
    json!({"type": "array", "items": object(&json!({"source": text(), "dest": text()}), &["source"])})
}

fn network() -> Json {
    let texts = || json!({"type": "array", "items": text()});
    let egress = object(
        &json!({
            "allow_dns_hosts": texts(),
            "allow_subnets": texts(),
            "deny_subnets": texts(),
            "allow_protocols": {"type": "array", "items": one_of(PROTOCOLS)},
        }),
        &[],
    );
    object(
        &json!({
            "mode": one_of(NETWORK_MODES),
            "egress": egress,
            "ingress": texts(),
            "dynamic_ingress": one_of(DYNAMIC),
        }),
        &[],
    )
}

fn hooks() -> Json {
    let one = object(
        &json!({"event": one_of(EVENTS), "script": text(), "file": text(), "timeout": duration()}),
        &["event"],
    );
    json!({"type": "array", "items": one})
}
