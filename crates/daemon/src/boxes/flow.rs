//! Where the streams of a box or of an exec stand, as its actor lets the rest of the daemon see it.

use std::sync::Arc;

use minimal_proto::keeper::{ExecStanding, Hello};
use minimal_proto::{Ending, ErrorBody};

/// The streams of a box or of an exec at one instant.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// How far its log can be read.
    pub(crate) log_end: u64,
    /// How much input was accepted.
    pub(crate) input_offset: u64,
    /// Whether it takes input.
    pub(crate) input_open: bool,
    /// Whether its log is pinned for its creator.
    pub(crate) pinned: bool,
    /// What a reader who has read everything is told of it, if there is something to tell.
    pub(crate) notice: Option<Arc<str>>,
    /// Whether anything will follow.
    pub(crate) outcome: Outcome,
}

/// Whether anything follows, and what has become of it if not.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// More will follow.
    Open,
    /// It has ended so, and its log is sealed.
    Ended(Arc<Ending>),
    /// Nobody can say how it ended, and why that is so.
    Unknown(Arc<ErrorBody>),
}

impl Flow {
    /// Of something whose log's end alone is known.
    pub(crate) fn new(log_end: u64) -> Self {
        Self {
            log_end,
            input_offset: 0,
            input_open: false,
            pinned: false,
            notice: None,
            outcome: Outcome::Open,
        }
    }

    /// As a keeper says it of its box.
    pub(crate) fn greeted(&mut self, hello: &Hello) {
        self.log_end = self.log_end.max(hello.log_end);
        self.input_offset = hello.input_offset;
        self.input_open = hello.input_open;
        self.pinned = hello.pinned;
    }

    /// As a keeper says it of an exec.
    pub(crate) fn joined(&mut self, standing: &ExecStanding) {
        self.log_end = self.log_end.max(standing.log_end);
        self.input_offset = standing.input_offset;
        self.input_open = standing.input_open;
        self.pinned = standing.pinned;
    }

    /// Nothing follows.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        self.input_open = false;
        self.pinned = false;
        self.outcome = outcome;
    }

    /// Whether more will follow.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.outcome, Outcome::Open)
    }
}
