//! The words every part of Minimal shares.
//!
//! Ids, states, endings, events, frames, error codes and the bodies of the API, as plain values
//! with one JSON form each. Nothing here does I/O. Start reading at [`ending`], which is what the
//! product exists for, then [`event`], [`stream`] and [`api`].
//!
//! `docs/reference/wire.md` describes the same things for someone who writes another client.

#![forbid(unsafe_code)]

pub mod address;
pub mod api;
pub mod byte_string;
pub mod duration;
pub mod ending;
pub mod error;
pub mod event;
pub mod exec;
pub mod ids;
pub mod keeper;
pub mod name;
#[cfg(feature = "openapi")]
mod openapi;
pub mod pattern;
pub mod ready;
pub mod signal;
pub mod size;
pub mod spec;
pub mod state;
pub mod stream;
pub mod terminal;
pub mod time;

pub use byte_string::ByteString;
pub use ending::{Ending, Reason};
pub use error::{ErrorBody, ErrorCode};
pub use event::{Event, EventData};
pub use ids::{BoxId, ExecId};
pub use name::BoxName;
pub use ready::Readiness;
pub use signal::Signal;
pub use spec::Spec;
pub use state::{Health, State};
pub use terminal::TerminalSize;
pub use time::Timestamp;
