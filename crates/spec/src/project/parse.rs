//! From a file's tree to a project.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minimal_proto::BoxName;
use minimal_proto::spec::Builtin;
use serde_json::{Value as Json, json};

use super::{Entry, Project};
use crate::arguments;
use crate::layer::{ENTRY, Layer, LayerName, Origin, path};
use crate::problem::{Fault, Problem, Problems, meant};
use crate::read::{Allowed, Reader, read_settings};
use crate::source::{self, Key, Node, Source, Table, Value};
use crate::types::{self, CONSTRAINABLE, Constrained, Constraint, TypeInfo};

/// Tables of entries, and the type that each stands for.
const ENTRY_TABLES: &[(&str, Option<Builtin>)] = &[
    ("boxes", None),
    ("sessions", Some(Builtin::Session)),
    ("tasks", Some(Builtin::Task)),
    ("agents", Some(Builtin::Agent)),
    ("services", Some(Builtin::Service)),
];

/// The longest way from a type to a built-in one.
const MOST_EXTENDS: usize = 16;

pub(super) fn parse(name: &str, text: &str) -> Result<Project, Problems> {
    let source = Source::new(name, text);
    let (table, syntax) = source::parse(&source);
    let mut problems = Problems::default();
    let is_toml = syntax.is_empty();
    problems.extend(syntax);
    if !is_toml {
        // What half a file says would only be misunderstood.
        return problems.or(Project::without_file());
    }
    let mut file = File { source: &source, problems, project: empty() };
    file.read(&table);
    let File { problems, mut project, .. } = file;
    project.add_session();
    problems.or(project)
}

fn empty() -> Project {
    let mut project = Project::without_file();
    project.entries.clear();
    project
}

struct File<'a> {
    source: &'a Arc<Source>,
    problems: Problems,
    project: Project,
}

