//! The nursery: a small single-threaded process from which keepers are forked.
//!
//! A daemon has threads and secrets, so it cannot fork a keeper itself. It starts the nursery by
//! exec of the same file, and asks it for a keeper by passing one end of a socket pair:
//!
//! ```text
//! minimald ──request + fd──▶ min-nursery ──fork──▶ min-spare, later min-keeper <box id>
//!     └──────────── the socket pair: Start, Hello, … ─────────┘
//! ```
//!
//! The daemon asks ahead: a keeper that has no box yet, the spare, makes all that no spec has a say
//! in, and waits for its `Start`.
//!
//! The nursery holds nothing of any box. For an ordinary user it sits in a user namespace in which
//! that user is uid 0 (`outer`), so that keepers make boxes in one way whoever the daemon is. It
//! ends with its daemon; keepers do not.

mod client;
mod forked;
mod outer;
mod process;
mod remover;
mod spare;

pub use client::{Nursery, NurseryError};
pub use forked::{Forked, KeeperProcess};
pub use outer::with_subordinate_ids;
pub use process::main;

use serde::{Deserialize, Serialize};

use crate::users::Users;

/// The name by which the executable knows that it is the nursery (`argv[0]`).
pub const ARGV0: &str = "min-nursery";

/// The nursery's first message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Greeting {
    /// It can fork keepers.
    Ready { users: WireUsers },
    /// The host refuses what a box needs.
    Isolation { step: String, errno: Option<i32> },
    /// Anything else.
    Failed { step: String, errno: Option<i32> },
}

/// [`Users`] as it travels from the nursery to the daemon.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum WireUsers {
    Range { base: u32 },
    Subordinate,
    Single,
}

impl From<Users> for WireUsers {
    fn from(users: Users) -> Self {
        match users {
            Users::Range { base } => Self::Range { base },
            Users::Subordinate => Self::Subordinate,
            Users::Single => Self::Single,
        }
    }
}

impl From<WireUsers> for Users {
    fn from(users: WireUsers) -> Self {
        match users {
            WireUsers::Range { base } => Self::Range { base },
            WireUsers::Subordinate => Self::Subordinate,
            WireUsers::Single => Self::Single,
        }
    }
}

/// The nursery's answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Launched {
    /// A process was forked: its pid, and beside the message a pidfd of it.
    Forked { pid: i32 },
    /// None was.
    Refused { step: String, errno: Option<i32> },
}

/// Longest message between daemon and nursery.
const MAX_MESSAGE: usize = 4096;
