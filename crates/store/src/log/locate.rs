//! Finding places in a log.

use minimal_proto::Timestamp;
use minimal_proto::api::LogFigures;
use minimal_proto::stream::Stream;

use super::LogError;
use crate::box_dir::BoxDir;

/// The offset from which the last `lines` lines before `end` follow, counting those of `stream`
/// only if it is given.
///
/// # Errors
/// The log cannot be read.
pub fn tail_offset(
    _dir: &BoxDir,
    _end: u64,
    _lines: u64,
    _stream: Option<Stream>,
) -> Result<u64, LogError> {
    unimplemented!()
}

/// The offset of the first output before `end` that is not older than `since`.
///
/// # Errors
/// The log cannot be read.
pub fn since_offset(_dir: &BoxDir, _end: u64, _since: Timestamp) -> Result<u64, LogError> {
    unimplemented!()
}

/// The log's size and what is missing of it, as its files show it.
///
/// # Errors
/// The log cannot be read.
pub fn figures(_dir: &BoxDir) -> Result<LogFigures, LogError> {
    unimplemented!()
}
