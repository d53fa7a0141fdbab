//! What daemon and keeper say to each other, over a Unix stream socket.
//!
//! A message is a length (4 bytes, little-endian, of what follows), a kind (1 byte) and a body.
//! Kind 0 is JSON ([`ToKeeper`] or [`FromKeeper`]); kind 1 is input: 8 bytes of offset and bytes.
//! Every exec of a box has a connection of its own. Its first message is [`ToKeeper::Exec`] or
//! [`ToKeeper::JoinExec`], the answer [`FromKeeper::Exec`] or [`FromKeeper::Refused`], and from then
//! on each message on it is about that exec alone, as it is about the box on other connections.
//! The version is in [`Hello`]. A daemon must speak to keepers of older builds, so messages and
//! fields are only ever added, and unknown ones ignored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::api::StartOptions;
use crate::event::Event;
use crate::exec::ExecCommand;
use crate::{
    BoxId, BoxName, ByteString, Ending, ErrorBody, ExecId, Signal, Spec, TerminalSize, Timestamp,
};

/// Version of this protocol.
pub const PROTOCOL: u32 = 1;

/// The longest message. A start holds arguments and environment, which the kernel bounds at 6 MiB
/// together (execve(2)), and JSON may double them.
pub const MAX_MESSAGE: usize = 32 << 20;

/// Kind byte of a JSON message.
pub const KIND_JSON: u8 = 0;
/// Kind byte of an input message.
pub const KIND_INPUT: u8 = 1;

/// What isolation is in force for a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Enforcement {
    /// Namespaces of its own, by the names of namespaces(7).
    pub namespaces: Vec<String>,
    /// `range`: box uids are a reserved range of the host's; `subordinate`: box uid 1000 is the
    /// caller, the others are the caller's subordinate ids; `single`: one uid, the caller's.
    pub users: String,
    /// Lines of its uid map: inside, on the host, count (user_namespaces(7)). Where the daemon
    /// itself is in a user namespace that it did not make, that one's ids stand for the host's.
    pub uid_map: Vec<(u32, u32, u32)>,
    /// `none`: loopback only.
    pub network: String,
    /// What is at `/workbench`: `none`, `overlay`, `copy` or `bind`. Not the spec's where an overlay
    /// could not be laid over the project; `missing` then says why. Absent in records of earlier
    /// builds.
    #[serde(default)]
    pub workspace: Option<String>,
    /// Whether set-uid programs gain nothing.
    pub no_new_privs: bool,
    /// Whether a system call filter is in force.
    #[serde(default)]
    pub seccomp: bool,
    /// Capabilities its processes can have.
    pub capabilities: Vec<String>,
    /// Limits on what it uses of the machine.
    #[serde(default)]
    pub limits: Vec<EnforcedLimit>,
    /// What the box's root can change of the system: `full`: install, upgrade and remove packages,
    /// in layers of the box's own; `none`: nothing.
    #[serde(default = "no_install")]
    pub install: String,
    /// The control group by which the box can be paused; null: it cannot be, and in records of earlier
    /// builds.
    #[serde(default)]
    pub freezer: Option<String>,
    /// What is not in force, each with its reason.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

fn no_install() -> String {
    "none".to_owned()
}

/// A limit in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EnforcedLimit {
    /// `ram`: bytes of memory. `pids`: processes and threads at a time, without those of ours.
    /// `open_files`: descriptors of each process, where whoever started the daemon may have few.
    /// The lowest of several of a kind counts.
    pub what: String,
    /// The most there may be.
    pub max: u64,
    /// `cgroup v1`, `cgroup v2` or `rlimit`. The last (`RLIMIT_NPROC`) counts the box's user in
    /// the box's own user namespace; before Linux 5.14, on the whole host.
    pub by: String,
    /// The cgroup's directory on the host, where its use can be read.
    #[serde(default)]
    pub cgroup: Option<String>,
}

/// A protection or convenience that could not be set up and was not required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Missing {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

