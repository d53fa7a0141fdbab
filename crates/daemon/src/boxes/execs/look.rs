//! Finding an exec, whether it lives or only its directory says what it was.

use std::sync::Arc;

use minimal_proto::address;
use minimal_proto::api::{ExecRecord, LogFigures};
use minimal_proto::error::Chain;
use minimal_proto::exec::{ExecEnd, ExecFile};
use minimal_proto::{BoxId, Ending, ErrorBody, ErrorCode, ExecId, State, Timestamp};
use minimal_store::{BoxDir, ExecDir, ExecDirError};

use super::{LiveExec, actor, record};
use crate::boxes::ended::sealed;
use crate::boxes::load::is_recent;
use crate::boxes::{Ended, Live};

/// Most bytes of records on a page: their arguments can be long.
const PAGE_BYTES: usize = 16 << 20;

/// An exec that was found.
#[derive(Debug)]
pub(crate) enum ExecEntry {
    /// It has an actor.
    Live(Arc<LiveExec>),
    /// It has ended.
    Ended(Box<EndedExec>),
}

/// What is on disk of an exec that has ended.
#[derive(Debug)]
pub(crate) struct EndedExec {
    pub(crate) dir: Arc<ExecDir>,
    pub(crate) file: ExecFile,
    pub(crate) end: ExecEnd,
    pub(crate) log: LogFigures,
}

/// The box whose execs are looked for, as it is known.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Live(Arc<Live>),
    Ended(Arc<Ended>, Arc<BoxDir>),
}

/// A page of records, newest first, each as JSON.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) records: Vec<String>,
    /// The last of them, if there are more.
    pub(crate) next: Option<ExecId>,
}

/// How an exec ended, from its directory; none if that does not say it. `is_last`: its box has ended,
/// so that whatever is there was brought to disk.
pub(super) async fn read_end(
    dir: &Arc<ExecDir>,
    is_last: bool,
) -> Result<Option<ExecEnd>, ExecDirError> {
    let dir = Arc::clone(dir);
    let read = move || {
        let end = dir.read_end()?;
        if end.as_ref().is_some_and(|end| !is_last && is_recent(end.ending.at())) {
            // Its keeper may be about to, and die before it has.
            dir.sync()?;
        }
        Ok(end)
    };
    tokio::task::spawn_blocking(read).await.expect("reading an ending does not panic")
}

impl Place {
    pub(super) fn dir(&self) -> &Arc<BoxDir> {
        match self {
            Self::Live(live) => &live.dir,
            Self::Ended(_, dir) => dir,
        }
    }

    fn id(&self) -> BoxId {
        match self {
            Self::Live(live) => live.id,
            Self::Ended(ended, _) => ended.id,
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Live(live) => live.name.as_str(),
            Self::Ended(ended, _) => ended.name.as_str(),
        }
    }

    /// Milliseconds between TERM and KILL where an exec does not say it itself; nothing of an ended
    /// box is stopped.
    pub(crate) fn stop_grace_ms(&self) -> u64 {
        match self {
            Self::Live(live) => live.facts.stop_grace_ms,
            Self::Ended(..) => 0,
        }
    }

    /// When the box ended, if it has.
    fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Self::Live(live) => live.view.borrow().record.ending.as_ref().map(Ending::at),
            Self::Ended(ended, _) => Some(ended.ending().at()),
        }
    }

    pub(super) fn state(&self) -> State {
        match self {
            Self::Live(live) => live.view.borrow().record.state,
            Self::Ended(ended, _) => ended.state,
        }
    }

    fn live(&self, id: ExecId) -> Option<Arc<LiveExec>> {
        match self {
            Self::Live(live) => live.execs.get(id),
            Self::Ended(..) => None,
        }
    }

    pub(super) fn error(&self, code: ErrorCode, message: String) -> ErrorBody {
        ErrorBody::new(code, message).with_detail("box", self.id().to_string())
    }

    fn not_found(&self, address: &str) -> ErrorBody {
        let address: String = address.chars().take(LONGEST_ADDRESS).collect();
        let message = format!("box `{}` has no exec `{address}`", self.name());
        self.error(ErrorCode::NotFound, message)
    }

    /// Finds the exec that an address means: an id, or a part of one.
    ///
    /// # Errors
    /// None, or more than one; or it cannot be read.
    pub(crate) async fn find(&self, address: &str) -> Result<ExecEntry, ErrorBody> {
        let id = match address.parse::<ExecId>() {
            Ok(id) => id,
            Err(_) => self.resolve(address).await?,
        };
        if let Some(exec) = self.live(id) {
            return Ok(ExecEntry::Live(exec));
        }
        match self.read(id).await? {
            Ok(ended) => Ok(ExecEntry::Ended(ended)),
            Err(NoEnd) => self.join(id).await,
        }
    }

    /// An exec that has neither an actor nor an ending, of a box that lives: it is joined, unless it
    /// ends just now.
    async fn join(&self, id: ExecId) -> Result<ExecEntry, ErrorBody> {
        let Self::Live(live) = self else { return Err(self.not_found(&id.to_string())) };
        let error = match actor::join(live, id).await {
            Ok(exec) => return Ok(ExecEntry::Live(exec)),
            Err(error) => error,
        };
        match self.read(id).await? {
            Ok(ended) => Ok(ExecEntry::Ended(ended)),
            Err(NoEnd) => Err(error),
        }
    }

    /// The id that a part of it means.
    async fn resolve(&self, part: &str) -> Result<ExecId, ErrorBody> {
        let Some(matcher) = address::Part::of(part) else { return Err(self.not_found(part)) };
        let dir = Arc::clone(self.dir());
        let listed = tokio::task::spawn_blocking(move || ExecDir::list(&dir)).await;
        let mut ids = listed
            .expect("listing execs does not panic")
            .map_err(|error| self.error(ErrorCode::Broken, Chain(&error).to_string()))?;
        ids.retain(|id| matcher.matches(id.as_uuid()));
        match ids.as_slice() {
            [] => Err(self.not_found(part)),
            [id] => Ok(*id),
            _ => {
                let count = ids.len();
                let message = format!("`{part}` is part of the ids of {count} execs of the box");
                let ids: Vec<_> = ids.iter().take(CANDIDATES).map(ToString::to_string).collect();
                Err(self
                    .error(ErrorCode::Ambiguous, message)
                    .with_hint("give more of the id, or all of it")
                    .with_detail("candidates", ids))
            }
        }
    }

    /// An exec of a box that has ended, if it ever had a record: it has one before anything of it is
    /// executed.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) async fn ended_exec(&self, id: ExecId) -> Result<Option<Box<EndedExec>>, ErrorBody> {
        match self.read(id).await {
            Ok(Ok(ended)) => Ok(Some(ended)),
            Ok(Err(NoEnd)) => Err(self.not_found(&id.to_string())),
            Err(error) if error.code == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads an exec that has no actor.
    async fn read(&self, id: ExecId) -> Result<Result<Box<EndedExec>, NoEnd>, ErrorBody> {
        let (dir, ended_at) = (Arc::clone(self.dir()), self.ended_at());
        let read = move || read(&dir, id, ended_at, true);
        let read = tokio::task::spawn_blocking(read).await.expect("reading an exec does not panic");
        match read {
            Ok(Some(ended)) => Ok(Ok(Box::new(ended))),
            Ok(None) => Ok(Err(NoEnd)),
            Err(ExecDirError::Missing { .. }) => Err(self.not_found(&id.to_string())),
            Err(error) => {
                let message = format!("exec {id} cannot be read: {}", Chain(&error));
                Err(self.error(ErrorCode::Broken, message))
            }
        }
    }
}

