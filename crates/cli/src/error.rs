//! What went wrong, as it is told to a person or a program.

use std::error::Error;

use minimal_proto::{ErrorBody, ErrorCode};
use minimal_sdk::{CallError, ConnectError, StreamError};
use serde_json::{Map, Value, json};

use crate::exit::Exit;

/// Why a command did not do what was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The stable code.
    pub code: ErrorCode,
    /// The exit status; most often the code's.
    pub exit: Exit,
    /// What was attempted, on what.
    pub message: String,
    /// Why, from the nearest cause to the first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Facts for programs.
    pub details: Map<String, Value>,
    /// Nothing is said: whoever would hear it is gone.
    pub silent: bool,
}

impl Failure {
    /// A failure with a message and no cause.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            exit: Exit::Fault(code),
            message: message.into(),
            causes: Vec::new(),
            hint: None,
            details: Map::new(),
            silent: false,
        }
    }

    /// A mistake in the command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, message)
    }

    /// Adds an error and its sources as causes.
    #[must_use]
    pub fn because(mut self, error: &dyn Error) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            // A transparent error says the same as its source.
            if self.causes.last() != Some(&text) && self.message != text {
                self.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Exits in another way than the code's.
    #[must_use]
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Says first what was attempted; what was the message becomes the first cause.
    #[must_use]
    pub fn while_trying(mut self, attempt: impl Into<String>) -> Self {
        let message = std::mem::replace(&mut self.message, attempt.into());
        self.causes.insert(0, message);
        self
    }

    /// The message and its causes in one line.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let mut line = self.message.clone();
        for cause in &self.causes {
            line.push_str(": ");
            line.push_str(cause);
        }
        line
    }

    /// Schema `min/v1/error`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "schema": "min/v1/error",
            "code": self.code,
            "message": self.in_one_line(),
            "hint": self.hint,
            "details": self.details,
        })
    }
}

impl From<ErrorBody> for Failure {
    fn from(body: ErrorBody) -> Self {
        let mut failure = Self::new(body.code, body.message);
        failure.hint = body.hint;
        failure.details = body.details;
        failure
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        let code = error.code();
        match error {
            CallError::Api(body) | CallError::Connect(ConnectError::Start(body)) => (*body).into(),
            error => {
                let failure = Self::new(code, error.to_string());
                match error.source() {
                    Some(source) => failure.because(source),
                    None => failure,
                }
            }
        }
    }
}

impl From<StreamError> for Failure {
    fn from(error: StreamError) -> Self {
        let code = error.code();
        match error {
            StreamError::Fault(body) => (*body).into(),
            error => {
                let failure = Self::new(code, error.to_string());
                match error.source() {
                    Some(source) => failure.because(source),
                    None => failure,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_said_once() {
        let io = std::io::Error::from(std::io::ErrorKind::NotFound);
        let failure = Failure::usage("read `x`").because(&io);
        assert_eq!(failure.causes, ["entity not found"]);
        let failure = failure.while_trying("start");
        assert_eq!(failure.in_one_line(), "start: read `x`: entity not found");
        assert_eq!(failure.to_json()["code"], "bad_request");
        assert_eq!(failure.to_json()["hint"], Value::Null);
    }
}
