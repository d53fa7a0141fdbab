//! minimald: serves the API and knows every box.
//!
//! ```text
//!  clients ──▶ socket ──▶ api ──▶ index ──▶ boxes: one actor per live box ◀──▶ its keeper
//!                          │                           ▲ launcher: the nursery
//!                          └────▶ stream ──▶ the box's log and journal, on disk
//! ```
//!
//! The daemon holds no truth. Everything it knows it has read from the box directories or heard from
//! keepers, and it can be killed at any instant: boxes run on, and the next daemon finds them again
//! (`boxes::load`). It never forks a box, never waits for a process, and never makes up an ending.
//! Start reading at [`run`], then `boxes`.

#![forbid(unsafe_code)]

mod api;
mod boxes;
mod config;
mod etc_watch;
mod hooks;
mod host;
mod index;
mod launcher;
mod log_file;
mod run;
pub mod screen;
mod socket;
mod stock;
mod stream;
#[cfg(test)]
mod testing;

pub use config::{Config, SOCKET};
pub use run::{DaemonError, run};
pub use socket::SocketError;
