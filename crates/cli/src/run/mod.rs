//! `min run`: a fresh box, and the client in its foreground.
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
mod foreground;
mod input;
mod relay;
mod signals;
mod workspace;
mod writer;

pub use create::{Created, request};
pub(crate) use foreground::address;
pub use foreground::{Attended, attend};
pub use signals::Signals;

pub(crate) use create::{create, nothing_was_run};
