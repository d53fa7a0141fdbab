//! Variables and arguments.

use std::collections::BTreeMap;

use serde_json::json;

use super::Reader;
use crate::arguments::{Argument, ArgumentType, Scalar, variable};
use crate::layer::ENTRY;
use crate::problem::{Fault, meant};
use crate::source::{Node, Value};

/// Types of arguments by their words.
const SCALARS: &[(&str, Scalar)] = &[
    ("string", Scalar::String),
    ("number", Scalar::Number),
    ("boolean", Scalar::Boolean),
    ("bool", Scalar::Boolean),
];

impl Reader<'_> {
    pub(super) fn variables(&mut self, node: &Node) {
        let Some(table) = self.table("vars", node) else { return };
        for (key, node) in &table.0 {
            let name = key.text.as_str();
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !begins || !name.chars().all(fits) {
                let shown: String = name.chars().take(80).collect();
                let why = format!(
                    "`{shown}` cannot name a variable: letters of ASCII, digits and `_` can, not first a digit"
                );
                self.problem(Fault::WrongName, &key.span, why);
                continue;
            }
            let inherits = [ENTRY, "inherits", name];
            if let Value::Table(_) = node.value {
                if let Some(default) = self.inherited(name, node) {
                    self.set(&["execution", "env", name], "given", &node.span);
                    self.set(&inherits, json!({"default": default}), &node.span);
                }
            } else if let Some(value) = self.text(name, node) {
                self.set(&["execution", "env", name], json!({"value": value}), &node.span);
                self.set(&inherits, json!(null), &node.span);
            }
        }
    }

    /// `{ inherit = true }`: what holds where the caller has no such variable, if anything does.
    fn inherited(&mut self, name: &str, node: &Node) -> Option<Option<String>> {
        let table = self.table_of(name, node, &["inherit", "default"])?;
        let Some(inherit) = table.get("inherit") else {
            self.missing(name, "inherit", &node.span);
            return None;
        };
        if !self.boolean("inherit", inherit)? {
            let why = "`inherit` is true, or the variable is left out";
            self.problem(Fault::WrongValue, &inherit.span, why);
            return None;
        }
        match table.get("default") {
            Some(default) => self.text("default", default).map(Some),
            None => Some(None),
        }
    }

    pub(super) fn arguments(&mut self, node: &Node) {
        let Some(table) = self.table("args", node) else { return };
        let mut variables = BTreeMap::new();
        for (key, node) in &table.0 {
            let name = key.text.as_str();
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
            let begins = name.starts_with(|c: char| c.is_ascii_lowercase());
            if !begins || !name.chars().all(fits) || name.len() > 63 || name == "help" {
                let shown: String = name.chars().take(80).collect();
                let why = format!(
                    "`{shown}` cannot name an argument: small letters, digits, `-` and `_` can, first a letter; not `help`"
                );
                self.problem(Fault::WrongName, &key.span, why);
                continue;
            }
            if let Some(other) = variables.insert(variable(name), name) {
                let why = format!(
                    "`{name}` and `{other}` would be the same variable, ${}",
                    variable(name)
                );
                self.problem(Fault::Taken, &key.span, why);
                continue;
            }
            if let Some(argument) = self.argument(name, node) {
                self.set(&[ENTRY, "args", name], json!(argument), &node.span);
            }
        }
    }

    fn argument(&mut self, name: &str, node: &Node) -> Option<Argument> {
        let what = format!("args.{name}");
        let table = self.table_of(&what, node, &["type", "default", "help"])?;
        let Some(type_node) = table.get("type") else {
            self.missing(&what, "type", &node.span);
            return None;
        };
        let argument_type = self.argument_type(type_node)?;
        let default = match table.get("default") {
            None => None,
            Some(node) => Some(self.elements(&argument_type, node)?),
        };
        let help = match table.get("help") {
            None => None,
            Some(node) => Some(self.text("help", node)?),
        };
        Some(Argument { argument_type, default, help })
    }

    fn argument_type(&mut self, node: &Node) -> Option<ArgumentType> {
        if let Value::Array(_) = node.value {
            let words = self.texts("type", node)?;
            if words.is_empty() {
                self.problem(
                    Fault::WrongValue,
                    &node.span,
                    "`type` lists no word that could be given",
                );
                return None;
            }
            return Some(ArgumentType { scalar: Scalar::OneOf(words), array: false });
        }
        let text = self.text("type", node)?;
        let (word, array) = match text.strip_prefix("Array ") {
            Some(word) => (word.trim(), true),
            None => (text.as_str(), false),
        };
        let scalar = SCALARS.iter().find(|(known, _)| *known == word);
        let Some((_, scalar)) = scalar else {
            let shown: String = text.chars().take(80).collect();
            let message = format!(
                "there is no type `{shown}` of arguments: `string`, `number`, `boolean`, one of these behind `Array `, or a list of words"
            );
            let hint = meant(word, SCALARS.iter().map(|(word, _)| *word));
            self.hinted(Fault::WrongValue, &node.span, message, hint);
            return None;
        };
        Some(ArgumentType { scalar: scalar.clone(), array })
    }

    /// A default, in elements.
    fn elements(&mut self, argument_type: &ArgumentType, node: &Node) -> Option<Vec<String>> {
        let nodes = match &node.value {
            Value::Array(nodes) if argument_type.array => nodes.as_slice(),
            _ if argument_type.array => {
                self.wrong_kind("default", "a list", node);
                return None;
            }
            _ => std::slice::from_ref(node),
        };
        let mut elements = Vec::new();
        for node in nodes {
            let element = match &node.value {
                Value::Text(text) => Some(text.clone()),
                // As it was written.
                Value::Integer(Some(_)) | Value::Float(Some(_)) | Value::Boolean(_) => {
                    Some(self.source.slice(&node.span).to_owned())
                }
                _ => None,
            };
            let fits = |element: &String| {
                let is_text = matches!(node.value, Value::Text(_));
                let wants_text = matches!(argument_type.scalar, Scalar::String | Scalar::OneOf(_));
                is_text == wants_text && argument_type.takes(element)
            };
            match element.filter(fits) {
                Some(element) => elements.push(element),
                None => {
                    let why = format!("`default` is not of the type {argument_type}");
                    self.problem(Fault::WrongValue, &node.span, why);
                    return None;
                }
            }
        }
        Some(elements)
    }
}
