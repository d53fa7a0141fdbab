//! The box directory: journal, log, locks, listing.
//!
//! ```text
//! <state>/format  lock  boxes/  reaping/                                     state_dir
//! <state>/boxes/<id>/spec.json  generation  fs/                              box_dir
//!                   /journal.ndjson  append-only events                      journal, record
//!                   /life.lock       who is alive                            locks
//!                   /log/            output, addressed by offset             log
//!                   /execs/<id>/     further commands run in it              exec_dir
//! ```
//!
//! Everything is synchronous and works relative to directory descriptors. Nothing that is read is
//! trusted to be well-formed: sizes are bounded, and a file that was torn at any byte reads as what
//! was whole before the tear. Start reading at [`state_dir`], then [`journal`] and [`log`].

#![forbid(unsafe_code)]

pub mod box_dir;
mod disk_usage;
pub mod exec_dir;
#[cfg(test)]
mod fixture;
pub mod hook;
pub mod journal;
pub mod locks;
pub mod log;
pub mod record;
mod regular;
pub mod remove;
pub mod state_dir;

pub use box_dir::{BoxDir, BoxDirError};
pub use exec_dir::{ExecDir, ExecDirError, Unsaved};
pub use journal::{JournalError, JournalReader, JournalWriter};
pub use locks::{DaemonLock, Holders, LifeLock, LockError, daemon, try_lock_daemon};
pub use log::{
    Appended, Chunk, FrameOut, LogError, LogHome, LogReader, LogWriter, figures, since_offset,
    tail_offset,
};
pub use record::{Denied, Record};
pub use state_dir::{BlankDir, CreateError, Entry, ListError, ReapError, StateDir, StateDirError};
