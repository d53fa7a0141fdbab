//! Frames from the hub to the runner.

use serde_json::Value;

use super::{FRAME_MAX, Op, Refusal};

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Counts the requests of one connection from 1; 0: no reply is expected.
    pub id: u64,
    /// What is asked for, or how to refuse it.
    pub op: Result<Op, Refusal>,
}

impl Request {
    /// A request for `op`.
    #[must_use]
    pub const fn new(id: u64, op: Op) -> Self {
        Self { id, op: Ok(op) }
    }

    /// Reads a frame. Fields that nobody knows are left aside.
    ///
    /// # Errors
    /// It has no id that could be replied to. The runner logs that and goes on.
    pub fn read(text: &str) -> Result<Self, BadFrame> {
        if text.len() > FRAME_MAX {
            return Err(BadFrame::Long { bytes: text.len() });
        }
        let value: Value =
            serde_json::from_str(text).map_err(|source| BadFrame::NotJson { source })?;
        let Value::Object(object) = &value else { return Err(BadFrame::NoObject) };
        let id = match object.get("id") {
            None | Some(Value::Null) => 0,
            Some(id) => id.as_u64().ok_or(BadFrame::Id)?,
        };
        Ok(Self { id, op: Op::read(object) })
    }

    /// The frame of a request for `op`.
    #[must_use]
    pub fn text(id: u64, op: &Op) -> String {
        let mut value = op.write();
        value["id"] = id.into();
        value["op"] = op.word().into();
        value.to_string()
    }
}

/// Why a frame from the hub is no request. Never holds the frame: arguments may be secrets.
#[derive(Debug, thiserror::Error)]
pub enum BadFrame {
    /// No JSON.
    #[error("a frame from the hub is not JSON")]
    NotJson {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// JSON, but no object.
    #[error("a frame from the hub is not a JSON object")]
    NoObject,
    /// Its id is no number to reply to.
    #[error("the id of a frame from the hub is not a whole number from 0 on")]
    Id,
    /// Longer than [`FRAME_MAX`].
    #[error("a frame from the hub has {bytes} bytes; at most {FRAME_MAX} are read")]
    Long {
        /// How long.
        bytes: usize,
    },
}
