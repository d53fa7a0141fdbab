//! Layers, what they assign, and the fold of them.
//!
//! A layer is a list of assignments to paths of the spec. Folding is three rules: a later value
//! replaces an earlier one at the same path; what is under a key (a variable, an argument) is a path
//! of its own, so tables of those merge by key; lists of things (mounts, patches, hooks, denied
//! networks) take in what they do not hold yet. A table that is replaced whole assigns all its
//! paths.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::problem::{Fault, Problem};
use crate::source::{Source, Span};

/// Which layer a value comes from, lowest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerName {
    /// What holds where nobody says otherwise.
    Builtin,
    /// Defaults of a type.
    Type(String),
    /// `[defaults]`.
    Defaults,
    /// `[defaults.<type>]`.
    DefaultsOf(String),
    /// An entry, by its table and name: `tasks.test`.
    Entry(String),
    /// A person's loadout.
    Loadout(String),
    /// An option of the command line, `--ram`.
    CommandLine(String),
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("built-in default"),
            Self::Type(name) => write!(f, "type `{name}`"),
            Self::Defaults => f.write_str("[defaults]"),
            Self::DefaultsOf(name) => write!(f, "[defaults.{name}]"),
            Self::Entry(name) => write!(f, "[{name}]"),
            Self::Loadout(name) => write!(f, "loadout `{name}`"),
            Self::CommandLine(option) => write!(f, "command line: {option}"),
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Which layer.
    pub layer: LayerName,
    place: Option<(Arc<Source>, Span)>,
}

impl Origin {
    pub(crate) const fn of(layer: LayerName) -> Self {
        Self { layer, place: None }
    }

    pub(crate) fn at(layer: LayerName, source: &Arc<Source>, span: &Span) -> Self {
        Self { layer, place: Some((Arc::clone(source), span.clone())) }
    }

    /// File and line, the latter from 1; `None` for what stands in no file.
    #[must_use]
    pub fn position(&self) -> Option<(&str, usize)> {
        let (source, span) = self.place.as_ref()?;
        Some((source.name(), source.position(span.start).0))
    }

    /// Whether the project's file says it, and not the person who runs it.
    #[must_use]
    pub fn is_projects(&self) -> bool {
        self.place.is_some() && !matches!(self.layer, LayerName::Loadout(_))
    }

    /// A problem with the value.
    pub(crate) fn problem(&self, fault: Fault, message: impl Into<String>) -> Problem {
        let problem = match &self.place {
            Some((source, span)) => Problem::new(source, fault, span.clone(), message),
            None => Problem::nowhere(fault, message),
        };
        problem.in_layer(&self.layer.to_string())
    }
}

/// Keys from the top of a spec; those that begin with [`ENTRY`] are of the entry alone.
pub(crate) type Path = Vec<String>;

/// The first key of what an entry says besides its spec: its program before substitution, its
/// arguments.
pub(crate) const ENTRY: &str = "entry";

pub(crate) fn path(keys: &[&str]) -> Path {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

/// How a value is laid over what lower layers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Replace,
    /// The value is one more of a list, unless it is there already.
    Add,
}

#[derive(Clone, Debug)]
pub(crate) struct Assign {
    pub(crate) path: Path,
    pub(crate) rule: Rule,
    pub(crate) value: Json,
    pub(crate) origin: Origin,
}

/// Some of a box's settings, from one place.
#[derive(Clone, Debug, Default)]
pub struct Layer(pub(crate) Vec<Assign>);

/// What the layers come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged(BTreeMap<Path, Held>);

#[derive(Clone, Debug)]
pub(crate) enum Held {
    One(Json, Origin),
    Many(Vec<(Json, Origin)>),
}

impl Merged {
    pub(crate) fn lay(&mut self, layer: &Layer) {
        for Assign { path, rule, value, origin } in &layer.0 {
            match rule {
                Rule::Replace => {
                    self.0.insert(path.clone(), Held::One(value.clone(), origin.clone()));
                }
                Rule::Add => {
                    let held = self.0.entry(path.clone()).or_insert_with(|| Held::Many(Vec::new()));
                    match held {
                        Held::Many(list) => {
                            if !list.iter().any(|(known, _)| known == value) {
                                list.push((value.clone(), origin.clone()));
                            }
                        }
                        // No path has both rules.
                        Held::One(..) => *held = Held::Many(vec![(value.clone(), origin.clone())]),
                    }
                }
            }
        }
    }

    pub(crate) fn one(&self, keys: &[&str]) -> Option<(&Json, &Origin)> {
        match self.0.get(&path(keys))? {
            Held::One(value, origin) => Some((value, origin)),
            Held::Many(_) => None,
        }
    }

    /// What is directly below a path, by its last key.
    pub(crate) fn below<'a>(
        &'a self,
        keys: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, &'a Json, &'a Origin)> {
        let prefix = path(keys);
        self.0.iter().filter_map(move |(path, held)| match held {
            Held::One(value, origin) => {
                let (last, before) = path.split_last()?;
                (*before == *prefix).then_some((last.as_str(), value, origin))
            }
            Held::Many(_) => None,
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Path, &Held)> {
        self.0.iter()
    }

    pub(crate) fn set(&mut self, keys: &[&str], value: Json, origin: Origin) {
        self.0.insert(path(keys), Held::One(value, origin));
    }
}

/// A path for people.
pub(crate) fn shown(path: &[String]) -> String {
    let mut text = String::new();
    for key in path {
        if key.parse::<usize>().is_ok() {
            text = format!("{text}[{key}]");
            continue;
        }
        if !text.is_empty() {
            text.push('.');
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !key.is_empty() && key.chars().all(plain) {
            text.push_str(key);
        } else {
            text = format!("{text}{}", Json::from(key.as_str()));
        }
    }
    text
}
