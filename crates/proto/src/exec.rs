//! Execs: further commands run in a running box, each under an id of its own.
//!
//! What a box's directory holds of one, in `execs/<exec id>/`: `exec.json` ([`ExecFile`], written
//! before anything is executed), `end.json` ([`ExecEnd`], synced before anyone is told) and `log/`.

use serde::{Deserialize, Serialize};

use crate::{BoxId, ByteString, Ending, ExecId, TerminalSize, Timestamp};

/// Bytes of output kept of an exec: 8 MiB. Past it the oldest go, except the first MiB.
pub const EXEC_LOG_MAX: u64 = 8 << 20;

/// What to run. It holds no values of variables: those travel beside it and are never stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecCommand {
    /// Program and arguments, at least one, none with a NUL byte. Never a shell line.
    pub argv: Vec<ByteString>,
    /// Where it starts, in the box. Absent: where the entrypoint did. Relative: below the workspace.
    #[serde(default)]
    pub cwd: Option<ByteString>,
    /// Who runs it: a name that the box's `/etc/passwd` has, or a uid. Absent: whoever runs the
    /// entrypoint.
    #[serde(default)]
    pub user: Option<String>,
    /// Names of the variables that were given for it; each adds to the box's, or replaces one.
    #[serde(default)]
    pub variables: Vec<String>,
    /// Ended with reason `timeout` after this many milliseconds, counted from its start on the
    /// monotonic clock. Absent: never.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// Milliseconds between TERM and KILL when it is stopped; absent: as the box's spec says.
    #[serde(default)]
    pub stop_grace_ms: Option<u64>,
    /// Whose it is.
    pub mode: ExecMode,
    /// Whether its stdin takes input; else it is empty from the start.
    #[serde(default)]
    pub input: bool,
    /// With [`ExecMode::Tty`]: how large its terminal is at first. Absent: 80 x 24.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
}

/// Whether an exec lives by its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExecMode {
    /// By its creator: its log is pinned for that client, and it ends with that client (`client_lost`),
    /// at once if the client leaves, after 60 s if the daemon between them is gone and neither
    /// comes back.
    Attached,
    /// By itself.
    Detached,
    /// By itself, with a terminal of its own, which always takes input.
    Tty,
}

/// `exec.json`: what was asked for, frozen. Schema `min/v1/exec-file`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecFile {
    /// Always `min/v1/exec-file`.
    pub schema: String,
    /// The exec.
    pub id: ExecId,
    /// Its box.
    #[serde(rename = "box")]
    pub box_id: BoxId,
    /// Which life of the box.
    pub life: u32,
    /// What was asked for.
    pub command: ExecCommand,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// The idempotency key of the request, if it had one: what a repeat means that comes after the
    /// box's end.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// SHA-256 (hex) of the request, to tell a repeat from another request with that key.
    #[serde(default)]
    pub request_digest: Option<String>,
}

/// `end.json`: how it ended. Schema `min/v1/exec-end`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecEnd {
    /// Always `min/v1/exec-end`.
    pub schema: String,
    /// When its program was executed; null if it never was, or nobody knows.
    pub started_at: Option<Timestamp>,
    /// How.
    pub ending: Ending,
}
