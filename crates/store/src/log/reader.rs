//! Reading a log, also while it is written.

use minimal_proto::Timestamp;
use minimal_proto::stream::Stream;

use super::LogError;
use crate::box_dir::BoxDir;

/// Reads a log from an offset on.
#[derive(Debug)]
pub struct LogReader {}

/// What comes next in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Output, in order, without a hole.
    Frames(Vec<FrameOut>),
    /// Output that is no longer kept, or never was.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The byte after the last missing one.
        to: u64,
    },
}

/// Output of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameOut {
    /// Which.
    pub stream: Stream,
    /// The offset of its first byte.
    pub offset: u64,
    /// When the keeper read it from the box.
    pub ts: Timestamp,
    /// The bytes; at least one.
    pub bytes: Vec<u8>,
}

impl LogReader {
    /// Opens the log to read from the offset `from` of a log that ends at `end` now.
    ///
    /// # Errors
    /// `from` is past the end, or `log/` is not a directory that can be opened.
    pub fn open(_dir: &BoxDir, _from: u64, _end: u64) -> Result<Self, LogError> {
        unimplemented!()
    }

    /// The offset of the next byte it will give.
    #[must_use]
    pub fn position(&self) -> u64 {
        unimplemented!()
    }

    /// The next at most `max` bytes before `end`, which the writer has announced; `None` at `end`.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn next_chunk(&mut self, _end: u64, _max: usize) -> Result<Option<Chunk>, LogError> {
        unimplemented!()
    }
}