/// There is no ending yet.
#[derive(Clone, Copy, Debug)]
struct NoEnd;

/// The longest address that a message repeats, in characters.
const LONGEST_ADDRESS: usize = 80;

/// How many candidates an answer names.
const CANDIDATES: usize = 10;

/// Reads an exec that has no actor. `None`: it has no ending, and its box neither. Blocking.
fn read(
    dir: &BoxDir,
    id: ExecId,
    ended_at: Option<Timestamp>,
    durable: bool,
) -> Result<Option<EndedExec>, ExecDirError> {
    let dir = ExecDir::open(dir, id)?;
    let file = dir.read_file()?;
    let end = match (dir.read_end()?, ended_at) {
        (Some(end), None) if durable && is_recent(end.ending.at()) => {
            dir.sync()?;
            end
        }
        (Some(end), _) => end,
        // Nobody lived to write it.
        (None, Some(at)) => ExecDir::lost(at),
        (None, None) => return Ok(None),
    };
    let log = sealed(&end.ending, minimal_store::figures(&dir).unwrap_or_default());
    Ok(Some(EndedExec { dir: Arc::new(dir), file, end, log }))
}

impl EndedExec {
    /// Its record.
    pub(crate) fn record(&self) -> ExecRecord {
        record(&self.file, self.end.started_at, Some(&self.end.ending), self.log)
    }
}

/// A page of a box's execs, newest first, before `after` if it is given.
///
/// # Errors
/// They cannot be listed.
pub(crate) async fn list(
    place: Place,
    limit: usize,
    after: Option<ExecId>,
) -> Result<Listing, ErrorBody> {
    let listing = tokio::task::spawn_blocking(move || page(&place, limit, after)).await;
    listing.expect("listing execs does not panic")
}

fn page(place: &Place, limit: usize, after: Option<ExecId>) -> Result<Listing, ErrorBody> {
    // Before the directories are read: what ends meanwhile has its ending there.
    let ended_at = place.ended_at();
    let ids = ExecDir::list(place.dir())
        .map_err(|error| place.error(ErrorCode::Broken, Chain(&error).to_string()))?;
    let mut listing = Listing { records: Vec::new(), next: None };
    let (mut last, mut bytes) = (None, 0);
    for id in ids.into_iter().filter(|id| after.is_none_or(|after| *id < after)) {
        if listing.records.len() == limit || bytes >= PAGE_BYTES {
            listing.next = last;
            break;
        }
        let Some(record) = listed(place, id, ended_at) else { continue };
        let json = serde_json::to_string(&record).expect("a record has string keys only");
        bytes += json.len();
        last = Some(id);
        listing.records.push(json);
    }
    Ok(listing)
}

/// The record of an exec for a list; none for a directory that is no exec's, or cannot be read: whoever
/// asks for that one is told.
fn listed(place: &Place, id: ExecId, ended_at: Option<Timestamp>) -> Option<ExecRecord> {
    if let Some(exec) = place.live(id) {
        return Some(exec.record(minimal_store::figures(&exec.dir).ok()));
    }
    match read(place.dir(), id, ended_at, false) {
        Ok(Some(ended)) => Some(ended.record()),
        // It is being started, or its daemon has died and nobody has asked for it since.
        Ok(None) => {
            let dir = ExecDir::open(place.dir(), id).ok()?;
            let log = minimal_store::figures(&dir).unwrap_or_default();
            Some(record(&dir.read_file().ok()?, None, None, log))
        }
        Err(error) => {
            tracing::debug!(exec = %id, error = %Chain(&error), "left out of a list");
            None
        }
    }
}
