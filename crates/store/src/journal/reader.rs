//! Reading a journal, also while it is written.

use minimal_proto::Event;

use super::JournalError;
use crate::box_dir::BoxDir;

/// Reads a journal from its start, then what is added.
#[derive(Debug)]
pub struct JournalReader {}

impl JournalReader {
    /// Opens the journal.
    ///
    /// # Errors
    /// It is missing, not a regular file, or cannot be opened.
    pub fn open(_dir: &BoxDir) -> Result<Self, JournalError> {
        unimplemented!()
    }

    /// The events since the last call. Ends at the first byte that is not part of a whole line.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_new(&mut self) -> Result<Vec<Event>, JournalError> {
        unimplemented!()
    }
}
