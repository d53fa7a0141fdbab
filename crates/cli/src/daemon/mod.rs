//! The daemon, as a client needs it: found, started, or asked to make way for ours.
//!
//! ```text
//! client ─ connect ─▶ answers? ── yes ─▶ build is ours? ── yes ─▶ go
//!              ▲          │ no                 │ no (first contact only)
//!              │          ▼                    ▼
//!              └──── start `minimald` ◀── step down, wait until it is gone
//! ```

mod autospawn;
mod contact;
mod silent;
mod stage;
mod systemd;

pub use autospawn::Autospawn;
pub use contact::{contact, if_running, wait_until_gone};
pub use silent::running;
pub use stage::{ARGV0, SUBCOMMAND, main};
