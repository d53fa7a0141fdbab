//! The Rust client of the daemon's API: typed calls, and streams that resume.
//!
//! ```text
//! Client ──Connector──▶ socket of the daemon (or one that is started for it)
//!   │ typed calls: create, create_exec, get, wait, …     one kept HTTP connection
//!   │ follow_events, read_log                           bodies that resume where they broke off
//!   └ attach ──▶ (AttachStream, AttachHandle)           a WebSocket that resumes in both directions
//! ```
//!
//! A connection that closes is never an ending: every call that waits connects again and goes on
//! where it was, for as long as its [`RetryPolicy`] allows, and then says that it does not know.
//! Start reading at [`Client`], then [`attach`].

#![forbid(unsafe_code)]

pub mod attach;
mod backoff;
mod client;
mod connector;
mod error;
mod events;
mod http;
mod log;
mod query;
mod subject;

pub use attach::{
    AttachHandle, AttachOptions, AttachStream, InputClosed, StreamError, StreamEvent,
};
pub use backoff::RetryPolicy;
pub use client::Client;
pub use connector::{ConnectError, Connecting, Connector, SocketConnector, connect};
pub use error::CallError;
pub use events::EventReader;
pub use log::{LogPiece, LogReader};
pub use query::{ExecQuery, ListQuery, LogQuery, LogStart};
pub use subject::Subject;
