//! Why a call has no answer.

use std::time::Duration;

use minimal_proto::{ErrorBody, ErrorCode};

use crate::ConnectError;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// There is no connection, so nothing was asked.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection closed before the answer was complete. Whether the daemon carried it out is
    /// not known.
    #[error("the daemon closed the connection before it had answered {what}")]
    Lost {
        /// Method and path.
        what: String,
        /// What was seen.
        #[source]
        source: hyper::Error,
    },
    /// A stream closed before its first message.
    #[error("the daemon closed the connection before it had begun {what}")]
    Closed {
        /// Method and path.
        what: String,
    },
    /// The daemon did not answer in time.
    #[error("the daemon has not answered {what} within {} s", limit.as_secs())]
    Silent {
        /// Method and path.
        what: String,
        /// How long was waited.
        limit: Duration,
    },
    /// An answer of another form than the API's.
    #[error("the daemon's answer to {what} cannot be read")]
    Malformed {
        /// Method and path.
        what: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A switch to a stream that does not follow the protocol.
    #[error("the daemon did not open a stream for {what}: {why}")]
    Upgrade {
        /// Method and path.
        what: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The daemon's own error.
    #[error(transparent)]
    Api(Box<ErrorBody>),
    /// The connection was lost again and again until the time was used up.
    #[error("the daemon was not reached again within {} s", after.as_secs())]
    GaveUp {
        /// Time without progress.
        after: Duration,
        /// The last attempt's failure.
        #[source]
        source: Box<CallError>,
    },
}

impl CallError {
    /// The code of the table that fits.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Connect(ConnectError::Start(body)) => body.code,
            Self::Connect(ConnectError::OtherUser { .. }) => ErrorCode::Forbidden,
            Self::Connect(_)
            | Self::Lost { .. }
            | Self::Closed { .. }
            | Self::Silent { .. }
            | Self::GaveUp { .. } => ErrorCode::Unreachable,
            Self::Malformed { .. } | Self::Upgrade { .. } => ErrorCode::Internal,
            Self::Api(body) => body.code,
        }
    }

    /// Whether joining a box's streams may succeed later: no keeper answers yet, or the daemon has
    /// not noticed the end of our own last connection.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self.code(), ErrorCode::Unresponsive | ErrorCode::InputHeld)
    }

    /// Whether the same call may succeed once a daemon answers again.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Lost { .. } | Self::Closed { .. } | Self::Silent { .. } => true,
            Self::Connect(error) => match error {
                ConnectError::Absent { .. }
                | ConnectError::Silent { .. }
                | ConnectError::Io { .. }
                | ConnectError::Start(_) => true,
                ConnectError::OtherUser { .. } | ConnectError::Name { .. } => false,
            },
            Self::Api(body) => body.code == ErrorCode::SteppingDown,
            Self::Malformed { .. } | Self::Upgrade { .. } | Self::GaveUp { .. } => false,
        }
    }
}
