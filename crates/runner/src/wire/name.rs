//! Names of sandboxes, as a hub gives them.

use std::fmt;
use std::str::FromStr;

/// The longest name, in bytes: that of a file (NAME_MAX of Linux), since peers make directories of
/// names.
pub const NAME_MAX: usize = 255;

/// A name that cannot lead anywhere else: not empty, without `/`, `\`, control characters or a
/// leading dot, at most [`NAME_MAX`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SandboxName(String);

impl SandboxName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SandboxName {
    type Err = SandboxNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let why = if text.is_empty() {
            "it is empty"
        } else if text.len() > NAME_MAX {
            "it is longer than 255 bytes"
        } else if text.starts_with('.') {
            "it begins with a dot"
        } else if text.contains(['/', '\\']) {
            "it holds a slash or a backslash"
        } else if text.chars().any(char::is_control) {
            "it holds a control character"
        } else {
            return Ok(Self(text.to_owned()));
        };
        Err(SandboxNameError { why })
    }
}

/// Why a text cannot name a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad sandbox name: {why}")]
pub struct SandboxNameError {
    why: &'static str,
}
