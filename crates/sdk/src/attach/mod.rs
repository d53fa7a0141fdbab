//! The streams of a box or of an exec, resumed in both directions.
//!
//! ```text
//!  AttachStream ◀─events (bounded)── driver task ──WebSocket──▶ daemon
//!  AttachHandle ──commands─────────▶   │ cursor: where output goes on
//!    (input waits for its window)      │ input ring: bytes not yet accepted
//! ```
//!
//! The driver owns the connection. When it closes without a terminal message the driver connects
//! again, asks for output from where it is, and sends the input again that was not accepted. The
//! two rules are plain values, `cursor` and `input`, with tests of their own.

mod connection;
mod cursor;
mod driver;
mod handle;
mod input;
mod session;

use minimal_proto::stream::Stream;
use minimal_proto::{Ending, ErrorBody, ErrorCode, TerminalSize};
use tokio::sync::mpsc;
use uuid::Uuid;

use self::connection::Connection;
use self::driver::Driver;
pub use self::handle::{AttachHandle, InputClosed};
use crate::http::Repeat;
use crate::{CallError, Client, RetryPolicy, Subject};

/// How to join the streams of a box or of an exec.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// The first output offset wanted. Not heeded with a `screen`.
    pub from: u64,
    /// Show a terminal as it stands, in one of this size: what it shows first, then what follows. With
    /// `input` the terminal gets this size. Of what has no terminal, everything from the first byte.
    pub screen: Option<TerminalSize>,
    /// Whether this client writes the input.
    pub input: bool,
    /// Whether this is the creator, for whom the log is kept until it has read it: then
    /// [`AttachHandle::read`] must be called for what was written to its end.
    pub pin: bool,
    /// How long a lost daemon is sought.
    pub retry: RetryPolicy,
}

impl Default for AttachOptions {
    /// A watcher from the first byte.
    fn default() -> Self {
        Self { from: 0, screen: None, input: false, pin: false, retry: RetryPolicy::default() }
    }
}

/// What comes from a box's streams.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// Output. Offsets follow each other without gap or repeat, but for what [`Self::Gap`] says.
    Output {
        /// Which.
        stream: Stream,
        /// The offset of the first byte.
        offset: u64,
        /// The bytes.
        bytes: bytes::Bytes,
    },
    /// What brings a terminal to show what was there. Before all output, if it was asked for.
    Screen(bytes::Bytes),
    /// Output that is no longer kept, or was not sent.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The byte after the last missing one.
        to: u64,
    },
    /// All output there was at the start has come. Told once.
    Live,
    /// Words of the daemon for a person.
    Notice(String),
    /// The box takes no more input. Told once.
    InputClosed,
    /// Another client writes the input of the terminal from now on; this one goes on watching.
    KeyboardLost,
    /// This client leaves, and so many bytes of its input may not have reached the box. Right before
    /// [`Self::Detached`].
    InputLost(u64),
    /// The connection was lost and is sought again. The box runs on.
    Lost,
    /// The connection is there again.
    Resumed,
    /// The last: the box ended, and all its output has come.
    Exited(Ending),
    /// The last: this client asked to leave.
    Detached,
}

impl StreamEvent {
    /// Whether nothing follows it.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Exited(_) | Self::Detached)
    }
}

/// Why there will be no more events, though the box's ending is not known.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// No daemon could be asked.
    #[error("the stream was lost and could not be resumed")]
    Lost(#[source] CallError),
    /// The daemon ended the stream with a fault.
    #[error(transparent)]
    Fault(Box<ErrorBody>),
    /// The daemon broke the protocol's promises.
    #[error("the daemon broke the stream protocol: {0}")]
    Violation(String),
    /// The stream is over; its last event was taken before.
    #[error("the stream is over")]
    Over,
}

impl StreamError {
    /// The code of the table that fits. Whatever it is, the ending is unknown.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Fault(body) => body.code,
            Self::Lost(_) | Self::Violation(_) | Self::Over => ErrorCode::ExitUnknown,
        }
    }
}

/// The events of a box's streams. Dropping it leaves the box as it is.
#[derive(Debug)]
pub struct AttachStream {
    tty: bool,
    events: mpsc::Receiver<Result<StreamEvent, StreamError>>,
}

impl AttachStream {
    /// Whether the streams are a terminal.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        self.tty
    }

    /// The next event. Cancelling loses nothing.
    ///
    /// # Errors
    /// The ending is not known and will not be, by this stream.
    pub async fn next(&mut self) -> Result<StreamEvent, StreamError> {
        match self.events.recv().await {
            Some(event) => event,
            None => Err(StreamError::Over),
        }
    }
}

/// How many events wait for a consumer that is busy: with 256 KiB each, enough that the socket is
/// read while the last piece is being written.
const EVENTS_AHEAD: usize = 4;

pub(crate) async fn attach(
    client: Client,
    subject: Subject,
    options: AttachOptions,
) -> Result<(AttachStream, AttachHandle), CallError> {
    let identity = Uuid::now_v7();
    let mut backoff = crate::backoff::Backoff::new(options.retry);
    let from = options.screen.is_none().then_some(options.from);
    let (connection, attached) = loop {
        match Connection::open(&client, subject, &options, identity, from).await {
            Ok(open) => break open,
            // The box is there: whether its keeper is, is found out by the daemon.
            Err(error) if error.code() == ErrorCode::Unresponsive => {
                if !backoff.pause().await {
                    return Err(error);
                }
            }
            Err(error) => {
                client.http().recover(&mut backoff, None, Repeat::Safe, error).await?;
            }
        }
    };
    let (events, receiver) = mpsc::channel(EVENTS_AHEAD);
    let (handle, commands) = handle::pair();
    let tty = attached.tty;
    let driver = Driver::new(client, subject, options, identity, events, commands);
    drop(tokio::spawn(driver.run(connection, attached)));
    Ok((AttachStream { tty, events: receiver }, handle))
}
