//! From the tree of a file to assignments: each key of an entry has a reader.
//!
//! A reader that cannot make sense of a value says so and goes on: all that is wrong with a file is
//! told at once.

mod entry;
mod execution;
mod files;
mod machine;
mod network;
mod variables;

use std::sync::Arc;

use minimal_proto::{duration, size};
use serde_json::Value as Json;

use crate::layer::{Assign, Layer, LayerName, Origin, Rule, path};
use crate::problem::{Fault, Problem, Problems, meant};
use crate::source::{Key, Node, Source, Span, Table, Value};

pub(crate) use entry::{Allowed, read_settings};

/// Reads one layer.
pub(crate) struct Reader<'a> {
    pub(crate) source: &'a Arc<Source>,
    pub(crate) layer: LayerName,
    pub(crate) problems: &'a mut Problems,
    pub(crate) out: Layer,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(
        source: &'a Arc<Source>,
        layer: LayerName,
        problems: &'a mut Problems,
    ) -> Self {
        Self { source, layer, problems, out: Layer::default() }
    }

    pub(crate) fn problem(&mut self, fault: Fault, span: &Span, message: impl Into<String>) {
        self.hinted(fault, span, message, None);
    }

    pub(crate) fn hinted(
        &mut self,
        fault: Fault,
        span: &Span,
        message: impl Into<String>,
        hint: Option<String>,
    ) {
        let problem = Problem::new(self.source, fault, span.clone(), message)
            .hint(hint)
            .in_layer(&self.layer.to_string());
        self.problems.push(problem);
    }

    pub(crate) fn unknown_key<'k>(
        &mut self,
        key: &Key,
        within: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        if self.problems.is_full() {
            return;
        }
        let text: String = key.text.chars().take(80).collect();
        let hint = meant(&key.text, known);
        self.hinted(
            Fault::UnknownKey,
            &key.span,
            format!("`{text}` is not a key of {within}"),
            hint,
        );
    }

    fn wrong_kind(&mut self, what: &str, takes: &str, node: &Node) {
        let kind = node.kind();
        self.problem(
            Fault::WrongKind,
            &node.span,
            format!("`{what}` takes {takes}, and this is {kind}"),
        );
    }

    fn assign(&mut self, rule: Rule, keys: &[&str], value: impl Into<Json>, span: &Span) {
        let origin = Origin::at(self.layer.clone(), self.source, span);
        self.out.0.push(Assign { path: path(keys), rule, value: value.into(), origin });
    }

    /// A later value replaces an earlier one.
    pub(crate) fn set(&mut self, keys: &[&str], value: impl Into<Json>, span: &Span) {
        self.assign(Rule::Replace, keys, value, span);
    }

    /// One more of a list.
    pub(crate) fn add(&mut self, keys: &[&str], value: impl Into<Json>, span: &Span) {
        self.assign(Rule::Add, keys, value, span);
    }

    pub(crate) fn text(&mut self, what: &str, node: &Node) -> Option<String> {
        match &node.value {
            Value::Text(text) if text.contains('\0') => {
                let why = format!("`{what}` holds a NUL byte, which the kernel cannot pass on");
                self.problem(Fault::WrongValue, &node.span, why);
                None
            }
            Value::Text(text) => Some(text.clone()),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Time => {
                let written = self.source.slice(&node.span).to_owned();
                let message = format!("`{what}` takes a text, and this is {}", node.kind());
                let hint = Some(format!("write \"{written}\""));
                self.hinted(Fault::WrongKind, &node.span, message, hint);
                None
            }
            Value::Array(_) | Value::Table(_) => {
                self.wrong_kind(what, "a text", node);
                None
            }
        }
    }

    pub(crate) fn boolean(&mut self, what: &str, node: &Node) -> Option<bool> {
        match node.value {
            Value::Boolean(it) => Some(it),
            _ => {
                self.wrong_kind(what, "true or false", node);
                None
            }
        }
    }

    /// One of some words.
    pub(crate) fn word(&mut self, what: &str, node: &Node, words: &[&str]) -> Option<String> {
        let text = self.text(what, node)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let shown: String = text.chars().take(80).collect();
        let message = format!("`{what}` cannot be `{shown}`: it is one of {}", words.join(", "));
        self.hinted(Fault::WrongValue, &node.span, message, meant(&text, words.iter().copied()));
        None
    }

    pub(crate) fn milliseconds(&mut self, what: &str, node: &Node) -> Option<u64> {
        let text = self.text(what, node)?;
        match duration::parse(&text) {
            // A limit of nothing is no limit.
            Ok(duration) => Some(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)),
            Err(error) => {
                self.problem(Fault::WrongValue, &node.span, format!("`{what}`: {error}"));
                None
            }
        }
    }

    pub(crate) fn size(&mut self, what: &str, node: &Node) -> Option<u64> {
        let text = self.text(what, node)?;
        match size::parse(&text) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.problem(Fault::WrongValue, &node.span, format!("`{what}`: {error}"));
                None
            }
        }
    }

    /// A whole number within a range.
    pub(crate) fn count(&mut self, what: &str, node: &Node, least: u64, most: u64) -> Option<u64> {
        let Value::Integer(number) = node.value else {
            self.wrong_kind(what, "a whole number", node);
            return None;
        };
        let number = number.and_then(|number| u64::try_from(number).ok());
        let fits = number.filter(|number| (least..=most).contains(number));
        if fits.is_none() {
            let why = format!("`{what}` is a number from {least} to {most}");
            self.problem(Fault::WrongValue, &node.span, why);
        }
        fits
    }

    pub(crate) fn array<'n>(&mut self, what: &str, node: &'n Node) -> Option<&'n [Node]> {
        match &node.value {
            Value::Array(nodes) => Some(nodes),
            _ => {
                self.wrong_kind(what, "a list", node);
                None
            }
        }
    }

    pub(crate) fn table<'n>(&mut self, what: &str, node: &'n Node) -> Option<&'n Table> {
        match &node.value {
            Value::Table(table) => Some(table),
            _ => {
                self.wrong_kind(what, "a table", node);
                None
            }
        }
    }

    /// A table that has no keys but these.
    pub(crate) fn table_of<'n>(
        &mut self,
        what: &str,
        node: &'n Node,
        keys: &[&str],
    ) -> Option<&'n Table> {
        let table = self.table(what, node)?;
        for (key, _) in &table.0 {
            if !keys.contains(&key.text.as_str()) {
                self.unknown_key(key, &format!("`{what}`"), keys.iter().copied());
            }
        }
        Some(table)
    }

    pub(crate) fn texts(&mut self, what: &str, node: &Node) -> Option<Vec<String>> {
        let nodes = self.array(what, node)?;
        let texts: Vec<_> = nodes.iter().map(|node| self.text(what, node)).collect();
        texts.into_iter().collect()
    }

    pub(crate) fn missing(&mut self, what: &str, key: &str, span: &Span) {
        self.problem(Fault::MissingKey, span, format!("`{what}` needs `{key}`"));
    }
}
