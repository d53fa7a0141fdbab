//! What a box's actor lets the rest of the daemon see of the box. Its streams are its flow's.

use std::sync::Arc;

use minimal_proto::{BoxId, Health};
use minimal_store::Record;

/// A live box at one instant. Published by its actor, read by everyone else.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The fold of its journal.
    pub(crate) record: Arc<Record>,
    /// What is wrong between us and its keeper.
    pub(crate) fault: Option<Arc<str>>,
    /// It has ended, and its keeper cannot bring the ending to disk.
    pub(crate) unsaved: Option<Arc<str>>,
    /// Whether anything will follow.
    pub(crate) fate: Fate,
}

/// Whether anything follows a view, and why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// More will follow.
    Open,
    /// The box has ended, and its log is sealed.
    Sealed,
    /// The box's directory was deleted under it and its keeper is gone: nobody can say how it ended.
    Removed,
}

impl View {
    /// The view of a box of which only the record is known.
    pub(crate) fn new(record: Record) -> Self {
        Self { record: Arc::new(record), fault: None, unsaved: None, fate: Fate::Open }
    }

    pub(crate) fn id(&self) -> BoxId {
        self.record.id
    }

    /// Whether nothing will follow.
    pub(crate) fn is_last(&self) -> bool {
        self.fate != Fate::Open
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
