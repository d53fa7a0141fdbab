//! The keys of an entry, one by one.

use serde_json::{Value as Json, json};

use super::Reader;
use crate::keys;
use crate::layer::ENTRY;
use crate::problem::Fault;
use crate::source::{Node, Table, Value};

/// Which keys a table may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// All of them.
    Entry,
    /// Those that can be a default.
    Defaults,
}

/// Reads a table of settings. `others` are keys that are read elsewhere.
pub(crate) fn read_settings(
    reader: &mut Reader<'_>,
    within: &str,
    table: &Table,
    allowed: Allowed,
    others: &[&str],
) {
    let in_defaults = allowed == Allowed::Defaults;
    for (key, node) in &table.0 {
        if reader.problems.is_full() {
            return;
        }
        let name = key.text.as_str();
        if others.contains(&name) {
            continue;
        }
        if !keys::names(in_defaults).any(|known| known == name) {
            if in_defaults && keys::names(false).any(|known| known == name) {
                let why = format!("`{name}` is a key of an entry, and not of {within}");
                reader.problem(Fault::UnknownKey, &key.span, why);
            } else {
                let mut known: Vec<&str> = Vec::from(others);
                known.extend(keys::names(in_defaults).map(|name| -> &str { name }));
                reader.unknown_key(key, within, known);
            }
            continue;
        }
        read_key(reader, name, node);
    }
    if let (Some(_), Some(bash)) = (table.get("exec"), table.get("bash")) {
        let why = "`exec` and `bash` exclude each other: a box runs one command";
        reader.problem(Fault::Conflict, &bash.span, why);
    }
}

/// Reads a key that is in the table of keys.
fn read_key(reader: &mut Reader<'_>, name: &str, node: &Node) {
    let span = &node.span;
    match name {
        // Read with the entry's name.
        "type" => {}
        "description" => {
            if let Some(text) = reader.text(name, node) {
                reader.set(&[ENTRY, name], text, span);
            }
        }
        "args" => reader.arguments(node),
        "exec" => reader.exec(node),
        "bash" => reader.bash(node),
        "inherit_cwd" => reader.flag(&[ENTRY, name], name, node),
        "lifetime" => reader.choice(&["box", name], name, node, keys::LIFETIMES),
        "vars" => reader.variables(node),
        "user" => {
            if let Some(user) = reader.user(node) {
                reader.set(&["execution", name], user, span);
            }
        }
        "timeout" => reader.time(&["execution", "timeout_ms"], name, node),
        "stop_grace" => reader.time(&["execution", "stop_grace_ms"], name, node),
        "on_oom" => reader.choice(&["execution", name], name, node, keys::OOM),
        "restart" => reader.restart(node),
        "ready" => reader.ready(node),
        "pty_enabled" | "resume" | "log_max" => reader.io_key(name, node),
        "io" => {
            let keys = ["pty_enabled", "exec_enabled", "resume", "log_max"];
            let Some(table) = reader.table_of(name, node, &keys) else { return };
            for (key, node) in &table.0 {
                reader.io_key(&key.text, node);
            }
        }
        "rootfs" => reader.rootfs(node),
        "workspace" => reader.workspace(node),
        "mounts" => reader.mounts(node),
        "patches" => reader.patches(node),
        "network" => reader.network(node),
        "ram" | "disk" => reader.limit(name, node, Reader::size_max),
        "pids" => reader.limit(name, node, Reader::pids_max),
        "cpus" => reader.limit(name, node, Reader::cpus_max),
        "cpu_arch" => reader.choice(&["machine", name], name, node, keys::ARCHS),
        "params" => reader.params(node),
        "lifecycle_hooks" => reader.hooks(node),
        "hooks_on_resume" => reader.flag(&["hooks", "on_resume"], name, node),
        _ => unreachable!("`{name}` is in the table of keys and has no reader"),
    }
}

impl Reader<'_> {
    fn flag(&mut self, keys: &[&str], what: &str, node: &Node) {
        if let Some(it) = self.boolean(what, node) {
            self.set(keys, it, &node.span);
        }
    }

    pub(super) fn choice(&mut self, keys: &[&str], what: &str, node: &Node, words: &[&str]) {
        if let Some(word) = self.word(what, node, words) {
            self.set(keys, word, &node.span);
        }
    }

    fn time(&mut self, keys: &[&str], what: &str, node: &Node) {
        if let Some(milliseconds) = self.milliseconds(what, node) {
            self.set(keys, milliseconds, &node.span);
        }
    }

    fn io_key(&mut self, name: &str, node: &Node) {
        match name {
            "pty_enabled" | "exec_enabled" => self.flag(&["io", name], name, node),
            "resume" => self.choice(&["io", name], name, node, keys::RESUMES),
            "log_max" => {
                if let Some(bytes) = self.size(name, node) {
                    self.set(&["io", name], bytes, &node.span);
                }
            }
            // Told as unknown.
            _ => {}
        }
    }

    /// Any value that JSON has.
    fn params(&mut self, node: &Node) {
        if self.table("params", node).is_some()
            && let Some(value) = self.json("params", node)
        {
            self.set(&["params"], value, &node.span);
        }
    }

    fn json(&mut self, what: &str, node: &Node) -> Option<Json> {
        let largest = i64::try_from(minimal_proto::spec::MAX_NUMBER).unwrap_or(i64::MAX);
        match &node.value {
            Value::Text(text) => Some(json!(text)),
            Value::Integer(Some(number)) if (-largest..=largest).contains(number) => {
                Some(json!(number))
            }
            Value::Float(Some(number)) if number.is_finite() => Some(json!(number)),
            Value::Boolean(it) => Some(json!(it)),
            Value::Array(nodes) => {
                let values: Vec<_> = nodes.iter().map(|node| self.json(what, node)).collect();
                values.into_iter().collect::<Option<Vec<_>>>().map(Json::Array)
            }
            Value::Table(table) => {
                let values: Vec<_> = table
                    .0
                    .iter()
                    .map(|(key, node)| Some((key.text.clone(), self.json(what, node)?)))
                    .collect();
                values.into_iter().collect::<Option<serde_json::Map<_, _>>>().map(Json::Object)
            }
            Value::Integer(_) | Value::Float(_) => {
                let why =
                    format!("`{what}`: not every reader of JSON keeps this number; make it a text");
                self.problem(Fault::WrongValue, &node.span, why);
                None
            }
            Value::Time => {
                let why = format!("`{what}`: JSON has no times; make it a text");
                self.problem(Fault::WrongValue, &node.span, why);
                None
            }
        }
    }
}
