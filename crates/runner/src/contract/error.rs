//! Every way in which a provider can refuse or fail. A closed list.

use std::fmt;

/// Why an operation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// Certainly not there.
    #[error("there is no such sandbox or session")]
    NotFound,
    /// A view that would not be whole.
    #[error("the provider gave only a part of the list")]
    Truncated,
    /// This provider does not do that.
    #[error("the provider does not support it")]
    NotSupported,
    /// There is one of that name.
    #[error("there is a sandbox of that name")]
    AlreadyExists,
    /// The command has ended.
    #[error("the command has ended")]
    CommandExited,
    /// Asked too often; seconds to wait, if the provider says.
    #[error("the provider was asked too often")]
    RateLimited(Option<u64>),
    /// Not now, or not known.
    #[error("the sandbox is not available: {0}")]
    Unavailable(Unavailable),
    /// Not for this caller.
    #[error("the provider denies it: {0}")]
    Denied(String),
    /// The request is wrong.
    #[error("the request is wrong: {0}")]
    Invalid(String),
    /// A state that was not brought back.
    #[error("the checkpoint was not restored: {0}")]
    RestoreFailed(String),
    /// Bytes that were not written.
    #[error("the bytes were not written: {0}")]
    WriteFailed(String),
    /// Something else, in the provider's words.
    #[error("{provider}: {detail}")]
    Provider {
        /// Who.
        provider: &'static str,
        /// Its words.
        detail: String,
    },
}

/// Why a sandbox is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// No runner of that id is connected.
    RunnerOffline,
    /// The runner's connection was lost while it was asked. Whether it did it is not known.
    RunnerDisconnected,
    /// The runner did not answer in time. Whether it did it is not known.
    RunnerTimeout,
    /// The command's stream closed before its end was seen.
    ClosedBeforeExit,
    /// The command is over, and nobody knows how it ended.
    ExitUnknown,
    /// In the provider's words.
    Other(String),
}

impl Unavailable {
    /// The word, as it is on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::RunnerOffline => "runner_offline",
            Self::RunnerDisconnected => "runner_disconnected",
            Self::RunnerTimeout => "runner_timeout",
            Self::ClosedBeforeExit => "closed_before_exit",
            Self::ExitUnknown => "exit_unknown",
            Self::Other(words) => words,
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl SandboxError {
    /// Whether the same call may succeed later. What is not known to last counts as passing.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::CommandExited
            | Self::RateLimited(_)
            | Self::Unavailable(_)
            | Self::WriteFailed(_)
            | Self::Provider { .. } => true,
            Self::NotFound
            | Self::Truncated
            | Self::NotSupported
            | Self::AlreadyExists
            | Self::Denied(_)
            | Self::Invalid(_)
            | Self::RestoreFailed(_) => false,
        }
    }
}

/// Why a command's stream ended without a code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// It closed before the command's end was seen.
    #[error("the stream closed before the command's end was seen")]
    ClosedBeforeExit,
    /// The runner's connection was lost.
    #[error("the connection to the runner was lost")]
    RunnerDisconnected,
    /// Whoever waited for the command has told its end without a code.
    #[error("the command is over, and nobody knows how it ended")]
    ExitUnknown,
    /// The caller let go of it.
    #[error("the caller has let go of the command")]
    Stopped,
    /// Its reader was so slow that what waits for it has passed [`super::BACKLOG_MAX`].
    #[error("the reader has fallen too far behind")]
    Overrun,
}
