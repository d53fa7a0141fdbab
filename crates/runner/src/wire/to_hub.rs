//! Frames from the runner to the hub.

use serde_json::{Map, Value};

use super::reply::read_code;
use super::{Code, Output, Refusal, Reply, StreamFrame, StreamKind, data};

/// A frame of the runner, as a hub reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum ToHub {
    /// An answer.
    Reply(Reply),
    /// An answer that says neither yes nor no; the frame as it came.
    MalformedReply {
        /// Of which request.
        id: u64,
        /// The frame.
        frame: Value,
    },
    /// A session's.
    Stream(StreamFrame),
    /// JSON that means nothing to us: of a later version, or a mistake that is logged.
    Unknown,
}

impl ToHub {
    /// Reads a frame.
    ///
    /// # Errors
    /// It is not JSON; the hub closes the connection with [`super::close::NOT_JSON_TEXT`].
    pub fn read(text: &str) -> Result<Self, serde_json::Error> {
        let frame: Value = serde_json::from_str(text)?;
        let Some(object) = frame.as_object() else { return Ok(Self::Unknown) };
        // A frame with a number for an id is a reply, whatever else it has.
        if let Some(id) = object.get("id").and_then(Value::as_u64) {
            return Ok(match reply(object) {
                Some(result) => Self::Reply(Reply { id, result }),
                None => Self::MalformedReply { id, frame },
            });
        }
        Ok(stream(object).map_or(Self::Unknown, Self::Stream))
    }
}

fn reply(object: &Map<String, Value>) -> Option<Result<Map<String, Value>, Refusal>> {
    if object.get("ok")?.as_bool()? {
        return match object.get("result") {
            None | Some(Value::Null) => Some(Ok(Map::new())),
            Some(Value::Object(result)) => Some(Ok(result.clone())),
            Some(_) => None,
        };
    }
    let code = Code::from_word(object.get("error")?.as_str()?);
    let detail = object.get("detail").and_then(Value::as_str).map(str::to_owned);
    Some(Err(Refusal { code, detail }))
}

fn stream(object: &Map<String, Value>) -> Option<StreamFrame> {
    let session_id = object.get("session_id")?.as_str()?.to_owned();
    let replay_for = object.get("replay_for").and_then(Value::as_u64);
    let kind = match object.get("stream")?.as_str()? {
        "stdout" => StreamKind::Output(Output::Stdout, bytes(object)),
        "stderr" => StreamKind::Output(Output::Stderr, bytes(object)),
        "exit" => read_code(object, "code").map_or(StreamKind::ExitWithoutCode, StreamKind::Exit),
        _ => return None,
    };
    Some(StreamFrame { session_id, replay_for, kind })
}

/// A peer that does not encode its output is taken at its word: better those bytes than none.
fn bytes(object: &Map<String, Value>) -> Vec<u8> {
    let text = object.get("data").and_then(Value::as_str).unwrap_or_default();
    data::decode(text).unwrap_or_else(|| text.as_bytes().to_vec())
}
