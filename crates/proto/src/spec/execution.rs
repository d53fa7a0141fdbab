//! Section `execution`: what runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ByteString;

/// Section `execution`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecutionSection {
    /// Program and arguments, none with a NUL byte. Never a shell line. Empty: the box has no
    /// entrypoint, which only one that lives until it is stopped can do without.
    #[serde(default)]
    pub exec: Vec<ByteString>,
    /// Where it starts, in the box. Absent: the workspace. Relative: below the workspace.
    pub cwd: Option<ByteString>,
    /// Who runs it: a name that the box's `/etc/passwd` has, or a uid. One that the box has no user
    /// for fails the start.
    #[serde(default = "box_user")]
    pub user: String,
    /// Environment by name.
    pub env: BTreeMap<String, EnvSource>,
    /// Ended with reason `timeout` after this many milliseconds, counted from its start on the
    /// monotonic clock. Absent: never.
    pub timeout_ms: Option<u64>,
    /// How long a stop or timeout waits between TERM and KILL, in milliseconds.
    pub stop_grace_ms: u64,
    /// What ends when the kernel kills one of its processes for memory.
    #[serde(default)]
    pub on_oom: OnOom,
    /// Whether an entrypoint that returned is started again.
    #[serde(default)]
    pub restart: Restart,
    /// When the box is ready for others. Absent: as soon as it runs.
    #[serde(default)]
    pub ready: Option<Ready>,
}

/// Default of [`ExecutionSection::user`].
pub const DEFAULT_USER: &str = "box";

/// Default of [`ExecutionSection::stop_grace_ms`].
pub const DEFAULT_STOP_GRACE_MS: u64 = 10_000;

fn box_user() -> String {
    DEFAULT_USER.to_owned()
}

impl ExecutionSection {
    /// A section that runs `exec` with every default.
    #[must_use]
    pub fn of(exec: Vec<ByteString>) -> Self {
        Self {
            exec,
            cwd: None,
            user: box_user(),
            env: BTreeMap::new(),
            timeout_ms: None,
            stop_grace_ms: DEFAULT_STOP_GRACE_MS,
            on_oom: OnOom::default(),
            restart: Restart::default(),
            ready: None,
        }
    }
}

/// Where a variable's value comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EnvSource {
    /// The value, which is not a secret: it is stored.
    Value(ByteString),
    /// Given at start, in memory only.
    Given,
}

/// What ends when the kernel kills a process of the box because the box is out of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnOom {
    /// That process; and the box, if it was its entrypoint.
    #[default]
    KillProcess,
    /// The whole box, with reason `oom`.
    EndBox,
}

/// Whether an entrypoint that returned is started again in the same box. Only for boxes that live
/// until they are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Restart {
    /// When.
    pub policy: RestartPolicy,
    /// The most restarts in a row, after which the box ends with reason `not_ready`. An entrypoint
    /// that ran for longer than `backoff_max_ms` begins a new row.
    pub max: u32,
    /// Milliseconds before the first restart of a row; each further one waits twice as long.
    pub backoff_ms: u64,
    /// The most milliseconds before a restart.
    pub backoff_max_ms: u64,
}

impl Default for Restart {
    fn default() -> Self {
        Self { policy: RestartPolicy::Never, max: 5, backoff_ms: 1_000, backoff_max_ms: 30_000 }
    }
}

/// When an entrypoint is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RestartPolicy {
    /// Never.
    #[default]
    Never,
    /// When it returned another code than 0, or a signal ended it.
    OnFailure,
    /// Whenever it returned.
    Always,
}

/// When a box is ready for others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// How it is found out.
    pub probe: Probe,
    /// Milliseconds within which it must be, counted from the entrypoint's start; else the box ends
    /// with reason `not_ready`.
    pub timeout_ms: u64,
    /// Milliseconds between two looks.
    pub interval_ms: u64,
}

impl Ready {
    /// Default of [`Self::timeout_ms`]: a minute, as hooks have.
    pub const DEFAULT_TIMEOUT_MS: u64 = 60_000;
    /// Default of [`Self::interval_ms`].
    pub const DEFAULT_INTERVAL_MS: u64 = 200;
}

/// What tells that a box is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Probe {
    /// Something accepts TCP connections on this port of the box's loopback.
    Port(u16),
    /// This command, run in the box, returns 0.
    Exec(Vec<ByteString>),
}
