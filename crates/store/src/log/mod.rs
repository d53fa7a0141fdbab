//! The log: all output of a box, as frames in segment files, addressed by an offset.
//!
//! The offset counts payload bytes over all streams and never restarts. A segment holds frames
//! without a hole; where a segment begins after the one before it ends, output is missing: it was
//! dropped for want of space, or was the oldest beyond the log's limit. Bytes of a segment never
//! change once they are there, so a reader needs no lock.

mod frame;
mod locate;
mod reader;
mod segment;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use locate::{figures, since_offset, tail_offset};
pub use reader::{Chunk, FrameOut, LogReader};
pub(crate) use writer::create;
pub use writer::{Appended, LogWriter};

/// The first bytes of output are never dropped for their age, so that how a box began can always
/// be seen: 1 MiB.
pub const HEAD: u64 = 1 << 20;

/// A directory that has a log: a box's or an exec's, held open.
pub trait LogHome {
    /// Where it was opened, for messages.
    fn path(&self) -> &Path;
    /// The open directory.
    fn dir_fd(&self) -> BorrowedFd<'_>;
}

impl<T: LogHome + ?Sized> LogHome for Arc<T> {
    fn path(&self) -> &Path {
        (**self).path()
    }

    fn dir_fd(&self) -> BorrowedFd<'_> {
        (**self).dir_fd()
    }
}

/// The log cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Its directory or a segment cannot be opened as what it must be.
    #[error("open the log `{}`", path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It cannot be read.
    #[error("read the log `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A reader asked for what has not been written.
    #[error("read the log from {from} on: it ends at {end}")]
    PastEnd {
        /// The offset asked for.
        from: u64,
        /// The log's end.
        end: u64,
    },
}
