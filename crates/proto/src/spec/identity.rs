//! Section `box`: identity and lifetime.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::BoxName;

/// Section `box`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "IdentityJson", into = "IdentityJson")]
pub struct IdentitySection {
    /// The name asked for; without one the daemon names the box after its program.
    pub name: Option<BoxName>,
    /// The entry it comes from: without a name the box is called after it, with a number.
    pub entry: Option<BoxName>,
    /// The box's type.
    pub box_type: BoxType,
    /// When the box ends.
    pub lifetime: Lifetime,
}

/// The JSON form of section `box`.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = IdentitySection))]
#[serde(deny_unknown_fields)]
pub(crate) struct IdentityJson {
    /// The name asked for; without one the daemon names the box after its program.
    name: Option<BoxName>,
    /// The entry it comes from: without a name the box is called after it, with a number.
    #[serde(default)]
    entry: Option<BoxName>,
    /// The box's type: a built-in one, or one of a project.
    #[serde(rename = "type")]
    box_type: String,
    /// The built-in type that it is, or that it is derived from. Absent in specs of earlier builds:
    /// the type itself.
    #[serde(default)]
    root: Option<Builtin>,
    /// When the box ends.
    lifetime: Lifetime,
}

impl From<IdentitySection> for IdentityJson {
    fn from(section: IdentitySection) -> Self {
        Self {
            name: section.name,
            entry: section.entry,
            box_type: section.box_type.as_str().to_owned(),
            root: Some(section.box_type.root()),
            lifetime: section.lifetime,
        }
    }
}

impl TryFrom<IdentityJson> for IdentitySection {
    type Error = String;

    fn try_from(json: IdentityJson) -> Result<Self, Self::Error> {
        let IdentityJson { name, entry, box_type, root, lifetime } = json;
        let box_type = match (Builtin::from_word(&box_type), root) {
            (Some(builtin), None) => builtin.into(),
            (Some(builtin), Some(root)) if builtin == root => builtin.into(),
            (Some(builtin), Some(root)) => {
                return Err(format!(
                    "the type `{builtin}` is built in, and its root is not `{root}`"
                ));
            }
            (None, Some(root)) => {
                let name = box_type
                    .parse()
                    .map_err(|error: crate::name::BoxNameError| error.to_string())?;
                BoxType::Own { name, root }
            }
            (None, None) => {
                return Err(format!("`{box_type}` is not a built-in type, and no root is given"));
            }
        };
        Ok(Self { name, entry, box_type, lifetime })
    }
}

/// The type of a box. Behaviour reads settings, never this.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BoxType {
    /// One that comes with the product.
    Builtin(Builtin),
    /// One that a project has defined.
    Own {
        /// What the project calls it: never a built-in type's word.
        name: BoxName,
        /// The built-in type at the end of its `extends`.
        root: Builtin,
    },
}

impl BoxType {
    /// Its word.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Builtin(builtin) => builtin.as_str(),
            Self::Own { name, .. } => name.as_str(),
        }
    }

    /// Its word as a record has it.
    #[must_use]
    pub fn name(&self) -> BoxName {
        match self {
            Self::Builtin(builtin) => builtin.as_str().parse().expect("each word is a DNS label"),
            Self::Own { name, .. } => name.clone(),
        }
    }

    /// The built-in type that it is or is derived from.
    #[must_use]
    pub const fn root(&self) -> Builtin {
        match self {
            Self::Builtin(builtin) => *builtin,
            Self::Own { root, .. } => *root,
        }
    }
}

impl From<Builtin> for BoxType {
    fn from(builtin: Builtin) -> Self {
        Self::Builtin(builtin)
    }
}

impl fmt::Display for BoxType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The types that come with the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Builtin {
    /// A command that runs once.
    Task,
    /// A terminal with a shell.
    Session,
    /// An agent at work in a terminal.
    Agent,
    /// Something that runs until it is stopped.
    Service,
    /// A service without a program of its own: a place for execs.
    Sandbox,
    /// A command that makes something from a copy of the project, without a network.
    Build,
    /// The same for container images.
    ContainerBuild,
}

impl Builtin {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Task,
        Self::Session,
        Self::Agent,
        Self::Service,
        Self::Sandbox,
        Self::Build,
        Self::ContainerBuild,
    ];

    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::Session => "session",
            Self::Agent => "agent",
            Self::Service => "service",
            Self::Sandbox => "sandbox",
            Self::Build => "build",
            Self::ContainerBuild => "container-build",
        }
    }

    /// The type of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|builtin| builtin.as_str() == word)
    }
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// When a box ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// When its entrypoint returns.
    UntilComplete,
    /// When it is stopped. Its entrypoint's return is an event; it may have none at all.
    UntilStopped,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_type_is_built_in_or_has_a_root() {
        let read = |json: serde_json::Value| serde_json::from_value::<IdentitySection>(json);
        let base = |it: &str| json!({"name": null, "entry": null, "type": it, "lifetime": "until_complete"});
        // As earlier builds wrote it.
        assert_eq!(read(base("task")).unwrap().box_type, Builtin::Task.into());
        let mut own = base("ci");
        read(own.clone()).unwrap_err();
        own["root"] = json!("container-build");
        let section = read(own.clone()).unwrap();
        let expected = BoxType::Own { name: "ci".parse().unwrap(), root: Builtin::ContainerBuild };
        assert_eq!(section.box_type, expected);
        assert_eq!(serde_json::to_value(&section).unwrap(), own);
        let mut taken = base("task");
        taken["root"] = json!("service");
        read(taken).unwrap_err();
        let mut wrong = base("c i");
        wrong["root"] = json!("task");
        read(wrong).unwrap_err();
        for builtin in Builtin::ALL {
            assert_eq!(serde_json::to_value(builtin).unwrap(), builtin.as_str());
            assert_eq!(Builtin::from_word(builtin.as_str()), Some(builtin));
            assert_eq!(BoxType::from(builtin).name().as_str(), builtin.as_str());
        }
    }
}
