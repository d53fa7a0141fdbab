//! Appending to a journal.

use minimal_proto::{Event, EventData, Timestamp};

use super::JournalError;
use crate::box_dir::BoxDir;
use crate::record::Record;

/// The one writer of a journal.
#[derive(Debug)]
pub struct JournalWriter {
    record: Record,
}

impl JournalWriter {
    /// Opens the journal and cuts a torn tail. The caller holds the box's keeper lock, or both.
    ///
    /// # Errors
    /// It cannot be read or written, or what it holds does not fit together.
    pub fn open(_dir: &BoxDir) -> Result<Self, JournalError> {
        unimplemented!()
    }

    /// The record as of the last event.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Appends an event; it survives the death of this process, not of the host.
    ///
    /// # Errors
    /// It was not appended, and the journal is as it was.
    pub fn append(&mut self, _data: EventData, _ts: Timestamp) -> Result<Event, JournalError> {
        unimplemented!()
    }

    /// Appends an event and makes it durable, with its box's directory.
    ///
    /// # Errors
    /// As [`JournalWriter::append`]; or [`JournalError::Sync`]: then it is appended and the next
    /// [`JournalWriter::sync`] may make it durable.
    pub fn append_durable(
        &mut self,
        _data: EventData,
        _ts: Timestamp,
    ) -> Result<Event, JournalError> {
        unimplemented!()
    }

    /// Makes everything so far durable, with the box's directory the first time.
    ///
    /// # Errors
    /// It may not be durable; the call can be repeated.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        unimplemented!()
    }
}