impl File<'_> {
    fn read(&mut self, table: &Table) {
        for (key, node) in &table.0 {
            if key.text == "box_types" {
                self.types(node);
            }
        }
        for (key, node) in &table.0 {
            let kind = ENTRY_TABLES.iter().find(|(known, _)| *known == key.text);
            match (key.text.as_str(), kind) {
                ("box_types", _) => {}
                ("defaults", _) => self.defaults(node),
                (_, Some((_, of))) => self.entries(&key.text, node, *of),
                (_, None) => {
                    let known = ENTRY_TABLES.iter().map(|(name, _)| *name);
                    let known = known.chain(["defaults", "box_types"]);
                    let mut reader = self.reader(LayerName::Builtin);
                    reader.layer = LayerName::Builtin;
                    reader.problems.push(unknown_table(reader.source, key, known));
                }
            }
        }
    }

    fn reader(&mut self, layer: LayerName) -> Reader<'_> {
        Reader::new(self.source, layer, &mut self.problems)
    }

    fn problem(&mut self, fault: Fault, key: &Key, message: String, hint: Option<String>) {
        self.problems.push(Problem::new(self.source, fault, key.span.clone(), message).hint(hint));
    }

    fn table<'n>(&mut self, what: &str, node: &'n Node) -> Option<&'n Table> {
        match &node.value {
            Value::Table(table) => Some(table),
            _ => {
                let message = format!("`{what}` is a table, and this is {}", node.kind());
                let problem =
                    Problem::new(self.source, Fault::WrongKind, node.span.clone(), message);
                self.problems.push(problem);
                None
            }
        }
    }

    /// A name that an entry or a type can have.
    fn name(&mut self, key: &Key) -> Option<BoxName> {
        match key.text.parse::<BoxName>() {
            Ok(name) => Some(name),
            Err(error) => {
                self.problem(Fault::WrongName, key, error.to_string(), None);
                None
            }
        }
    }

    fn defaults(&mut self, node: &Node) {
        let Some(table) = self.table("defaults", node) else { return };
        let types: Vec<String> = Builtin::ALL
            .iter()
            .map(|builtin| builtin.as_str().to_owned())
            .chain(self.project.types.keys().cloned())
            .collect();
        let types_ref: Vec<&str> = types.iter().map(String::as_str).collect();
        let mut reader = self.reader(LayerName::Defaults);
        read_settings(&mut reader, "[defaults]", table, Allowed::Defaults, &types_ref);
        self.project.defaults = reader.out;
        for (key, node) in &table.0 {
            if types.contains(&key.text) {
                let what = format!("defaults.{}", key.text);
                let Some(table) = self.table(&what, node) else { continue };
                let mut reader = self.reader(LayerName::DefaultsOf(key.text.clone()));
                read_settings(&mut reader, &format!("[{what}]"), table, Allowed::Defaults, &[]);
                let layer = reader.out;
                self.project.defaults_of.insert(key.text.clone(), layer);
            }
        }
    }

    fn entries(&mut self, table_name: &str, node: &Node, of: Option<Builtin>) {
        let Some(table) = self.table(table_name, node) else { return };
        for (key, node) in &table.0 {
            if self.problems.is_full() {
                return;
            }
            let Some(name) = self.name(key) else { continue };
            let title = format!("{table_name}.{name}");
            let Some(table) = self.table(&title, node) else { continue };
            let layer = LayerName::Entry(title.clone());
            let mut reader = self.reader(layer.clone());
            read_settings(&mut reader, &format!("[{title}]"), table, Allowed::Entry, &[]);
            let settings = reader.out;
            self.check_placeholders(&settings);
            let Some(box_type) = self.type_of(key, &title, table, of) else { continue };
            let defined = Origin::at(layer, self.source, &key.span);
            if let Some(other) = self.project.entries.get(&name) {
                let line = other.defined.position().map_or(0, |(_, line)| line);
                let why = format!("there is an entry `{name}` already, in line {line}");
                self.problem(Fault::Taken, key, why, None);
                continue;
            }
            let entry = Entry { name: name.clone(), box_type, defined, layer: settings };
            self.project.entries.insert(name, entry);
        }
    }

    fn type_of(
        &mut self,
        key: &Key,
        title: &str,
        table: &Table,
        of: Option<Builtin>,
    ) -> Option<minimal_proto::spec::BoxType> {
        let Some(node) = table.get("type") else {
            if let Some(builtin) = of {
                return Some(builtin.into());
            }
            let why = format!("`{title}` needs `type`: the table [boxes] does not say one");
            self.problem(Fault::MissingKey, key, why, None);
            return None;
        };
        let mut reader = self.reader(LayerName::Entry(title.to_owned()));
        let text = reader.text("type", node)?;
        let chain = self.project.chain(&text);
        let root = match chain.iter().rev().find_map(|info| Builtin::from_word(&info.name)) {
            Some(root) if !chain.is_empty() => root,
            Some(_) | None => {
                let types = self.project.types();
                let hint = meant(&text, types.iter().map(|info| info.name.as_str()));
                let shown: String = text.chars().take(80).collect();
                let mut reader = self.reader(LayerName::Entry(title.to_owned()));
                let why = format!("there is no type `{shown}`");
                reader.hinted(Fault::Unknown, &node.span, why, hint);
                return None;
            }
        };
        if let Some(of) = of
            && !chain.iter().any(|info| info.name == of.as_str())
        {
            let mut reader = self.reader(LayerName::Entry(title.to_owned()));
            let why = format!(
                "the type `{text}` is not `{of}` or derived from it, as entries of this table are"
            );
            let hint = Some("write the entry as `[boxes.<name>]`".to_owned());
            reader.hinted(Fault::WrongValue, &node.span, why, hint);
            return None;
        }
        Some(types::box_type(&text, root))
    }

    fn check_placeholders(&mut self, settings: &Layer) {
        let mut merged = crate::layer::Merged::default();
        merged.lay(settings);
        let known = super::arguments_of(&merged);
        if let Some((command, origin)) = merged.one(&[ENTRY, "command"]) {
            self.problems.extend(placeholder_problem(command, origin, &known));
        }
    }

    fn types(&mut self, node: &Node) {
        let Some(table) = self.table("box_types", node) else { return };
        let mut nodes = Vec::new();
        for (key, node) in &table.0 {
            if self.problems.is_full() {
                return;
            }
            let Some(name) = self.name(key) else { continue };
            if Builtin::from_word(name.as_str()).is_some() {
                let why = format!("the type `{name}` is built in and cannot be defined again");
                self.problem(Fault::Taken, key, why, None);
                continue;
            }
            let Some(table) = self.table(&format!("box_types.{name}"), node) else { continue };
            if let Some(info) = self.one_type(key, name.as_str(), table) {
                self.project.types.insert(info.name.clone(), info);
            }
            nodes.push((key, name));
        }
        self.check_extends(&nodes);
        self.check_narrowing(&nodes);
    }

    fn one_type(&mut self, key: &Key, name: &str, table: &Table) -> Option<TypeInfo> {
        let layer = LayerName::Type(name.to_owned());
        let title = format!("box_types.{name}");
        let known = ["extends", "description", "defaults", "constraints"];
        let source = self.source;
        let mut reader = self.reader(layer.clone());
        for (key, _) in &table.0 {
            if !known.contains(&key.text.as_str()) {
                reader.unknown_key(key, &format!("[{title}]"), known);
            }
        }
        let Some(extends) = table.get("extends") else {
            reader.missing(&title, "extends", &key.span);
            return None;
        };
        let extends = reader.text("extends", extends)?;
        let description = match table.get("description") {
            Some(node) => reader.text("description", node).unwrap_or_default(),
            None => String::new(),
        };
        if let Some(node) = table.get("defaults")
            && let Some(table) = reader.table("defaults", node)
        {
            let within = format!("[{title}.defaults]");
            read_settings(&mut reader, &within, table, Allowed::Defaults, &[]);
        }
        let defaults = std::mem::take(&mut reader.out);
        let mut constraints = Vec::new();
        if let Some(node) = table.get("constraints")
            && let Some(table) = reader.table("constraints", node)
        {
            read_constraints(&mut reader, "", table, &mut constraints);
        }
        Some(TypeInfo {
            name: name.to_owned(),
            extends: Some(extends),
            description,
            defined: Some(Origin::at(layer, source, &key.span)),
            defaults,
            constraints,
        })
    }

    /// Each type must come to a built-in one; those that do not are dropped.
    fn check_extends(&mut self, nodes: &[(&Key, BoxName)]) {
        let mut dropped = Vec::new();
        for (key, name) in nodes {
            if self.problems.is_full() {
                break;
            }
            let mut seen = BTreeSet::new();
            let mut at = name.as_str().to_owned();
            while let Some(info) = self.project.types.get(&at) {
                if !seen.insert(at.clone()) {
                    let why = format!("the type `{name}` extends itself, by way of `{at}`");
                    let why = if at == name.as_str() {
                        format!("the type `{name}` extends itself")
                    } else {
                        why
                    };
                    self.problem(Fault::Cycle, key, why, None);
                    dropped.push(name.to_string());
                    break;
                }
                if seen.len() > MOST_EXTENDS {
                    let why = format!(
                        "the type `{name}` is {MOST_EXTENDS} types away from a built-in one, or more"
                    );
                    self.problem(Fault::Cycle, key, why, None);
                    dropped.push(name.to_string());
                    break;
                }
                let extends = info.extends.clone().unwrap_or_default();
                if Builtin::from_word(&extends).is_some() {
                    break;
                }
                if !self.project.types.contains_key(&extends) {
                    dropped.push(name.to_string());
                    if at == name.as_str() {
                        let types = self.project.types();
                        let hint = meant(&extends, types.iter().map(|info| info.name.as_str()));
                        let shown: String = extends.chars().take(80).collect();
                        let why =
                            format!("the type `{name}` extends `{shown}`, which there is not");
                        self.problem(Fault::Unknown, key, why, hint);
                    }
                    break;
                }
                at = extends;
            }
        }
        for name in dropped {
            self.project.types.remove(&name);
        }
    }

    /// A type may only take away from what the ones it extends allow, and must leave something.
    fn check_narrowing(&mut self, nodes: &[(&Key, BoxName)]) {
        for (key, name) in nodes {
            if self.problems.is_full() {
                return;
            }
            let chain = self.project.chain(name.as_str());
            let Some((this, above)) = chain.split_last() else { continue };
            for constraint in &this.constraints {
                if constraint.allowed.is_empty() {
                    let why = format!("the type `{name}` allows nothing for `{}`", constraint.key);
                    self.problem(Fault::Widens, key, why, None);
                }
                let wider = above.iter().flat_map(|info| {
                    let same = info.constraints.iter().filter(|it| it.path == constraint.path);
                    same.map(move |it| (info, it))
                });
                for (info, upper) in wider {
                    if let Some(value) =
                        constraint.allowed.iter().find(|value| !upper.allowed.contains(value))
                    {
                        let why = format!(
                            "the type `{name}` allows {value} for `{}`, which the type `{}` does not",
                            constraint.key, info.name
                        );
                        let hint = Some("a type can only narrow what it extends".to_owned());
                        self.problem(Fault::Widens, key, why, hint);
                    }
                }
            }
        }
    }
}

