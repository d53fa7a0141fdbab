//! The execs of a box: further commands run in it, each with an actor and a connection to the keeper of
//! its own while it lives.
//!
//! ```text
//!  POST execs ─▶ start ─┐                          ┌─▶ line: waits, streams, requests
//!                       ├─▶ actor ◀──▶ keeper ─────┤
//!  box adopted ─▶ join ─┘                          └─▶ end.json: read from disk by whoever asks later
//! ```
//!
//! What has ended is held in memory by nobody: its directory says everything.

mod actor;
mod look;
mod start;
mod too_late;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minimal_proto::api::{ExecRecord, LogFigures};
use minimal_proto::exec::ExecFile;
use minimal_proto::{Ending, ExecId, State, Timestamp};
use minimal_store::ExecDir;

use super::flow::{Flow, Outcome};
use super::line::Line;

pub(super) use actor::join_all;
pub(crate) use look::{ExecEntry, Place, list};
pub(crate) use start::start;

/// An exec with an actor.
#[derive(Debug)]
pub(crate) struct LiveExec {
    pub(crate) file: ExecFile,
    /// When its program was executed; none if it could not be.
    started_at: Option<Timestamp>,
    pub(crate) dir: Arc<ExecDir>,
    /// Its streams, and its actor.
    pub(crate) line: Arc<Line>,
}

/// The execs of a box that have an actor.
#[derive(Debug, Default)]
pub(crate) struct Execs {
    live: Mutex<BTreeMap<ExecId, Arc<LiveExec>>>,
    /// Held by whoever joins execs that the daemon has no connection for, so that each gets one.
    joining: tokio::sync::Mutex<()>,
}

impl Execs {
    /// The ids of those that live, oldest first.
    pub(crate) fn ids(&self) -> Vec<ExecId> {
        self.lock().keys().copied().collect()
    }

    fn get(&self, id: ExecId) -> Option<Arc<LiveExec>> {
        self.lock().get(&id).map(Arc::clone)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ExecId, Arc<LiveExec>>> {
        // Nothing under the lock panics half-way through a change.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveExec {
    /// The figures of its log when it ended at `end`, with what its files say.
    pub(crate) fn log_figures(&self, end: u64, files: Option<LogFigures>) -> LogFigures {
        let kept = files.map(|files| files.bytes.saturating_sub(files.dropped_bytes));
        let dropped_bytes = kept.map_or(0, |kept| end.saturating_sub(kept));
        LogFigures { bytes: end, dropped_bytes }
    }

    /// Its record, with what is known of its log's files.
    pub(crate) fn record(&self, files: Option<LogFigures>) -> ExecRecord {
        let Flow { log_end, outcome, .. } = self.line.flow.borrow().clone();
        let ending = match &outcome {
            Outcome::Ended(ending) => Some(ending.as_ref()),
            Outcome::Open | Outcome::Unknown(_) => None,
        };
        let log = self.log_figures(log_end, files);
        record(&self.file, self.started_at, ending, log)
    }
}

fn record(
    file: &ExecFile,
    started_at: Option<Timestamp>,
    ending: Option<&Ending>,
    log: LogFigures,
) -> ExecRecord {
    ExecRecord {
        schema: "min/v1/exec".to_owned(),
        id: file.id,
        box_id: file.box_id,
        argv: file.command.argv.clone(),
        mode: file.command.mode,
        user: file.command.user.clone(),
        state: ending.map_or(State::Running, Ending::state),
        ending: ending.cloned(),
        created_at: file.created_at,
        started_at,
        ended_at: ending.map(Ending::at),
        log,
    }
}
