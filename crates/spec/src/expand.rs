//! Layers in, spec out.

use std::collections::BTreeMap;

use minimal_proto::spec::{BoxType, Builtin, Workspace};
use minimal_proto::{ByteString, Spec};
use serde_json::{Map, Value as Json, json};

use crate::arguments::{self, ArgumentError, Values, variable};
use crate::layer::{
    Assign, ENTRY, Held, Layer, LayerName, Merged, Origin, Path, Rule, path, shown,
};
use crate::problem::{Fault, Problem, Problems};
use crate::project::{self, Entry, Project};
use crate::types;

/// What is laid over an entry.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// A person's layers, lowest first.
    pub loadouts: Vec<Layer>,
    /// What the command line says.
    pub command_line: Layer,
    /// Arguments of the task.
    pub arguments: Values,
}

/// A spec, and what is known of it besides.
#[derive(Clone, Debug)]
pub struct Expanded {
    /// Complete but for where the project is on this host, which the spec of a box has too.
    pub spec: Spec,
    /// Variables whose value is the caller's, and what holds where the caller has none.
    pub inherits: BTreeMap<String, Option<String>>,
    /// Whether it starts where the caller is, below the project.
    pub inherit_cwd: bool,
    origins: BTreeMap<Path, Origin>,
}

/// Why there is no spec.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ExpandError {
    /// No entry of that name.
    #[error("there is no entry `{name}`")]
    NoEntry {
        /// The name.
        name: String,
        /// What was meant.
        hint: Option<String>,
    },
    /// Its arguments are wrong.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// What the layers say is wrong.
    #[error(transparent)]
    Problems(#[from] Problems),
}

impl Layer {
    /// A value that an option of the command line sets, at a dotted path of the spec.
    pub fn option(&mut self, option: &str, keys: &[&str], value: impl Into<Json>) {
        self.push(option, Rule::Replace, keys, value.into());
    }

    /// One more of a list.
    pub fn option_adds(&mut self, option: &str, keys: &[&str], value: impl Into<Json>) {
        self.push(option, Rule::Add, keys, value.into());
    }

    fn push(&mut self, option: &str, rule: Rule, keys: &[&str], value: Json) {
        let origin = Origin::of(LayerName::CommandLine(option.to_owned()));
        self.0.push(Assign { path: path(keys), rule, value, origin });
    }

    /// The argv of the command line, byte by byte: it has no placeholders.
    pub fn argv(&mut self, argv: &[ByteString]) {
        self.option("--", &[ENTRY, "command"], json!({"argv": argv}));
    }

    /// Everything that a spec says, as one layer.
    ///
    /// # Panics
    /// Never: a spec has string keys only.
    #[must_use]
    pub fn of_spec(spec: &Spec, name: LayerName) -> Self {
        let json = serde_json::to_value(spec).expect("a spec has string keys only");
        let mut layer = Self::default();
        let origin = Origin::of(name);
        for (section, values) in json.as_object().into_iter().flatten() {
            if section == "params" {
                // Replaced whole: its keys are not ours.
                let (path, value) = (path(&[section]), values.clone());
                layer.0.push(Assign { path, rule: Rule::Replace, value, origin: origin.clone() });
                continue;
            }
            for (key, value) in values.as_object().into_iter().flatten() {
                assign_spec_key(&mut layer, &origin, section, key, value);
            }
        }
        let argv = json!({"argv": spec.execution.exec});
        let command = path(&[ENTRY, "command"]);
        layer.0.push(Assign { path: command, rule: Rule::Replace, value: argv, origin });
        layer
    }
}

fn assign_spec_key(layer: &mut Layer, origin: &Origin, section: &str, key: &str, value: &Json) {
    let mut push = |rule, keys: &[&str], value: &Json| {
        let (path, value, origin) = (path(keys), value.clone(), origin.clone());
        layer.0.push(Assign { path, rule, value, origin });
    };
    match (section, key) {
        ("box", "lifetime") => push(Rule::Replace, &[section, key], value),
        // Who it is, and its command, are not settings.
        ("box", _) | ("execution", "exec") => {}
        ("execution", "env") => {
            for (name, value) in value.as_object().into_iter().flatten() {
                push(Rule::Replace, &[section, key, name], value);
            }
        }
        ("files", "mounts" | "patches")
        | ("hooks", "on_activate" | "on_attach" | "on_detach" | "on_destroy") => {
            for value in value.as_array().into_iter().flatten() {
                push(Rule::Add, &[section, key], value);
            }
        }
        ("network", "egress") => {
            for (name, value) in value.as_object().into_iter().flatten() {
                if name != "deny_subnets" {
                    push(Rule::Replace, &[section, key, name], value);
                    continue;
                }
                for value in value.as_array().into_iter().flatten() {
                    push(Rule::Add, &[section, key, name], value);
                }
            }
        }
        _ => push(Rule::Replace, &[section, key], value),
    }
}

