//! Section `hooks`: what runs in a box at points of its life.

use serde::{Deserialize, Serialize};

use crate::ByteString;

/// Section `hooks`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct HooksSection {
    /// When the box was made; a failure fails the start.
    pub on_activate: Vec<Hook>,
    /// When someone attaches.
    pub on_attach: Vec<Hook>,
    /// When someone leaves.
    pub on_detach: Vec<Hook>,
    /// Before the box ends.
    pub on_destroy: Vec<Hook>,
    /// Whether a further life runs `on_activate` again.
    pub on_resume: bool,
}

impl HooksSection {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let lists = [&self.on_activate, &self.on_attach, &self.on_detach, &self.on_destroy];
        lists.into_iter().all(Vec::is_empty)
    }
}

/// A script that runs in a box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// What runs.
    pub script: Script,
    /// Milliseconds within which it must be done.
    pub timeout_ms: u64,
}

/// Default of [`Hook::timeout_ms`].
pub const DEFAULT_HOOK_TIMEOUT_MS: u64 = 60_000;

/// A hook's script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Script {
    /// The text itself.
    Inline(String),
    /// A file below the project, relative to it.
    File(ByteString),
}
