//! The journal: a box's events, one JSON line each, appended and never changed.
//!
//! The file is preallocated with its size set, so that an event needs one write and one fdatasync
//! to be durable, and the ending has its space before the disk is full. What follows the last
//! whole line is NULs, or a torn line that the next writer cuts.

mod preallocate;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use minimal_proto::Event;
use rustix::fs::OFlags;

pub use reader::{JournalReader, Tail};
pub use writer::JournalWriter;

use crate::box_dir::JOURNAL;
use crate::record::Denied;
use crate::regular;

/// The longest line, in bytes, newline included.
pub const MAX_LINE: usize = 1 << 20;

/// The longest journal, in bytes: far more than a million events of a daily use.
pub const MAX_JOURNAL: u64 = 256 << 20;

/// What stays free in the file for the ending, in bytes. An ending is some 300, and its message a
/// path or two of at most 4 KiB (PATH_MAX).
pub const RESERVE: u64 = 8 << 10;

/// By how much the file is preallocated at a time, in bytes: the reserve, and room for the events
/// of an ordinary life beside it.
const STEP: u64 = 16 << 10;

/// Makes the journal of a box to come, with room for the events of an ordinary life.
pub(crate) fn create(dir: BorrowedFd<'_>) -> io::Result<()> {
    preallocate::extend(&regular::create(dir, JOURNAL)?, 0, STEP)
}

/// Writes the first event.
pub(crate) fn begin(dir: BorrowedFd<'_>, event: &Event) -> io::Result<()> {
    let line = line(event);
    let file = regular::open(dir, JOURNAL, OFlags::RDWR)?;
    let (from, to) = (file.metadata()?.len(), allocation(line.len() as u64 + RESERVE));
    if from < to {
        preallocate::extend(&file, from, to)?;
    }
    file.write_all_at(&line, 0)
}

/// An event as a line.
fn line(event: &Event) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).expect("an event has string keys only");
    line.push(b'\n');
    line
}

/// The size of a file that holds so many bytes: whole steps.
fn allocation(bytes: u64) -> u64 {
    bytes.next_multiple_of(STEP)
}

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
    /// A whole line of it is no event, see [`Tail::Broken`]. Nothing is added to such a journal.
    #[error("read the journal `{}` at byte {offset}: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        offset: u64,
        /// What is wrong with it.
        why: String,
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
