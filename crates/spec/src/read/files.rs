//! What a box sees of the host's files.

use serde_json::{Value as Json, json};

use minimal_proto::pattern;

use super::Reader;
use crate::keys;
use crate::problem::Fault;
use crate::source::{Node, Value};

impl Reader<'_> {
    pub(super) fn rootfs(&mut self, node: &Node) {
        let Some(text) = self.text("rootfs", node) else { return };
        if text.is_empty() {
            let why = "`rootfs` is `host` or a directory";
            return self.problem(Fault::WrongValue, &node.span, why);
        }
        let value = if text == "host" { json!(text) } else { json!({"path": text}) };
        self.set(&["files", "rootfs"], value, &node.span);
    }

    pub(super) fn workspace(&mut self, node: &Node) {
        let (mode, exclude, required) = match &node.value {
            Value::Table(_) => {
                let keys = ["mode", "exclude", "required"];
                let Some(table) = self.table_of("workspace", node, &keys) else { return };
                let Some(mode) = table.get("mode") else {
                    return self.missing("workspace", "mode", &node.span);
                };
                let mode = self.word("workspace.mode", mode, keys::WORKSPACES);
                let exclude = match table.get("exclude") {
                    Some(node) => self.texts("workspace.exclude", node),
                    None => Some(Vec::new()),
                };
                let required = match table.get("required") {
                    Some(node) => self.boolean("workspace.required", node),
                    None => Some(false),
                };
                (mode, exclude, required)
            }
            _ => (self.word("workspace", node, keys::WORKSPACES), Some(Vec::new()), Some(false)),
        };
        if let (Some(mode), Some(exclude), Some(required)) = (mode, exclude, required) {
            if mode != "copy" && !exclude.is_empty() {
                let why = "`exclude` is what a copy leaves out: it goes with `mode = \"copy\"`";
                return self.problem(Fault::Conflict, &node.span, why);
            }
            self.set(&["files", "workspace"], mode, &node.span);
            self.set(&["files", "workspace_exclude"], exclude, &node.span);
            self.set(&["files", "workspace_required"], required, &node.span);
        }
    }

    pub(super) fn mounts(&mut self, node: &Node) {
        let Some(nodes) = self.array("mounts", node) else { return };
        for node in nodes {
            let Some(table) = self.table_of("mounts", node, &["source", "dest", "mode"]) else {
                continue;
            };
            let mode = match table.get("mode") {
                Some(mode) => self.word("mode", mode, keys::MOUNT_MODES),
                None => Some("ro".to_owned()),
            };
            let ends = self.source_and_dest("mounts", node, table.get("source"), table.get("dest"));
            if let (Some((source, dest)), Some(mode)) = (ends, mode) {
                let value = json!({"source": source, "dest": dest, "mode": mode});
                self.add(&["files", "mounts"], value, &node.span);
            }
        }
    }

    pub(super) fn patches(&mut self, node: &Node) {
        let Some(nodes) = self.array("patches", node) else { return };
        for node in nodes {
            let Some(table) = self.table_of("patches", node, &["source", "dest"]) else { continue };
            let ends =
                self.source_and_dest("patches", node, table.get("source"), table.get("dest"));
            if let Some((source, dest)) = ends {
                let value = json!({"source": source, "dest": dest});
                self.add(&["files", "patches"], value, &node.span);
            }
        }
    }

    /// Where something is on the host, and where it is in the box: below the box's home (`~/`) what
    /// is below the caller's, else at the same path.
    fn source_and_dest(
        &mut self,
        what: &str,
        node: &Node,
        source: Option<&Node>,
        dest: Option<&Node>,
    ) -> Option<(String, Json)> {
        let Some(source_node) = source else {
            self.missing(what, "source", &node.span);
            return None;
        };
        let source = self.text("source", source_node)?;
        if source.is_empty() || (source.starts_with('~') && !source.starts_with("~/")) {
            let why = "`source` is a path: absolute, relative to the project, or below your home with `~/`";
            self.problem(Fault::WrongValue, &source_node.span, why);
            return None;
        }
        let Some(dest_node) = dest else {
            if source.starts_with(['/', '~']) {
                // What a pattern stands for goes where it is on the host.
                let (directory, last) = source.rsplit_once('/').unwrap_or(("", &source));
                let is_pattern = what == "patches" && pattern::is_one(last.as_bytes());
                let dest = if is_pattern { format!("{directory}/") } else { source.clone() };
                return Some((source, json!(dest)));
            }
            let why = format!("`{what}` needs `dest`, since `source` is relative to the project");
            self.problem(Fault::MissingKey, &node.span, why);
            return None;
        };
        let dest = self.text("dest", dest_node)?;
        let below = dest.strip_prefix("~/").or(dest.strip_prefix('/'));
        if what == "patches" && dest == "~/" {
            return Some((source, json!(dest)));
        }
        let is_place = |below: &str| {
            let mut parts = below.split('/').filter(|part| !part.is_empty()).peekable();
            parts.peek().is_some() && parts.all(|part| part != "." && part != "..")
        };
        if !below.is_some_and(is_place) {
            let why = "`dest` is a path in the box: absolute, or below the box's home with `~/`; without `..`";
            self.problem(Fault::WrongValue, &dest_node.span, why);
            return None;
        }
        Some((source, json!(dest)))
    }
}