/// The daemon's messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToKeeper {
    /// The first message on a keeper's first connection: what to run.
    Start(Box<Start>),
    /// End the box: TERM, grace, KILL.
    Stop {
        /// Answered by [`FromKeeper::Done`] once the stop is recorded, before the end.
        request: u64,
        /// KILL at once.
        force: bool,
        /// Milliseconds of grace; absent: as the spec says.
        grace_ms: Option<u64>,
    },
    /// Give up the start, if the entrypoint does not run yet. Keepers of builds before this message
    /// do not answer it.
    Cancel {
        /// Answered by [`FromKeeper::Done`]: with `wrong_state` if it runs.
        request: u64,
    },
    /// Signal the entrypoint, or its process group.
    Signal {
        /// Answered by [`FromKeeper::Done`].
        request: u64,
        /// Which.
        signal: Signal,
        /// Its whole process group.
        group: bool,
    },
    /// Have everything in the box stand still. Keepers of builds before this message do not answer it.
    Pause {
        /// Answered by [`FromKeeper::Done`] once it does.
        request: u64,
    },
    /// Have it go on.
    Unpause {
        /// Answered by [`FromKeeper::Done`].
        request: u64,
    },
    /// A client that writes input is there.
    WriterAttached {
        /// What the client calls itself, so that it is known again after a loss of the daemon.
        #[serde(default)]
        client: Option<Uuid>,
    },
    /// It is gone: the input ends unless one comes back in time.
    WriterLost,
    /// The input ends at this offset.
    Eof {
        /// Bytes from the start of the input.
        offset: u64,
    },
    /// The terminal has this size from now on. Of what has no terminal it means nothing.
    Resize {
        /// Which.
        size: TerminalSize,
    },
    /// The pinning client is there and has read everything before this offset.
    Pin {
        /// Bytes from the start of the output.
        offset: u64,
    },
    /// It is gone for good: nothing is pinned.
    Unpin,
    /// Append an event that the daemon saw (`attached`, `detached`, `renamed`).
    Note {
        /// Answered by [`FromKeeper::Done`].
        request: u64,
        /// The event's type.
        event_type: String,
        /// Its data.
        data: serde_json::Value,
    },
    /// The daemon has taken note of the log's end: the next growth is announced again.
    Consumed {
        /// The end it knows.
        end: u64,
    },
    /// Are you there? It is how a daemon tells a keeper that hangs from one with nothing to say.
    Ping {
        /// Answered by [`FromKeeper::Done`] at once.
        request: u64,
    },
    /// Run a command in the box, and let this connection be its own. Nothing is run if the daemon
    /// has closed the connection before the keeper came to it.
    Exec(Box<ExecStart>),
    /// Let this connection be that of an exec that lives.
    JoinExec {
        /// Which.
        exec: ExecId,
    },
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// Everything a keeper needs to run an exec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecStart {
    /// Its id, which the daemon has minted.
    pub exec: ExecId,
    /// What to run.
    pub command: ExecCommand,
    /// Values of the variables that `command` names. In memory only.
    pub values: BTreeMap<String, ByteString>,
    /// A request with the key of one before it is joined to the exec that one made.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// SHA-256 (hex) of the request, to tell a repeat from another request with that key.
    #[serde(default)]
    pub request_digest: Option<String>,
}

/// Everything a keeper needs to make its box.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The box.
    pub box_id: BoxId,
    /// Its name, which is also its host name.
    pub name: BoxName,
    /// Which life this is.
    pub life: u32,
    /// Which try to begin a life this is, as the box's `generation` counts them: a keeper of an earlier
    /// try leaves the box alone. Absent: as `life`.
    #[serde(default)]
    pub generation: Option<u32>,
    /// Its spec.
    pub spec: Spec,
    /// Values of the variables whose source is `given`.
    pub values: BTreeMap<String, ByteString>,
    /// How to start.
    pub options: StartOptions,
}

/// The keeper's messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromKeeper {
    /// The first message on every connection.
    Hello(Hello),
    /// An event was appended to the journal.
    Event {
        /// The event. It has a `type` of its own, so it stands below a key.
        event: Event,
    },
    /// The log has grown to here. Sent once, then again after [`ToKeeper::Consumed`].
    LogEnd {
        /// Bytes from the start of the output.
        end: u64,
    },
    /// Input up to here was handed to the entrypoint, or dropped because it closed its input.
    InputAccepted {
        /// Bytes from the start of the input.
        offset: u64,
    },
    /// The entrypoint takes no more input.
    InputClosed,
    /// The last message: the ending is on disk and the log is sealed.
    Ended {
        /// How.
        ending: Ending,
        /// The log's end, for good.
        log_end: u64,
    },
    /// A request was carried out, or not.
    Done {
        /// Which.
        request: u64,
        /// Why not.
        error: Option<ErrorBody>,
    },
    /// This connection is an exec's now. One that could not be started is followed by its ending.
    Exec(ExecStanding),
    /// It is not: there will be no such exec, or there is none. Nothing follows.
    Refused {
        /// Why.
        error: ErrorBody,
    },
    /// A message of a later version.
    #[serde(other)]
    Unknown,
}

/// Where things stand with an exec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecStanding {
    /// Which. Another one than was asked for, if that request was a repeat.
    pub exec: ExecId,
    /// When its program was executed; null if it could not be.
    pub started_at: Option<Timestamp>,
    /// The log's end.
    pub log_end: u64,
    /// Input accepted so far.
    pub input_offset: u64,
    /// Input that has come, accepted or not.
    pub input_received: u64,
    /// Whose input that is.
    #[serde(default)]
    pub input_writer: Option<Uuid>,
    /// Whether it still takes input.
    pub input_open: bool,
    /// Whether the log is pinned for the creator.
    pub pinned: bool,
}

