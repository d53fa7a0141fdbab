//! Appending to a log.

use minimal_proto::Timestamp;
use minimal_proto::stream::Stream;

use super::LogError;
use crate::box_dir::BoxDir;

/// The one writer of a log.
#[derive(Debug)]
pub struct LogWriter {}

/// What became of some output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The log's end after it, whether kept or dropped.
    pub end: u64,
    /// It was dropped, all or in part: the disk is full or failing.
    pub dropped: bool,
}

impl LogWriter {
    /// Opens the log at its end and cuts a torn tail. `log_max` is how many bytes of segment files
    /// are kept.
    ///
    /// # Errors
    /// `log/` is not a directory, or its last segment not a regular file that can be written.
    pub fn create_or_open(_dir: &BoxDir, _log_max: u64) -> Result<Self, LogError> {
        unimplemented!()
    }

    /// Appends output.
    pub fn append(&mut self, _stream: Stream, _ts: Timestamp, _bytes: &[u8]) -> Appended {
        unimplemented!()
    }

    /// The log's end: how many bytes were ever appended, dropped ones included.
    #[must_use]
    pub fn end(&self) -> u64 {
        unimplemented!()
    }

    /// Bytes that were dropped because the disk was full or failing.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        unimplemented!()
    }

    /// Drops the oldest segments beyond `log_max`, but nothing at or after `keep_from`.
    pub fn trim(&mut self, _keep_from: Option<u64>) {
        unimplemented!()
    }

    /// Whether `log_max` is kept from `pin` on already, so that more output has to wait.
    #[must_use]
    pub fn would_exceed(&self, _pin: u64) -> bool {
        unimplemented!()
    }

    /// Closes the log and returns its end.
    #[must_use]
    pub fn seal(self) -> u64 {
        unimplemented!()
    }
}
