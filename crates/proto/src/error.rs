//! Errors on the wire: stable codes, and the one table that maps each to an HTTP status and an
//! exit status of `min`.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

macro_rules! codes {
    ($( $(#[doc = $doc:literal])+ $variant:ident = $word:literal, http $http:literal, exit $exit:literal, retry $retry:literal; )+) => {
        /// A stable code for each kind of fault. Codes are only ever added.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum ErrorCode {
            $( $(#[doc = $doc])+ $variant, )+
            /// A code of a later version.
            #[serde(other)]
            Unknown,
        }

        impl ErrorCode {
            /// Every code this version knows, in the order of the table.
            pub const ALL: &[Self] = &[ $( Self::$variant, )+ ];

            /// The word on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ Self::Unknown => "unknown" }
            }

            /// The HTTP status it is answered with.
            #[must_use]
            pub const fn http_status(self) -> u16 {
                match self { $( Self::$variant => $http, )+ Self::Unknown => 500 }
            }

            /// The exit status of `min` for it.
            #[must_use]
            pub const fn exit_status(self) -> u8 {
                match self { $( Self::$variant => $exit, )+ Self::Unknown => 1 }
            }

            /// Whether the same request may succeed later without a change.
            #[must_use]
            pub const fn retryable(self) -> bool {
                match self { $( Self::$variant => $retry, )+ Self::Unknown => false }
            }

            /// What it means, for the reference.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $( Self::$variant => concat!($($doc),+).trim_start(), )+ Self::Unknown => "A code of a later version." }
            }
        }
    };
}

codes! {
    /// The request cannot be read, or a value in it is of the wrong form.
    BadRequest = "bad_request", http 400, exit 2, retry false;
    /// The spec cannot be run by any host: a key is missing or contradicts another.
    InvalidSpec = "invalid_spec", http 400, exit 2, retry false;
    /// A file of settings is wrong: the message names file, line and key.
    InvalidConfig = "invalid_config", http 400, exit 3, retry false;
    /// A value of the spec is one that its type does not allow.
    ConstraintViolation = "constraint_violation", http 400, exit 3, retry false;
    /// The spec is not the one whose digest the client has sent, or from which the box was made.
    DigestMismatch = "digest_mismatch", http 409, exit 1, retry false;
    /// The caller is not the daemon's user.
    Forbidden = "forbidden", http 403, exit 5, retry false;
    /// What the spec asks for is refused by a rule.
    Refused = "refused", http 403, exit 5, retry false;
    /// No box, exec or path of that name.
    NotFound = "not_found", http 404, exit 4, retry false;
    /// The name or id part means more than one box.
    Ambiguous = "ambiguous", http 409, exit 2, retry false;
    /// A running box holds the name.
    NameHeld = "name_held", http 409, exit 2, retry false;
    /// Another client writes the box's input.
    InputHeld = "input_held", http 409, exit 2, retry false;
    /// The box is not in a state that allows it.
    WrongState = "wrong_state", http 409, exit 2, retry false;
    /// The box runs, and removing it needs force.
    NeedsForce = "needs_force", http 409, exit 2, retry false;
    /// The idempotency key was used for another request.
    KeyReused = "key_reused", http 409, exit 2, retry false;
    /// The wait ran out before there was an ending.
    WaitTimeout = "wait_timeout", http 408, exit 1, retry true;
    /// The part of the output that was asked for is no longer kept.
    Gap = "gap", http 409, exit 1, retry false;
    /// More input was sent than the window allows.
    InputWindow = "input_window", http 400, exit 1, retry false;
    /// The host cannot isolate a box; `min doctor` says what to do.
    IsolationUnavailable = "isolation_unavailable", http 503, exit 8, retry false;
    /// The host or this version does not support it.
    NotSupported = "not_supported", http 503, exit 8, retry false;
    /// A limit of the host was reached: processes, descriptors, memory.
    NoResources = "no_resources", http 503, exit 8, retry true;
    /// The state directory's file system is full.
    NoSpace = "no_space", http 507, exit 8, retry true;
    /// The box's keeper does not answer.
    Unresponsive = "unresponsive", http 503, exit 1, retry true;
    /// The box's directory cannot be read.
    Broken = "broken", http 500, exit 1, retry false;
    /// No daemon answers, and none could be started.
    Unreachable = "unreachable", http 503, exit 7, retry true;
    /// The daemon is handing over to another build.
    SteppingDown = "stepping_down", http 503, exit 7, retry true;
    /// The ending could not be learned.
    ExitUnknown = "exit_unknown", http 500, exit 125, retry true;
    /// The command of a box could not be started: the ending says why. On the wire only of a resume; a box that was just made is answered with its record.
    StartFailed = "start_failed", http 500, exit 125, retry false;
    /// The output could not be written on the caller's side.
    OutputFailed = "output_failed", http 500, exit 1, retry false;
    /// The client was interrupted before there was anything to interrupt. Never on the wire.
    Interrupted = "interrupted", http 400, exit 130, retry true;
    /// A fault of ours.
    Internal = "internal", http 500, exit 1, retry false;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// An error answer. JSON: `{code, message, hint, details, retryable}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{message}")]
pub struct ErrorBody {
    /// What kind of fault.
    pub code: ErrorCode,
    /// What was attempted, on what, and why it failed; for people, may change.
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
    /// Facts for programs.
    #[serde(default)]
    pub details: Map<String, Value>,
    /// Whether the same request may succeed later without a change.
    #[serde(default)]
    pub retryable: bool,
}

impl ErrorBody {
    /// An error with a message and no hint.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            details: Map::new(),
            retryable: code.retryable(),
        }
    }

    /// Adds what to do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }
}

/// Prints an error and each of its sources once, as `a: b: c`.
#[derive(Debug)]
pub struct Chain<'a>(pub &'a (dyn std::error::Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_word_is_the_serde_word() {
        for code in ErrorCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
            assert!((400..600).contains(&code.http_status()), "{code}");
            assert_ne!(code.exit_status(), 0, "{code}: an error is never success");
            assert!(!code.meaning().is_empty());
        }
        assert_eq!(serde_json::from_str::<ErrorCode>("\"later\"").unwrap(), ErrorCode::Unknown);
    }
}