impl Project {
    /// The spec of an entry.
    ///
    /// # Errors
    /// There is no such entry, or what is laid over it does not make one.
    pub fn expand(&self, entry: &str, overrides: &Overrides) -> Result<Expanded, ExpandError> {
        let Some(entry) = self.entry(entry) else {
            let known = self.entries().map(|entry| entry.name.as_str());
            let hint = crate::problem::meant(entry, known);
            return Err(ExpandError::NoEntry { name: entry.chars().take(80).collect(), hint });
        };
        self.expand_layers(Some(entry), &entry.box_type, overrides)
    }

    /// The spec of a command without an entry: a task.
    ///
    /// # Errors
    /// What is laid over it does not make a spec.
    pub fn expand_command(&self, overrides: &Overrides) -> Result<Expanded, ExpandError> {
        self.expand_as(Builtin::Task, overrides)
    }

    /// The spec of a command without an entry, as a built-in type; of one that needs none also
    /// without a command.
    ///
    /// # Errors
    /// What is laid over it does not make a spec.
    pub fn expand_as(
        &self,
        builtin: Builtin,
        overrides: &Overrides,
    ) -> Result<Expanded, ExpandError> {
        self.expand_layers(None, &builtin.into(), overrides)
    }

    fn expand_layers(
        &self,
        entry: Option<&Entry>,
        box_type: &BoxType,
        overrides: &Overrides,
    ) -> Result<Expanded, ExpandError> {
        let chain = self.chain(box_type.as_str());
        let mut merged = Merged::default();
        for info in &chain {
            merged.lay(&info.defaults);
        }
        merged.lay(&self.defaults);
        for info in &chain {
            if let Some(layer) = self.defaults_of.get(&info.name) {
                merged.lay(layer);
            }
        }
        if let Some(entry) = entry {
            merged.lay(&entry.layer);
        }
        for layer in &overrides.loadouts {
            merged.lay(layer);
        }
        merged.lay(&overrides.command_line);
        substitute(&mut merged, &overrides.arguments)?;

        let defined = entry.map_or(Origin::of(LayerName::Builtin), |entry| entry.defined.clone());
        let (json, mut origins) = assemble(&merged, entry, box_type);
        origins.insert(path(&["box", "entry"]), defined.clone());
        origins.insert(path(&["box", "type"]), defined.clone());
        let spec = whole(&json, &origins, &defined)?;
        let mut problems = Problems::default();
        for info in &chain {
            for (constraint, violation) in types::violations(&json, info) {
                let origin = origin_of(&origins, &constraint.path).unwrap_or(&defined);
                problems.push(origin.problem(Fault::Constraint, violation.to_string()));
            }
        }
        let inherits = merged
            .below(&[ENTRY, "inherits"])
            .filter(|(name, value, _)| {
                let is_given =
                    spec.execution.env.get(*name) == Some(&minimal_proto::spec::EnvSource::Given);
                is_given && !value.is_null()
            })
            .map(|(name, value, _)| (name.to_owned(), value["default"].as_str().map(str::to_owned)))
            .collect();
        let inherit_cwd = merged.one(&[ENTRY, "inherit_cwd"]).is_some_and(|(it, _)| *it == true);
        Ok(problems.or(Expanded { spec, inherits, inherit_cwd, origins })?)
    }
}

/// Puts values where the command has placeholders, or a script its variables.
fn substitute(merged: &mut Merged, given: &Values) -> Result<(), ExpandError> {
    let known = project::arguments_of(merged);
    let values = arguments::complete(&known, given)?;
    let Some((command, origin)) = merged.one(&[ENTRY, "command"]) else { return Ok(()) };
    let (command, origin) = (command.clone(), origin.clone());
    if let Some(problem) = project::placeholder_problem(&command, &origin, &known) {
        return Err(Problems::from(problem).into());
    }
    let exec = if let Some(script) = command.get("bash") {
        for (name, value) in &values {
            // What a layer says of a variable of that name is not what the argument is.
            let name = variable(name);
            let value = json!({"value": value.join("\n")});
            let origin = Origin::of(LayerName::CommandLine("arguments".to_owned()));
            merged.set(&["execution", "env", &name], value, origin);
        }
        json!(["/bin/bash", "-c", script])
    } else if let Some(argv) = command.get("argv") {
        argv.clone()
    } else {
        let words = command.get("exec").and_then(Json::as_array).into_iter().flatten();
        let mut exec = Vec::new();
        for word in words.filter_map(Json::as_str) {
            let filled = arguments::fill(word, &values);
            let filled = filled.map_err(|error| {
                Problems::from(origin.problem(Fault::Placeholder, error.to_string()))
            })?;
            exec.extend(filled);
        }
        json!(exec)
    };
    merged.set(&["execution", "exec"], exec, origin);
    Ok(())
}

