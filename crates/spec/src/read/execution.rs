//! What runs: `exec`, `bash`, `restart`, `ready`, `user`, hooks.

use minimal_proto::spec::{DEFAULT_HOOK_TIMEOUT_MS, Ready, Restart};
use serde_json::json;

use super::Reader;
use crate::keys;
use crate::layer::ENTRY;
use crate::problem::Fault;
use crate::shell_words;
use crate::source::{Node, Value};

/// The longest a hook may take, in milliseconds.
const LONGEST_HOOK_MS: u64 = 300_000;

impl Reader<'_> {
    /// A command: a list of words, or a text that is split into some.
    fn command(&mut self, what: &str, node: &Node) -> Option<Vec<String>> {
        let words = match &node.value {
            Value::Text(_) => {
                let text = self.text(what, node)?;
                match shell_words::split(&text) {
                    Ok(words) => words,
                    Err(error) => {
                        self.problem(Fault::WrongValue, &node.span, format!("`{what}`: {error}"));
                        return None;
                    }
                }
            }
            Value::Array(_) => self.texts(what, node)?,
            _ => {
                self.wrong_kind(what, "a list of words, or one text", node);
                return None;
            }
        };
        if words.first().is_none_or(String::is_empty) {
            let why = format!("`{what}` is empty: name a program to run");
            self.problem(Fault::WrongValue, &node.span, why);
            return None;
        }
        Some(words)
    }

    pub(super) fn exec(&mut self, node: &Node) {
        if let Some(words) = self.command("exec", node) {
            self.set(&[ENTRY, "command"], json!({"exec": words}), &node.span);
        }
    }

    pub(super) fn bash(&mut self, node: &Node) {
        let Some(script) = self.text("bash", node) else { return };
        if script.contains("%{") {
            let message = "`bash` has no `%{…}`: a value in a script would be read as script";
            let hint = "a script finds its arguments in variables: `$ARG_NAME`".to_owned();
            self.hinted(Fault::Placeholder, &node.span, message, Some(hint));
            return;
        }
        if script.trim().is_empty() {
            self.problem(Fault::WrongValue, &node.span, "`bash` is empty: there is nothing to run");
            return;
        }
        self.set(&[ENTRY, "command"], json!({"bash": script}), &node.span);
    }

    pub(super) fn user(&mut self, node: &Node) -> Option<String> {
        let user = match node.value {
            // A uid.
            Value::Integer(Some(uid)) if uid >= 0 => uid.to_string(),
            _ => self.text("user", node)?,
        };
        Some(user)
    }

    pub(super) fn restart(&mut self, node: &Node) {
        let default = Restart::default();
        let mut value = json!(default);
        match &node.value {
            Value::Table(_) => {
                let keys = ["policy", "max", "backoff", "backoff_max"];
                let Some(table) = self.table_of("restart", node, &keys) else { return };
                match table.get("policy") {
                    Some(policy) => {
                        let Some(word) = self.word("restart.policy", policy, keys::RESTARTS) else {
                            return;
                        };
                        value["policy"] = json!(word);
                    }
                    None => return self.missing("restart", "policy", &node.span),
                }
                if let Some(max) = table.get("max") {
                    let Some(max) = self.count("restart.max", max, 1, u64::from(u32::MAX)) else {
                        return;
                    };
                    value["max"] = json!(max);
                }
                for (key, to) in [("backoff", "backoff_ms"), ("backoff_max", "backoff_max_ms")] {
                    if let Some(node) = table.get(key) {
                        let Some(time) = self.milliseconds(key, node) else { return };
                        value[to] = json!(time);
                    }
                }
            }
            _ => {
                let Some(word) = self.word("restart", node, keys::RESTARTS) else { return };
                value["policy"] = json!(word);
            }
        }
        self.set(&["execution", "restart"], value, &node.span);
    }

    pub(super) fn ready(&mut self, node: &Node) {
        let keys = ["port", "exec", "timeout", "interval"];
        let Some(table) = self.table_of("ready", node, &keys) else { return };
        let probe = match (table.get("port"), table.get("exec")) {
            (Some(port), None) => {
                self.count("ready.port", port, 1, 65535).map(|port| json!({"port": port}))
            }
            (None, Some(exec)) => {
                self.command("ready.exec", exec).map(|words| json!({"exec": words}))
            }
            (Some(_), Some(exec)) => {
                let why = "`ready` is told by a `port` or by an `exec`, not by both";
                return self.problem(Fault::Conflict, &exec.span, why);
            }
            (None, None) => return self.missing("ready", "port` or `exec", &node.span),
        };
        let mut time = |key: &str, default: u64| match table.get(key) {
            Some(node) => self.milliseconds(key, node),
            None => Some(default),
        };
        let timeout = time("timeout", Ready::DEFAULT_TIMEOUT_MS);
        let interval = time("interval", Ready::DEFAULT_INTERVAL_MS);
        if let (Some(probe), Some(timeout), Some(interval)) = (probe, timeout, interval) {
            let value = json!({"probe": probe, "timeout_ms": timeout, "interval_ms": interval});
            self.set(&["execution", "ready"], value, &node.span);
        }
    }

    pub(super) fn hooks(&mut self, node: &Node) {
        let Some(nodes) = self.array("lifecycle_hooks", node) else { return };
        for node in nodes {
            self.hook(node);
        }
    }

    fn hook(&mut self, node: &Node) {
        let what = "lifecycle_hooks";
        let Some(table) = self.table_of(what, node, &["event", "script", "file", "timeout"]) else {
            return;
        };
        let Some(event) = table.get("event") else {
            return self.missing(what, "event", &node.span);
        };
        let event = self.word("event", event, keys::EVENTS);
        let script = match (table.get("script"), table.get("file")) {
            (Some(script), None) => self.text("script", script).map(|it| json!({"inline": it})),
            (None, Some(file)) => self.below_project("file", file).map(|it| json!({"file": it})),
            (Some(_), Some(file)) => {
                let why = "a hook is a `script` or a `file`, not both";
                return self.problem(Fault::Conflict, &file.span, why);
            }
            (None, None) => return self.missing(what, "script` or `file", &node.span),
        };
        let timeout = match table.get("timeout") {
            None => Some(DEFAULT_HOOK_TIMEOUT_MS),
            Some(node) => self.milliseconds("timeout", node).filter(|time| {
                let fits = *time <= LONGEST_HOOK_MS;
                if !fits {
                    let why = "a hook may take 300s at most";
                    self.problem(Fault::WrongValue, &node.span, why);
                }
                fits
            }),
        };
        if let (Some(event), Some(script), Some(timeout)) = (event, script, timeout) {
            let value = json!({"script": script, "timeout_ms": timeout});
            self.add(&["hooks", &event], value, &node.span);
        }
    }

    /// A relative path that does not lead back out.
    fn below_project(&mut self, what: &str, node: &Node) -> Option<String> {
        let path = self.text(what, node)?;
        let leads_out = path.starts_with(['/', '~']) || path.split('/').any(|part| part == "..");
        if path.is_empty() || leads_out {
            let why = format!("`{what}` is a path below the project, without `..`");
            self.problem(Fault::WrongValue, &node.span, why);
            return None;
        }
        Some(path)
    }
}
