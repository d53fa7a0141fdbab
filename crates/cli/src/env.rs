//! The environment, read once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What the caller's environment held when we started.
#[derive(Clone, Debug, Default)]
pub struct Env {
    variables: BTreeMap<OsString, OsString>,
}

impl Env {
    /// Reads the process's environment.
    #[must_use]
    pub fn read() -> Self {
        Self { variables: std::env::vars_os().collect() }
    }

    /// The value of a variable, also if it is empty.
    #[must_use]
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// A variable that holds a path; an empty one counts as not set.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// Whether a variable is set and not empty, which is what `NO_COLOR` asks for.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_empty())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Env {
    fn from(variables: [(&str, &str); N]) -> Self {
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        Self { variables: variables.into() }
    }
}
