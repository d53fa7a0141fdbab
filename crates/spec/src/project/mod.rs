//! A project's file: its entries, types and defaults.

mod parse;

pub(crate) use parse::placeholder_problem;

use std::collections::BTreeMap;

use minimal_proto::BoxName;
use minimal_proto::spec::{BoxType, Builtin};

use crate::arguments::{self, Argument};
use crate::layer::{ENTRY, Layer, LayerName, Merged, Origin};
use crate::problem::Problems;
use crate::types::{self, TypeInfo};

/// What a project says about boxes.
#[derive(Clone, Debug)]
pub struct Project {
    pub(crate) defaults: Layer,
    pub(crate) defaults_of: BTreeMap<String, Layer>,
    pub(crate) types: BTreeMap<String, TypeInfo>,
    pub(crate) entries: BTreeMap<BoxName, Entry>,
}

/// An entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: BoxName,
    /// Its type.
    pub box_type: BoxType,
    /// Where it is defined.
    pub defined: Origin,
    pub(crate) layer: Layer,
}

impl Entry {
    fn merged(&self) -> Merged {
        let mut merged = Merged::default();
        merged.lay(&self.layer);
        merged
    }

    /// What it is for.
    #[must_use]
    pub fn description(&self) -> Option<String> {
        let merged = self.merged();
        let (text, _) = merged.one(&[ENTRY, "description"])?;
        text.as_str().map(str::to_owned)
    }

    /// Its arguments by name.
    #[must_use]
    pub fn arguments(&self) -> BTreeMap<String, Argument> {
        arguments_of(&self.merged())
    }
}

pub(crate) fn arguments_of(merged: &Merged) -> BTreeMap<String, Argument> {
    merged
        .below(&[ENTRY, "args"])
        .map(|(name, value, _)| (name.to_owned(), arguments::from_json(value)))
        .collect()
}

impl Project {
    /// One without a file: nothing but the built-in types, and the session that is always there.
    #[must_use]
    pub fn without_file() -> Self {
        let mut project = Self {
            defaults: Layer::default(),
            defaults_of: BTreeMap::new(),
            types: BTreeMap::new(),
            entries: BTreeMap::new(),
        };
        project.add_session();
        project
    }

    /// Reads a file's text. `name` is what problems call it.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, Problems> {
        parse::parse(name, text)
    }

    /// Its entries by name, the implied session among them.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// An entry.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(&name.parse::<BoxName>().ok()?)
    }

    /// Every type there is, the built-in ones first.
    #[must_use]
    pub fn types(&self) -> Vec<TypeInfo> {
        let builtin = Builtin::ALL.into_iter().map(types::builtin);
        builtin.chain(self.types.values().cloned()).collect()
    }

    /// The built-in type that a type is or is derived from.
    #[must_use]
    pub fn root_of(&self, name: &str) -> Option<Builtin> {
        self.chain(name).iter().rev().find_map(|info| Builtin::from_word(&info.name))
    }

    /// From a type's root to itself.
    pub(crate) fn chain(&self, name: &str) -> Vec<TypeInfo> {
        let mut chain = Vec::new();
        let mut next = Some(name.to_owned());
        // No chain is longer than there are types, since circles were refused.
        while let Some(name) = next.take() {
            let info = match Builtin::from_word(&name) {
                Some(builtin) => Some(types::builtin(builtin)),
                None => self.types.get(&name).cloned(),
            };
            let Some(info) = info else { break };
            next = info.extends.clone();
            chain.push(info);
        }
        chain.reverse();
        chain
    }

    /// The session that a file without one has.
    fn add_session(&mut self) {
        let name: BoxName = "default".parse().expect("it is a DNS label");
        let has_session =
            self.entries.values().any(|entry| entry.box_type.root() == Builtin::Session);
        if has_session || self.entries.contains_key(&name) {
            return;
        }
        let entry = Entry {
            name: name.clone(),
            box_type: Builtin::Session.into(),
            defined: Origin::of(LayerName::Builtin),
            layer: Layer::default(),
        };
        self.entries.insert(name, entry);
    }
}
