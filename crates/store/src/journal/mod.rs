//! The journal: a box's events, one JSON line each, appended and never changed.

mod reader;
mod writer;

use std::io;
use std::path::PathBuf;

pub use reader::JournalReader;
pub use writer::JournalWriter;

use crate::record::Denied;

/// The longest line, in bytes, newline included.
pub const MAX_LINE: usize = 1 << 20;

/// The journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be opened.
    #[error("open the journal `{}`", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("read the journal `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("write to the journal `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The file system is full: no space but that kept for the ending.
    #[error("write to the journal `{}`: only the space for the ending is left", path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It is longer than any we write.
    #[error("the journal `{}` is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most it may hold.
        limit: u64,
    },
    /// The event is longer than [`MAX_LINE`].
    #[error("an event of {length} bytes is too long for the journal")]
    LongEvent {
        /// Its length as JSON.
        length: usize,
    },
    /// The event cannot follow those before it, or those there are do not fit together.
    #[error("the journal `{}` does not allow it", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Denied,
    },
    /// It could not be made durable.
    #[error("sync `{}`", path.display())]
    Sync {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}
