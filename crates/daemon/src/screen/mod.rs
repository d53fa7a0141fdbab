//! What a terminal shows, for a client that comes to it: made anew from the log each time.
//!
//! ```text
//!  attach ─▶ painter ──order──▶ min-screen ─ log ─▶ minimal-screen
//!    client ◀── repaint ◀────────────┘
//! ```
//!
//! What a program has written is taken apart in a process of its own, `min-screen`, which lives as long
//! as that takes: whatever is made of hostile bytes there, a fault, an endless loop or memory without end,
//! is that process's. It reads the log and holds nothing, so a daemon that was started a moment ago
//! has the same to give. Without it a client gets what follows, and a program is made to draw anew.

mod paint;
mod painter;
mod process;

use minimal_proto::TerminalSize;
use serde::{Deserialize, Serialize};

pub(crate) use painter::Painter;
pub use process::{ARGV0, main};

/// What is to be painted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// How far the log is to be read.
    pub(crate) end: u64,
    /// Where the output of this life begins: in a terminal of its own.
    pub(crate) life: u64,
    /// Which sizes the terminal has had, each from an offset of the log on. The first counts for what is
    /// before it as well; without one it is the default. The last is the one to be painted for, if
    /// none is given for that.
    pub(crate) sizes: Vec<(u64, TerminalSize)>,
    /// The size of the terminal that it is painted for.
    pub(crate) size: TerminalSize,
}

/// What stands before the bytes of a repaint, in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Heading {
    /// Where the output goes on that follows it.
    from: u64,
    /// Whether all output there was is in it.
    whole: bool,
    /// How many bytes follow.
    length: u64,
}

/// The bytes that bring a terminal to show what another shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Painted {
    /// Where the output goes on that follows it.
    pub(crate) from: u64,
    /// Whether all output there was is in it. If not, a program may have drawn what is missing.
    pub(crate) whole: bool,
    pub(crate) bytes: bytes::Bytes,
}
