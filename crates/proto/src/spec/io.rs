//! Section `io`: streams and the log.

use serde::{Deserialize, Serialize};

/// Section `io`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IoSection {
    /// Whether its entrypoint has a terminal.
    #[serde(default)]
    pub pty_enabled: bool,
    /// Whether further commands can be run in it.
    #[serde(default = "yes")]
    pub exec_enabled: bool,
    /// What begins a further life of it once it has ended.
    #[serde(default)]
    pub resume: Resume,
    /// Bytes of output kept; past it the oldest go, except the first MiB.
    pub log_max: u64,
}

/// Default of [`IoSection::log_max`]: 256 MiB.
pub const DEFAULT_LOG_MAX: u64 = 256 << 20;

const fn yes() -> bool {
    true
}

impl Default for IoSection {
    fn default() -> Self {
        Self {
            pty_enabled: false,
            exec_enabled: true,
            resume: Resume::default(),
            log_max: DEFAULT_LOG_MAX,
        }
    }
}

/// What begins a further life of an ended box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// Attaching to it does.
    Attach,
    /// Only a request to resume it does.
    #[default]
    Explicit,
    /// Nothing does.
    Never,
}