/// Who answers, and where things stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the keeper.
    pub protocol: u32,
    /// The box.
    pub box_id: BoxId,
    /// Which life.
    pub life: u32,
    /// The keeper's pid on the host, for people.
    pub pid: i32,
    /// The log's end.
    pub log_end: u64,
    /// Input accepted so far.
    pub input_offset: u64,
    /// Input that has come, accepted or not: only whoever sent it may send the rest of it again.
    /// Absent: a keeper of an earlier build.
    #[serde(default)]
    pub input_received: Option<u64>,
    /// Whose input that is, if that client has a name.
    #[serde(default)]
    pub input_writer: Option<Uuid>,
    /// Whether the entrypoint still takes input.
    pub input_open: bool,
    /// Whether the log is pinned for the creator.
    pub pinned: bool,
    /// An ending that could not be written to disk yet.
    pub unsaved_ending: Option<Ending>,
    /// Execs that live. Absent: a keeper of an earlier build, which runs none.
    #[serde(default)]
    pub execs: Option<Vec<ExecId>>,
    /// Whether it can give an exec a terminal. Keepers of earlier builds do not say.
    #[serde(default)]
    pub terminals: bool,
}

/// Frames a JSON message.
///
/// # Panics
/// If the message is longer than 4 GiB, which [`MAX_MESSAGE`] rules out long before.
#[must_use]
pub fn encode_json<T: Serialize>(message: &T) -> Vec<u8> {
    let body = serde_json::to_vec(message).expect("protocol messages have string keys only");
    frame(KIND_JSON, &[&body])
}

/// Frames input bytes.
#[must_use]
pub fn encode_input(offset: u64, bytes: &[u8]) -> Vec<u8> {
    frame(KIND_INPUT, &[&offset.to_le_bytes(), bytes])
}

fn frame(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(body + 1).expect("messages are far below 4 GiB");
    let mut message = Vec::with_capacity(5 + body);
    message.extend_from_slice(&length.to_le_bytes());
    message.push(kind);
    for part in parts {
        message.extend_from_slice(part);
    }
    message
}

/// A message as taken from the byte stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Incoming<T> {
    /// JSON.
    Message(T),
    /// Input bytes.
    Input {
        /// Offset of the first.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Turns a byte stream into messages. Sans I/O: feed it, then take until `None`.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    taken: usize,
}

/// The peer does not speak this protocol.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// A length of zero or beyond [`MAX_MESSAGE`].
    #[error("a message of {0} bytes is outside the protocol")]
    Length(usize),
    /// A kind nobody knows.
    #[error("a message of kind {0} is outside the protocol")]
    Kind(u8),
    /// An input message without an offset.
    #[error("an input message is too short")]
    ShortInput,
    /// JSON of another form.
    #[error("a message cannot be read")]
    Json(#[source] serde_json::Error),
}

impl Decoder {
    /// Adds bytes from the peer.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message, if it is there.
    ///
    /// # Errors
    /// The peer broke the protocol; the connection is of no further use.
    pub fn next_message<T: for<'de> Deserialize<'de>>(
        &mut self,
    ) -> Result<Option<Incoming<T>>, DecodeError> {
        let rest = &self.buffer[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length == 0 || length > MAX_MESSAGE {
            return Err(DecodeError::Length(length));
        }
        let Some(body) = rest.get(..length) else { return Ok(None) };
        let (kind, body) = (body[0], &body[1..]);
        let message = match kind {
            KIND_JSON => {
                Incoming::Message(serde_json::from_slice(body).map_err(DecodeError::Json)?)
            }
            KIND_INPUT => {
                let (offset, bytes) =
                    body.split_first_chunk::<8>().ok_or(DecodeError::ShortInput)?;
                Incoming::Input { offset: u64::from_le_bytes(*offset), bytes: bytes.to_vec() }
            }
            other => return Err(DecodeError::Kind(other)),
        };
        self.taken += 4 + length;
        // Compact once the dead front outweighs the rest, so that feeding stays linear.
        if self.taken > self.buffer.len() / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_travels_whole() {
        let event: Event = serde_json::from_value(serde_json::json!({
            "schema": "min/v1/event", "seq": 1, "ts": "2026-01-02T03:04:05.000006Z",
            "box": "01909a30-0000-7000-8000-0000deadbeef", "type": "later", "data": {},
        }))
        .unwrap();
        let message = FromKeeper::Event { event };
        let mut decoder = Decoder::default();
        decoder.feed(&encode_json(&message));
        assert_eq!(decoder.next_message().unwrap(), Some(Incoming::Message(message)));
    }

    proptest! {
        #[test]
        fn messages_survive_any_cut(
            inputs in proptest::collection::vec((any::<u64>(), any::<Vec<u8>>()), 0..8),
            cut in 1usize..50,
        ) {
            let mut wire = Vec::new();
            for (offset, bytes) in &inputs {
                wire.extend(encode_input(*offset, bytes));
                wire.extend(encode_json(&ToKeeper::Eof { offset: *offset }));
            }
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for piece in wire.chunks(cut) {
                decoder.feed(piece);
                while let Some(message) = decoder.next_message::<ToKeeper>().unwrap() {
                    seen.push(message);
                }
            }
            let expected: Vec<_> = inputs
                .into_iter()
                .flat_map(|(offset, bytes)| [
                    Incoming::Input { offset, bytes },
                    Incoming::Message(ToKeeper::Eof { offset }),
                ])
                .collect();
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::default();
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.next_message::<ToKeeper>() {}
        }
    }
}
