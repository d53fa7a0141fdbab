//! Types of boxes, as data: what they default to, and what they allow.

use minimal_proto::Spec;
use minimal_proto::spec::{BoxType, Builtin};
use serde_json::{Value as Json, json};

use crate::keys;
use crate::layer::{Assign, ENTRY, Layer, LayerName, Origin, Path, Rule, path};

/// What a type allows of one value: one of these, and no other.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// The key, as an entry writes it.
    pub key: String,
    pub(crate) path: Path,
    /// What is allowed.
    pub allowed: Vec<Json>,
}

/// A type, and what it adds to the one it extends.
#[derive(Clone, Debug)]
pub struct TypeInfo {
    /// Its word.
    pub name: String,
    /// The type it extends.
    pub extends: Option<String>,
    /// What it is for.
    pub description: String,
    /// Where it is defined; a built-in one is nowhere.
    pub defined: Option<Origin>,
    pub(crate) defaults: Layer,
    /// What it allows; what the types it extends allow comes on top.
    pub constraints: Vec<Constraint>,
}

impl TypeInfo {
    /// What it defaults to, by path of the spec.
    pub fn defaults(&self) -> impl Iterator<Item = (String, &Json)> {
        self.defaults.0.iter().map(|assign| (crate::layer::shown(&assign.path), &assign.value))
    }
}

/// What kind of value a constraint is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Constrained {
    Word(&'static [&'static str]),
    Boolean,
    Text,
}

/// Keys that a type can constrain, and where their values are in a spec.
pub(crate) const CONSTRAINABLE: &[(&str, &[&str], Constrained)] = &[
    ("cpu_arch", &["machine", "cpu_arch"], Constrained::Word(keys::ARCHS)),
    ("hooks_on_resume", &["hooks", "on_resume"], Constrained::Boolean),
    ("io.exec_enabled", &["io", "exec_enabled"], Constrained::Boolean),
    ("io.pty_enabled", &["io", "pty_enabled"], Constrained::Boolean),
    ("io.resume", &["io", "resume"], Constrained::Word(keys::RESUMES)),
    ("lifetime", &["box", "lifetime"], Constrained::Word(keys::LIFETIMES)),
    ("network.dynamic_ingress", &["network", "dynamic_ingress"], Constrained::Word(keys::DYNAMIC)),
    ("network.mode", &["network", "mode"], Constrained::Word(keys::NETWORK_MODES)),
    ("on_oom", &["execution", "on_oom"], Constrained::Word(keys::OOM)),
    ("pty_enabled", &["io", "pty_enabled"], Constrained::Boolean),
    ("restart", &["execution", "restart", "policy"], Constrained::Word(keys::RESTARTS)),
    ("resume", &["io", "resume"], Constrained::Word(keys::RESUMES)),
    ("rootfs", &["files", "rootfs"], Constrained::Text),
    ("user", &["execution", "user"], Constrained::Text),
    ("workspace", &["files", "workspace"], Constrained::Word(keys::WORKSPACES)),
];

/// A built-in type.
#[must_use]
pub fn builtin(builtin: Builtin) -> TypeInfo {
    let (extends, description, defaults, constraints): (_, _, &[(&[&str], Json)], _) = match builtin
    {
        Builtin::Task => (
            None,
            "A command that runs once.",
            &[(&["files", "workspace"], json!("overlay"))],
            vec![constraint("pty_enabled", json!(false))],
        ),
        Builtin::Session => (
            None,
            "A terminal with a shell.",
            &[
                (&["io", "pty_enabled"], json!(true)),
                (&["io", "resume"], json!("attach")),
                (&["files", "workspace"], json!("overlay")),
                (&[ENTRY, "command"], json!({"exec": ["bash", "-l"]})),
            ],
            vec![constraint("pty_enabled", json!(true))],
        ),
        Builtin::Agent => (
            None,
            "An agent at work in a terminal.",
            &[
                (&["io", "pty_enabled"], json!(true)),
                (&["io", "resume"], json!("attach")),
                (&["files", "workspace"], json!("overlay")),
            ],
            vec![],
        ),
        Builtin::Service => (
            None,
            "Something that runs until it is stopped.",
            &[
                (&["box", "lifetime"], json!("until_stopped")),
                (&["execution", "restart"], restart("on_failure")),
                (&["files", "workspace"], json!("overlay")),
            ],
            vec![],
        ),
        Builtin::Sandbox => (
            Some(Builtin::Service),
            "A service without a program of its own: a place for commands to be run in.",
            &[(&["execution", "restart"], restart("never"))],
            vec![],
        ),
        Builtin::Build | Builtin::ContainerBuild => (
            None,
            "A command that makes something from a copy of the project, without a network.",
            &[(&["files", "workspace"], json!("copy"))],
            vec![constraint("network.mode", json!("none"))],
        ),
    };
    let name = builtin.as_str().to_owned();
    let layer = LayerName::Type(name.clone());
    let assign = |(keys, value): &(&[&str], Json)| Assign {
        path: path(keys),
        rule: Rule::Replace,
        value: value.clone(),
        origin: Origin::of(layer.clone()),
    };
    TypeInfo {
        extends: extends.map(|it: Builtin| it.as_str().to_owned()),
        description: description.to_owned(),
        defined: None,
        defaults: Layer(defaults.iter().map(assign).collect()),
        constraints,
        name,
    }
}

