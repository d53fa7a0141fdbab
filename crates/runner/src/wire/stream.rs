//! What a session prints, and how it ends.

use serde_json::json;

use super::{ExitCode, data};

/// A frame of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFrame {
    /// The session.
    pub session_id: String,
    /// For whoever opened the session with the request of this id, and for nobody else: what was
    /// there before. None: for everybody who listens.
    pub replay_for: Option<u64>,
    /// What.
    pub kind: StreamKind,
}

/// What a frame of a session says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// Bytes.
    Output(Output, Vec<u8>),
    /// The last frame of a session: its command ended. The number of the signal that ended it is an
    /// addition of ours that peers leave aside.
    Exit(ExitCode),
    /// An exit frame without a code: the session is over, and nobody knows how it ended.
    ExitWithoutCode,
}

/// Which output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Output {
    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

impl StreamFrame {
    /// The frame's text. `None` for an exit without a code: there is no such frame to be sent.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let mut value = match &self.kind {
            StreamKind::Output(output, bytes) => json!({
                "stream": output.as_str(),
                "session_id": self.session_id,
                "data": data::encode(bytes),
            }),
            StreamKind::Exit(code) => {
                let mut value =
                    json!({"stream": "exit", "session_id": self.session_id, "code": code.get()});
                if let Some(signal) = code.signal() {
                    value["signal"] = signal.into();
                }
                value
            }
            StreamKind::ExitWithoutCode => return None,
        };
        if let Some(id) = self.replay_for {
            value["replay_for"] = id.into();
        }
        Some(value.to_string())
    }
}
