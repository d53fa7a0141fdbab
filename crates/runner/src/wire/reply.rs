//! Answers of the runner.

use std::fmt;

use serde_json::{Map, Value, json};

use super::{ExitCode, data};

/// An answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The request's.
    pub id: u64,
    /// What was asked for, or why not.
    pub result: Result<Map<String, Value>, Refusal>,
}

impl Reply {
    /// The frame.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.result {
            Ok(result) => json!({"id": self.id, "ok": true, "result": result}),
            Err(Refusal { code, detail }) => {
                json!({"id": self.id, "ok": false, "error": code.as_str(), "detail": detail})
            }
        }
        .to_string()
    }
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kind.
    pub code: Code,
    /// More of it, for people and some programs.
    pub detail: Option<String>,
}

impl Refusal {
    /// A refusal with a detail.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: Some(detail.into()) }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => write!(f, "{}: {detail}", self.code.as_str()),
            None => f.write_str(self.code.as_str()),
        }
    }
}

/// Kinds of refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// Certainly not there.
    NotFound,
    /// The command has ended.
    CommandExited,
    /// The runner cannot do that.
    NotSupported,
    /// The request is wrong.
    Invalid,
    /// It cannot be done now, or it is not known.
    Unavailable,
    /// Bytes could not be written.
    WriteFailed,
    /// A word of another kind.
    Other(String),
}

impl Code {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::NotFound => "not_found",
            Self::CommandExited => "command_exited",
            Self::NotSupported => "not_supported",
            Self::Invalid => "invalid",
            Self::Unavailable => "unavailable",
            Self::WriteFailed => "write_failed",
            Self::Other(word) => word,
        }
    }

    pub(super) fn from_word(word: &str) -> Self {
        match word {
            "not_found" => Self::NotFound,
            "command_exited" => Self::CommandExited,
            "not_supported" => Self::NotSupported,
            "invalid" => Self::Invalid,
            "unavailable" => Self::Unavailable,
            "write_failed" => Self::WriteFailed,
            other => Self::Other(other.to_owned()),
        }
    }
}

/// The results that hold something, both ways.
#[derive(Clone, Copy, Debug)]
pub struct Results;

impl Results {
    /// Of `exec`.
    #[must_use]
    pub fn exec(output: &[u8], code: ExitCode) -> Map<String, Value> {
        let mut result = object(json!({"output": data::encode(output), "code": code.get()}));
        if let Some(signal) = code.signal() {
            result.insert("signal".to_owned(), signal.into());
        }
        result
    }

    /// Reads the result of `exec`. Output that is not base64 is taken as it is. `None` if the output
    /// or the code is missing: a command without a code has none.
    #[must_use]
    pub fn read_exec(result: &Map<String, Value>) -> Option<(Vec<u8>, ExitCode)> {
        let output = result.get("output")?.as_str()?;
        let output = data::decode(output).unwrap_or_else(|| output.as_bytes().to_vec());
        Some((output, read_code(result, "code")?))
    }

    /// Of `spawn` and `attach`.
    #[must_use]
    pub fn session(session_id: &str) -> Map<String, Value> {
        object(json!({"session_id": session_id}))
    }

    /// Reads the result of `spawn` and `attach`; `None` if it names no session.
    #[must_use]
    pub fn read_session(result: &Map<String, Value>) -> Option<String> {
        result.get("session_id")?.as_str().map(str::to_owned)
    }

    /// Reads the code of a row of `list_sessions`; `None` if it has none.
    #[must_use]
    pub fn read_exit_code(row: &Value) -> Option<ExitCode> {
        read_code(row.as_object()?, "exit_code")
    }

    /// Of `list`.
    #[must_use]
    pub fn list(names: &[String]) -> Map<String, Value> {
        object(json!({"names": names}))
    }

    /// Reads the result of `list`; `None` unless it is a list of names.
    #[must_use]
    pub fn read_list(result: &Map<String, Value>) -> Option<Vec<String>> {
        let names = result.get("names")?.as_array()?;
        names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
    }
}

/// A code that is there and is a whole number; everything else is none. What is no signal's number is
/// left aside: the code stands without it.
pub(super) fn read_code(object: &Map<String, Value>, field: &str) -> Option<ExitCode> {
    let number = |field: &str| object.get(field)?.as_i64().and_then(|it| i32::try_from(it).ok());
    let code = ExitCode::as_told(number(field)?);
    Some(match number("signal").filter(|signal| (1..=64).contains(signal)) {
        Some(signal) => code.by_signal(signal),
        None => code,
    })
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => unreachable!("{other} is not an object"),
    }
}