fn restart(policy: &str) -> Json {
    let mut value = json!(minimal_proto::spec::Restart::default());
    value["policy"] = json!(policy);
    value
}

fn constraint(key: &str, only: Json) -> Constraint {
    let (_, keys, _) =
        CONSTRAINABLE.iter().find(|(known, ..)| *known == key).expect("it is listed");
    Constraint { key: key.to_owned(), path: path(keys), allowed: vec![only] }
}

/// A value that a type does not allow.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path} is {value}, and the type `{type_name}` allows {}", listed(.allowed))]
pub struct Violation {
    /// Where the value is in the spec.
    pub path: String,
    /// The value.
    pub value: Json,
    /// The type that does not allow it.
    pub type_name: String,
    /// What it allows.
    pub allowed: Vec<Json>,
}

fn listed(allowed: &[Json]) -> String {
    let words: Vec<_> = allowed.iter().map(ToString::to_string).collect();
    words.join(" or ")
}

/// What of a spec, as JSON, a type does not allow.
pub(crate) fn violations<'a>(
    spec: &'a Json,
    type_info: &'a TypeInfo,
) -> impl Iterator<Item = (&'a Constraint, Violation)> {
    type_info.constraints.iter().filter_map(move |constraint| {
        let mut value = spec;
        for key in &constraint.path {
            value = value.get(key)?;
        }
        (!constraint.allowed.contains(value)).then(|| {
            let violation = Violation {
                path: crate::layer::shown(&constraint.path),
                value: value.clone(),
                type_name: type_info.name.clone(),
                allowed: constraint.allowed.clone(),
            };
            (constraint, violation)
        })
    })
}

/// Checks a spec, whoever made it, against the built-in type at its root and those which that one
/// extends.
///
/// # Errors
/// The first value that is not allowed.
///
/// # Panics
/// Never: a spec has string keys only.
pub fn check_root(spec: &Spec) -> Result<(), Violation> {
    let json = serde_json::to_value(spec).expect("a spec has string keys only");
    let mut next = Some(spec.identity.box_type.root());
    while let Some(root) = next {
        let info = builtin(root);
        if let Some((_, violation)) = violations(&json, &info).next() {
            return Err(violation);
        }
        next = info.extends.as_deref().and_then(Builtin::from_word);
    }
    Ok(())
}

/// The built-in type of a word, or a project's.
pub(crate) fn box_type(name: &str, root: Builtin) -> BoxType {
    match Builtin::from_word(name) {
        Some(builtin) => builtin.into(),
        None => {
            let name = name.parse().expect("names of types were checked");
            BoxType::Own { name, root }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_checked_whoever_made_the_spec() {
        let mut spec = Spec::task(vec!["a".into()]);
        assert_eq!(check_root(&spec), Ok(()));
        spec.io.pty_enabled = true;
        let violation = check_root(&spec).unwrap_err();
        assert_eq!(
            violation.to_string(),
            "io.pty_enabled is true, and the type `task` allows false"
        );
        spec.identity.box_type = BoxType::Own { name: "ci".parse().unwrap(), root: Builtin::Build };
        assert_eq!(check_root(&spec), Ok(()));
        spec.network.mode = minimal_proto::spec::NetworkMode::HostIp;
        assert_eq!(check_root(&spec).unwrap_err().path, "network.mode");
    }
}
