//! What a box's actor lets the rest of the daemon see.

use std::sync::Arc;

use minimal_proto::{BoxId, Ending, Health};
use minimal_store::Record;

/// A live box at one instant. Published by its actor, read by everyone else.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The fold of its journal.
    pub(crate) record: Arc<Record>,
    /// How far its log can be read.
    pub(crate) log_end: u64,
    /// How much input was accepted.
    pub(crate) input_offset: u64,
    /// Whether its entrypoint takes input.
    pub(crate) input_open: bool,
    /// Whether its log is pinned for its creator.
    pub(crate) pinned: bool,
    /// What is wrong between us and its keeper.
    pub(crate) fault: Option<Arc<str>>,
    /// It has ended, and its keeper cannot bring the ending to disk.
    pub(crate) unsaved: Option<Arc<str>>,
    /// It has ended, and its log is sealed at `log_end`. The last view there is.
    pub(crate) sealed: bool,
}

impl View {
    /// The view of a box of which only the record and the log's end are known.
    pub(crate) fn new(record: Record, log_end: u64) -> Self {
        Self {
            record: Arc::new(record),
            log_end,
            input_offset: 0,
            input_open: false,
            pinned: false,
            fault: None,
            unsaved: None,
            sealed: false,
        }
    }

    pub(crate) fn id(&self) -> BoxId {
        self.record.id
    }

    /// The ending, once it may be told.
    pub(crate) fn ending(&self) -> Option<&Ending> {
        self.record.ending.as_ref().filter(|_| self.sealed)
    }

    /// Whether this can be relied on, and why not.
    pub(crate) fn health(&self) -> (Health, Option<String>) {
        if let Some(unsaved) = &self.unsaved {
            return (Health::Degraded, Some(unsaved.to_string()));
        }
        if let Some(fault) = &self.fault {
            return (Health::Unresponsive, Some(fault.to_string()));
        }
        match &self.record.degraded {
            Some(cause) => (Health::Degraded, Some(cause.clone())),
            None => (Health::Ok, None),
        }
    }
}