fn unknown_table<'k>(
    source: &Arc<Source>,
    key: &Key,
    known: impl IntoIterator<Item = &'k str>,
) -> Problem {
    let shown: String = key.text.chars().take(80).collect();
    Problem::new(
        source,
        Fault::UnknownKey,
        key.span.clone(),
        format!("`{shown}` is not a table of this file"),
    )
    .hint(meant(&key.text, known))
}

/// Keys may be nested, as in `network.mode`.
fn read_constraints(
    reader: &mut Reader<'_>,
    before: &str,
    table: &Table,
    out: &mut Vec<Constraint>,
) {
    for (key, node) in &table.0 {
        let name = format!("{before}{}", key.text);
        let row = CONSTRAINABLE.iter().find(|(known, ..)| *known == name);
        if let Some((known, keys, kind)) = row {
            let nodes = match &node.value {
                Value::Array(nodes) => nodes.as_slice(),
                _ => std::slice::from_ref(node),
            };
            let read = |node| match kind {
                Constrained::Word(words) => reader.word(&name, node, words).map(Json::from),
                Constrained::Boolean => reader.boolean(&name, node).map(Json::from),
                Constrained::Text => reader.text(&name, node).map(|text| match *known {
                    "rootfs" if text != "host" => json!({"path": text}),
                    _ => json!(text),
                }),
            };
            let allowed = nodes.iter().filter_map(read).collect();
            out.push(Constraint { key: name, path: path(keys), allowed });
            continue;
        }
        let nested = format!("{name}.");
        match &node.value {
            Value::Table(table)
                if before.is_empty()
                    && CONSTRAINABLE.iter().any(|(known, ..)| known.starts_with(&nested)) =>
            {
                read_constraints(reader, &nested, table, out);
            }
            _ => {
                let known = CONSTRAINABLE.iter().map(|(known, ..)| *known);
                let key = Key { text: name, span: key.span.clone() };
                reader.unknown_key(&key, "constraints, or of none that can be constrained", known);
            }
        }
    }
}

/// What is wrong with the placeholders of a command.
pub(crate) fn placeholder_problem(
    command: &Json,
    origin: &Origin,
    known: &BTreeMap<String, arguments::Argument>,
) -> Option<Problem> {
    let words = command.get("exec")?.as_array()?;
    let error = words
        .iter()
        .filter_map(Json::as_str)
        .find_map(|word| arguments::check_word(word, known).err())?;
    let hint = match &error {
        arguments::PlaceholderError::Unknown { hint, .. } => hint.clone(),
        arguments::PlaceholderError::Open | arguments::PlaceholderError::ListInWord { .. } => None,
    };
    Some(origin.problem(Fault::Placeholder, error.to_string()).hint(hint))
}
