//! The log: all output of a box, as frames in segment files, addressed by an offset.

mod locate;
mod reader;
mod writer;

use std::io;
use std::path::PathBuf;

pub use locate::{figures, since_offset, tail_offset};
pub use reader::{Chunk, FrameOut, LogReader};
pub use writer::{Appended, LogWriter};

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
    #[error("the log ends at {end}, before {from}")]
    PastEnd {
        /// The offset asked for.
        from: u64,
        /// The log's end.
        end: u64,
    },
}
