//! `min run` and `min exec`: a fresh box or a command in one, and the client in its foreground.
//!
//! ```text
//!  stdin ─▶ input thread ─▶ handle ─▶ box
//!  box ─▶ stream ─▶ the loop ─▶ writer thread ─▶ stdout, stderr
//!                     ▲
//!  signals ───────────┘ ─▶ relay: pass on, stop, kill
//! ```
//!
//! Reading and writing what may block happens on threads of their own, so that the loop always
//! hears signals and the box's ending.

mod create;
mod exec;
mod foreground;
mod input;
mod mounts;
mod plan;
mod relay;
mod signals;
mod sources;
pub(crate) mod terminal;
mod workspace;
mod writer;

pub use create::{Created, Streams, help, request};
pub(crate) use exec::{create_exec, exec_request};
pub use foreground::{Attended, attend};
pub(crate) use foreground::{Joined, Role, address, attend_to, unknown};
pub(crate) use input::is_worth_reading;
pub use signals::Signals;

pub(crate) use create::{create, nothing_was_run};
pub use plan::{Wish, Words};
pub(crate) use plan::{is_task, usage};
