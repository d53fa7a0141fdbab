//! Limits.

use serde_json::{Value as Json, json};

use super::Reader;
use crate::problem::Fault;
use crate::source::{Node, Value};

/// A limit as the spec has it.
fn limit_json(max: Option<u64>, required: bool) -> Json {
    json!({"max": max.map_or(json!("auto"), |max| json!(max)), "required": required})
}

impl Reader<'_> {
    /// A limit: a number of its kind, `auto`, or a table that says whether it is required.
    pub(super) fn limit(
        &mut self,
        name: &str,
        node: &Node,
        number: fn(&mut Self, &str, &Node) -> Option<u64>,
    ) {
        let (max, required) = match &node.value {
            Value::Table(_) => {
                let Some(table) = self.table_of(name, node, &["max", "required"]) else { return };
                let required = match table.get("required") {
                    Some(node) => self.boolean("required", node),
                    None => Some(false),
                };
                let Some(required) = required else { return };
                (table.get("max"), required)
            }
            _ => (Some(node), false),
        };
        let max = match max {
            None => None,
            Some(Node { value: Value::Text(text), .. }) if text == "auto" => None,
            Some(node) => {
                let Some(number) = number(self, name, node) else { return };
                Some(number)
            }
        };
        self.set(&["machine", name], limit_json(max, required), &node.span);
    }

    pub(super) fn size_max(&mut self, name: &str, node: &Node) -> Option<u64> {
        self.size(name, node)
    }

    pub(super) fn pids_max(&mut self, name: &str, node: &Node) -> Option<u64> {
        self.count(name, node, 1, u64::from(u32::MAX))
    }

    /// Processors, in thousandths.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was found to be in range"
    )]
    pub(super) fn cpus_max(&mut self, name: &str, node: &Node) -> Option<u64> {
        let number = match node.value {
            Value::Integer(Some(number)) => u32::try_from(number).ok().map(f64::from),
            Value::Float(number) => number,
            _ => {
                self.wrong_kind(name, "a number of processors", node);
                return None;
            }
        };
        match number.map(|number| (number * 1000.0).round()) {
            Some(thousandths) if (1.0..=1e9).contains(&thousandths) => Some(thousandths as u64),
            Some(_) | None => {
                let why = format!("`{name}` is a number of processors from 0.001 to 1000000");
                self.problem(Fault::WrongValue, &node.span, why);
                None
            }
        }
    }
}
