//! The text of a file, and the tree that TOML makes of it, with where everything stands.

use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{Fault, Problem};

/// The longest file that is read, in bytes. One of 10,000 entries is a fifth of it.
pub const MAX_TEXT: usize = 4 << 20;

/// The most problems of one file that are told.
pub(crate) const MAX_PROBLEMS: usize = 50;

/// A file: what to call it, and what it holds.
#[derive(Debug)]
pub struct Source {
    name: String,
    text: String,
    /// Offsets at which lines begin.
    lines: Vec<usize>,
}

/// Bytes of a file.
pub(crate) type Span = Range<usize>;

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Arc<Self> {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Arc::new(Self { name: name.to_owned(), text: text.to_owned(), lines })
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Line and column (in characters) of an offset, both from 1.
    pub(crate) fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|begin| *begin <= offset).max(1);
        let begin = self.lines[line - 1];
        let before = self.text.get(begin..offset.min(self.text.len()));
        (line, before.map_or(0, |before| before.chars().count()) + 1)
    }

    /// A line's text, without its end.
    pub(crate) fn line(&self, line: usize) -> &str {
        let begin = self.lines[line - 1];
        let end = self.lines.get(line).map_or(self.text.len(), |next| next - 1);
        self.text.get(begin..end).unwrap_or_default().trim_end_matches('\r')
    }

    pub(crate) fn slice(&self, span: &Span) -> &str {
        self.text.get(span.clone()).unwrap_or_default()
    }
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

/// A value of TOML.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    /// As it was written, without underscores; and its radix.
    Integer(Option<i64>),
    Float(Option<f64>),
    Boolean(bool),
    /// Times are no value of any key.
    Time,
    Array(Vec<Node>),
    Table(Table),
}

/// A table's keys in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(pub(crate) Vec<(Key, Node)>);

/// A key and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Table {
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.0.iter().find(|(known, _)| known.text == key).map(|(_, node)| node)
    }
}

impl Node {
    /// What kind of value it is, for messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.value {
            Value::Text(_) => "a text",
            Value::Integer(_) => "an integer",
            Value::Float(_) => "a fraction",
            Value::Boolean(_) => "a boolean",
            Value::Time => "a time",
            Value::Array(_) => "a list",
            Value::Table(_) => "a table",
        }
    }
}

/// Reads TOML: what can be made of it, and what is wrong with it.
pub(crate) fn parse(source: &Arc<Source>) -> (Table, Vec<Problem>) {
    if source.text.len() > MAX_TEXT {
        // Whoever read it may have stopped right after that.
        let why = format!(
            "it is longer than {} MiB, and a file of that length is the longest that is read",
            MAX_TEXT >> 20
        );
        return (Table::default(), vec![Problem::new(source, Fault::TooLong, 0..0, why)]);
    }
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    let problems = errors.iter().take(MAX_PROBLEMS).map(|error| {
        let span = error.span().unwrap_or(0..0);
        Problem::new(source, Fault::Syntax, span, error.message().replace('\n', ", "))
    });
    let problems = problems.collect();
    (read_table(table.get_ref()), problems)
}

/// As deep as the parser allows, which is not deep.
fn read_table(table: &DeTable<'_>) -> Table {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| {
            let key = Key { text: key.get_ref().to_string(), span: key.span() };
            (key, read_node(value))
        })
        .collect();
    entries.sort_by_key(|(key, _)| key.span.start);
    Table(entries)
}

fn read_node(value: &Spanned<DeValue<'_>>) -> Node {
    let read = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            Value::Integer(i64::from_str_radix(number.as_str(), number.radix()).ok())
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().ok()),
        DeValue::Boolean(it) => Value::Boolean(*it),
        DeValue::Datetime(_) => Value::Time,
        DeValue::Array(array) => Value::Array(array.iter().map(read_node).collect()),
        DeValue::Table(table) => Value::Table(read_table(table)),
    };
    Node { value: read, span: value.span() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        let source = Source::new("f", "ab\n\u{e4}\u{f6} = 1\r\n");
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(2), (1, 3));
        assert_eq!(source.position(3), (2, 1));
        assert_eq!(source.position(7), (2, 3));
        assert_eq!(source.line(2), "\u{e4}\u{f6} = 1");
        assert_eq!(source.line(3), "");
        assert_eq!(source.position(10_000), (3, 1));
    }
}
