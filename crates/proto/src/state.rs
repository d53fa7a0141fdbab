//! States of a box.
//!
//! ```text
//! created ─▶ pending ─▶ materializing ─▶ running ─┬─▶ exited   (its own end, timeout)
//!                │            │                   └─▶ stopped  (stop, or lost)
//!                │            │           ▲      │
//!                └────────────┴─▶ failed  └──────┘ a further life: resumed (pending until it runs)
//! any of exited, stopped, failed ─▶ reaped
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a box is in its life. A reaped box has no record and so no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It has a directory and a spec.
    Created,
    /// Its keeper has been asked for.
    Pending,
    /// Its keeper is assembling it.
    Materializing,
    /// Its entrypoint has been executed.
    Running,
    /// It ended by itself or by a limit.
    Exited,
    /// It was stopped, or lost.
    Stopped,
    /// It never started.
    Failed,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 7] = [
        Self::Created,
        Self::Pending,
        Self::Materializing,
        Self::Running,
        Self::Exited,
        Self::Stopped,
        Self::Failed,
    ];

    /// Whether the box has an ending and can be reaped.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        match self {
            Self::Exited | Self::Stopped | Self::Failed => true,
            Self::Created | Self::Pending | Self::Materializing | Self::Running => false,
        }
    }

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Pending => "pending",
            Self::Materializing => "materializing",
            Self::Running => "running",
            Self::Exited => "exited",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Whether what is known about a box can be relied on; beside its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Nothing is wrong.
    Ok,
    /// Its keeper holds its lock but does not answer.
    Unresponsive,
    /// Something beside the entrypoint failed; the `degraded` event says what.
    Degraded,
    /// Its directory cannot be read; `broken_reason` says why.
    Broken,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Unresponsive => "unresponsive",
            Self::Degraded => "degraded",
            Self::Broken => "broken",
        })
    }
}
