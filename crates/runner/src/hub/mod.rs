//! The hub's end: runners that have dialled in, as a provider of sandboxes.
//!
//! ```text
//! RunnerSandbox ──call, open──▶ Connection ──requests──▶ socket of one runner
//!   (the contract)                 │ pending calls, subscribers by session
//!                                  ◀──replies, stream frames──
//! ```
//!
//! A subscriber is there before the answer that names its session is handed on, so that no frame of
//! it is missed. When the socket closes every waiting call and every subscriber is told; a
//! subscription cannot go without a terminal, since dropping its [`Emitter`] is one.
//!
//! [`Emitter`]: crate::contract::Emitter

mod connection;
mod routes;
mod sandbox;

pub use connection::{Connection, Hangup, Served};
pub use sandbox::{RunnerCommand, RunnerSandbox};

#[cfg(test)]
mod tests;
