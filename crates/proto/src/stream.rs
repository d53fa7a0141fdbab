//! The stream protocol of an attach: WebSocket, subprotocol [`SUBPROTOCOL`].
//!
//! Binary messages carry bytes, text messages carry JSON. A stream has exactly one terminal
//! message ([`ServerMessage::is_terminal`]); a connection that closes without one has told nothing
//! about the box.

use serde::{Deserialize, Serialize};

use crate::{BoxId, Ending, ErrorBody, ExecId, Signal};

/// The WebSocket subprotocol both sides name.
pub const SUBPROTOCOL: &str = "min.v1";

/// How many bytes of input a client may have sent beyond what was accepted.
pub const INPUT_WINDOW: u64 = 1 << 20;

/// The longest binary message, header included.
pub const MAX_BINARY: usize = 1 << 20;

/// How long a box's input stays open, and its log pinned, without the client: 60 s.
pub const CLIENT_GRACE_MS: u64 = 60_000;

/// Which of a box's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A terminal.
    Pty,
}

impl Stream {
    /// The byte on the wire and in the log.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        match self {
            Self::Stdout => 1,
            Self::Stderr => 2,
            Self::Pty => 3,
        }
    }

    /// The stream of a byte.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Stdout),
            2 => Some(Self::Stderr),
            3 => Some(Self::Pty),
            _ => None,
        }
    }
}

/// Text messages of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerMessage {
    /// The first message.
    Attached {
        /// The box.
        #[serde(rename = "box")]
        box_id: BoxId,
        /// The exec, if it is one's stream.
        exec: Option<ExecId>,
        /// The offset of the first byte that will come.
        from: u64,
        /// The end of the log now.
        end: u64,
        /// How much input has been accepted; where a writer goes on.
        input_offset: u64,
        /// Whether the box still takes input.
        input_open: bool,
        /// Whether the streams are a terminal.
        tty: bool,
    },
    /// Everything that was there at the start has been sent.
    Live,
    /// These bytes are no longer kept.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The byte after the last missing one.
        to: u64,
    },
    /// Input up to here has been handed to the box.
    InputAccepted {
        /// Bytes from the start of the input.
        offset: u64,
    },
    /// The box closed its input: nothing more will be accepted.
    InputClosed,
    /// Another client writes the input of the terminal now. This one goes on watching.
    KeyboardLost {
        /// Which client, if it has a name.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
        to: Option<uuid::Uuid>,
    },
    /// Words for a person.
    Notice {
        /// The words.
        text: String,
    },
    /// Terminal: the box or exec ended, and all its output has been sent.
    Exited {
        /// How.
        ending: Ending,
    },
    /// Terminal: the client asked to detach.
    Detached,
    /// Terminal: a fault.
    Error(ErrorBody),
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

impl ServerMessage {
    /// Whether nothing follows it.
    #[must_use]
    pub const fn is_terminal(&self) -> bool {
        matches!(self, Self::Exited { .. } | Self::Detached | Self::Error(_))
    }
}

/// Text messages of the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ClientMessage {
    /// The input ends after the bytes sent so far.
    Eof,
    /// A signal for the entrypoint's process group.
    Signal {
        /// Which.
        name: Signal,
    },
    /// The terminal has this size from now on. Only of whoever writes its input.
    Resize {
        /// Characters in a line.
        cols: u16,
        /// Lines.
        rows: u16,
    },
    /// The pinning client has written everything before this offset to where it goes.
    Read {
        /// Bytes from the start of the output.
        offset: u64,
    },
    /// The client leaves on purpose.
    Detach,
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// In place of a stream's byte: what a terminal is to be sent so that it shows what was there before the
/// offset that stands behind it. Comes right behind [`ServerMessage::Attached`], to who has asked for it.
pub const REPAINT: u8 = 4;

/// Length of an [`OutputFrame`]'s header: one byte of stream, eight of offset (little-endian).
pub const OUTPUT_HEADER: usize = 9;

/// Length of an [`InputFrame`]'s header: eight bytes of offset (little-endian).
pub const INPUT_HEADER: usize = 8;

/// A binary message of the server: output bytes and where they belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputFrame<'a> {
    /// Which output.
    pub stream: Stream,
    /// The offset of its first byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> OutputFrame<'a> {
    /// The header for these bytes.
    #[must_use]
    pub fn header(&self) -> [u8; OUTPUT_HEADER] {
        let mut header = [0; OUTPUT_HEADER];
        header[0] = self.stream.to_byte();
        header[1..].copy_from_slice(&self.offset.to_le_bytes());
        header
    }

    /// Reads a message; `None` if it is too short or names no stream.
    #[must_use]
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (header, bytes) = message.split_first_chunk::<OUTPUT_HEADER>()?;
        let (stream, offset) = header.split_first()?;
        Some(Self {
            stream: Stream::from_byte(*stream)?,
            offset: u64::from_le_bytes(offset.try_into().ok()?),
            bytes,
        })
    }
}

/// A binary message of the client: input bytes and where they belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputFrame<'a> {
    /// The offset of its first byte in this writer's input.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> InputFrame<'a> {
    /// The message as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(INPUT_HEADER + self.bytes.len());
        message.extend_from_slice(&self.offset.to_le_bytes());
        message.extend_from_slice(self.bytes);
        message
    }

    /// Reads a message; `None` if it is too short.
    #[must_use]
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (header, bytes) = message.split_first_chunk::<INPUT_HEADER>()?;
        Some(Self { offset: u64::from_le_bytes(*header), bytes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn output_frames_round_trip(byte in 1u8..=3, offset: u64, bytes: Vec<u8>) {
            let frame = OutputFrame { stream: Stream::from_byte(byte).unwrap(), offset, bytes: &bytes };
            let message = [frame.header().as_slice(), &bytes].concat();
            prop_assert_eq!(OutputFrame::parse(&message), Some(frame));
        }

        #[test]
        fn no_message_panics(bytes: Vec<u8>) {
            let rest = bytes.len();
            prop_assert!(OutputFrame::parse(&bytes).is_none_or(|frame| frame.bytes.len() < rest));
            prop_assert!(InputFrame::parse(&bytes).is_none_or(|frame| frame.bytes.len() < rest));
            drop(serde_json::from_slice::<ServerMessage>(&bytes));
            drop(serde_json::from_slice::<ClientMessage>(&bytes));
        }
    }

    #[test]
    fn unknown_messages_are_kept_apart() {
        let message: ServerMessage = serde_json::from_str(r#"{"type":"later","x":1}"#).unwrap();
        assert_eq!(message, ServerMessage::Unknown);
        assert!(!message.is_terminal());
    }
}