/// The whole spec as JSON: what the layers say, over what holds where none says anything.
fn assemble(
    merged: &Merged,
    entry: Option<&Entry>,
    box_type: &BoxType,
) -> (Json, BTreeMap<Path, Origin>) {
    let mut base = Spec::task(Vec::new());
    base.identity.box_type = box_type.clone();
    base.identity.entry = entry.map(|entry| entry.name.clone());
    let mut json = serde_json::to_value(&base).expect("a spec has string keys only");
    let mut origins = BTreeMap::new();
    let home = home(merged);
    for (path, held) in merged.iter().filter(|(path, _)| path[0] != ENTRY) {
        match held {
            Held::One(value, origin) => {
                put(&mut json, path, value.clone());
                origins.insert(path.clone(), origin.clone());
            }
            Held::Many(list) => {
                let mut values = Vec::new();
                for (value, origin) in list {
                    let value = in_home(value, home);
                    // Two ways to write a place are one place.
                    if values.contains(&value) {
                        continue;
                    }
                    let mut path = path.clone();
                    path.push(values.len().to_string());
                    origins.insert(path, origin.clone());
                    values.push(value);
                }
                put(&mut json, path, Json::Array(values));
            }
        }
    }
    (json, origins)
}

fn put(json: &mut Json, path: &[String], value: Json) {
    let mut at = json;
    for key in path {
        if !at.is_object() {
            *at = Json::Object(Map::new());
        }
        at = at.as_object_mut().expect("it is one now").entry(key.clone()).or_insert(Json::Null);
    }
    *at = value;
}

/// The home of the box's user.
fn home(merged: &Merged) -> &'static str {
    let user = merged.one(&["execution", "user"]).and_then(|(user, _)| user.as_str());
    match user {
        Some(user) if user == "root" || user.parse() == Ok(0) => "/root",
        Some(_) | None => "/home/box",
    }
}

/// `~/` of a place in the box is the home of the box's user.
fn in_home(value: &Json, home: &str) -> Json {
    let mut value = value.clone();
    if let Some(below) =
        value.get("dest").and_then(Json::as_str).and_then(|dest| dest.strip_prefix("~/"))
    {
        value["dest"] = json!(format!("{home}/{below}"));
    }
    value
}

/// Reads and checks the whole.
fn whole(json: &Json, origins: &BTreeMap<Path, Origin>, defined: &Origin) -> Result<Spec, Problem> {
    let problem = |message: String| {
        // The value that the message is about, if it names one.
        let named = origins.iter().filter(|(path, _)| message.contains(&shown(path)));
        let nearest = named.max_by_key(|(path, _)| shown(path).len());
        let origin = nearest.map_or(defined, |(_, origin)| origin);
        origin.problem(Fault::Spec, message)
    };
    let spec: Spec =
        serde_json::from_value(json.clone()).map_err(|error| problem(error.to_string()))?;
    let mut placed = spec.clone();
    if placed.files.workspace != Workspace::None {
        // Where the project is comes later, and is all that is missing.
        placed.files.project_root.get_or_insert_with(|| "/".into());
    }
    placed.check_without_values().map_err(|error| problem(error.to_string()))?;
    Ok(spec)
}

impl From<Problem> for ExpandError {
    fn from(problem: Problem) -> Self {
        Self::Problems(problem.into())
    }
}

/// Who has set a value, or what it is in, or something in it.
fn origin_of<'a>(origins: &'a BTreeMap<Path, Origin>, path: &[String]) -> Option<&'a Origin> {
    let above = (0..=path.len()).rev().find_map(|length| origins.get(&path[..length]));
    above.or_else(|| origins.iter().find(|(key, _)| key.starts_with(path)).map(|(_, it)| it))
}

/// A value of a spec, and who has set it.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Where it is in the spec.
    pub path: String,
    /// The value.
    pub value: Json,
    /// Who has set it.
    pub origin: Origin,
}

impl Expanded {
    /// Every value of the spec, by path.
    ///
    /// # Panics
    /// Never: a spec has string keys only.
    #[must_use]
    pub fn explain(&self) -> Vec<Explained> {
        let json = serde_json::to_value(&self.spec).expect("a spec has string keys only");
        let mut explained = Vec::new();
        self.explain_below(&mut Vec::new(), &json, &mut explained);
        explained
    }

    fn explain_below(&self, at: &mut Path, value: &Json, out: &mut Vec<Explained>) {
        match value {
            Json::Object(map)
                if !map.is_empty() && at.first().is_none_or(|key| key != "params") =>
            {
                for (key, value) in map {
                    at.push(key.clone());
                    self.explain_below(at, value, out);
                    at.pop();
                }
            }
            Json::Array(list) if list.iter().any(Json::is_object) => {
                for (index, value) in list.iter().enumerate() {
                    at.push(index.to_string());
                    self.explain_below(at, value, out);
                    at.pop();
                }
            }
            value => {
                let origin = self.origin_at(at);
                out.push(Explained { path: shown(at), value: value.clone(), origin });
            }
        }
    }

    /// Who has set the value at a path of the spec.
    #[must_use]
    pub fn origin(&self, keys: &[&str]) -> Origin {
        self.origin_at(&path(keys))
    }

    fn origin_at(&self, at: &[String]) -> Origin {
        let above = (0..=at.len()).rev().find_map(|length| self.origins.get(&at[..length]));
        above.cloned().unwrap_or_else(|| Origin::of(LayerName::Builtin))
    }
}
