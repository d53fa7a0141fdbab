//! The record: what a box is, as the fold of its events.
//!
//! [`Record::apply`] is the only thing that changes a record. It is pure: the same events give the
//! same record anywhere, and an event that cannot be is denied by name and changes nothing.

use minimal_proto::event::{Created, Resumed, Sources, Started};
use minimal_proto::keeper::Enforcement;
use minimal_proto::{BoxId, BoxName, Ending, Event, EventData, Reason, State, Timestamp};

/// A box as its journal tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The box.
    pub id: BoxId,
    /// Its name now.
    pub name: BoxName,
    /// When it got its directory.
    pub created_at: Timestamp,
    /// When its entrypoint was executed, last.
    pub started_at: Option<Timestamp>,
    /// When it was seen to end.
    pub ended_at: Option<Timestamp>,
    /// `created`, `running`, `exited`, `stopped` or `failed`, and `pending` between a resume and the
    /// start of its life. Else the journal does not tell `pending` and `materializing` from `created`:
    /// those are the daemon's knowledge.
    pub state: State,
    /// How it ended; none until then.
    pub ending: Option<Ending>,
    /// How many lives it has had; 0 before the first start.
    pub lives: u32,
    /// What isolation is in force; none before the first start.
    pub enforcement: Option<Enforcement>,
    /// The boot in which it was started last.
    pub boot_id: Option<String>,
    /// The last keeper's pid, for people.
    pub keeper_pid: Option<i32>,
    /// What failed beside the entrypoint, last.
    pub degraded: Option<String>,
    /// Whether the daemon reaps it after its end.
    pub remove: bool,
    /// The idempotency key of its creation.
    pub idempotency_key: Option<String>,
    /// SHA-256 (hex) of the request that made it.
    pub request_digest: Option<String>,
    /// The digest of its spec, as the daemon that made it had it.
    pub spec_digest: Option<String>,
    /// The same as the client had it.
    pub client_digest: Option<String>,
    /// The box that made it.
    pub parent: Option<BoxId>,
    /// The sequence number of the last event.
    pub last_seq: u64,
    /// Whether a stop was asked for in this life.
    pub stop_requested: bool,
    /// Whether everything in it stands still.
    pub paused: bool,
    /// What its entrypoint has done in this life.
    pub entrypoint: Entrypoint,
    /// Where the sources of its spec were when it was made.
    pub sources: Option<Sources>,
    /// Which try to begin a life this is, or was: 1, and one more for each resume.
    pub generation: u32,
    /// Where in the log the output of this life begins.
    pub log_begin: u64,
    /// How the last try to begin a further life failed, if there was one since the box has ended.
    pub resume_failure: Option<Ending>,
    /// While a further life is beginning: what the box was before.
    former: Option<Box<Record>>,
}

/// What the entrypoint of a box that lives on has done in this life.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entrypoint {
    /// How it returned last.
    pub returned: Option<Ending>,
    /// Whether it was started again since.
    pub runs_again: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// Whether the box's probe has found it ready.
    pub ready: bool,
}

/// Why an event cannot follow those before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// There are no events.
    #[error("the journal holds no event")]
    Empty,
    /// The first event is another than `created`.
    #[error("the first event is `{type_name}`, not `created`")]
    NotCreated {
        /// What it is.
        type_name: String,
    },
    /// An event is missing, or there twice.
    #[error("event {found} stands where event {expected} belongs")]
    SeqGap {
        /// The number that would follow.
        expected: u64,
        /// The number that stands there.
        found: u64,
    },
    /// An event of another box.
    #[error("event {seq} belongs to the box {found}")]
    OtherBox {
        /// The event's number.
        seq: u64,
        /// Whose it is.
        found: BoxId,
    },
    /// A second `created`.
    #[error("event {seq} creates a box that exists")]
    CreatedTwice {
        /// The event's number.
        seq: u64,
    },
    /// A second start in one life, or a life out of order.
    #[error("event {seq} starts life {found}, but {expected}")]
    Life {
        /// The event's number.
        seq: u64,
        /// The life that could start; none can if the box has started and lives.
        expected: NextLife,
        /// The life it names.
        found: u32,
    },
    /// An event that only a box without an ending can have.
    #[error("event {seq}, `{type_name}`, comes after the ending")]
    AfterEnding {
        /// The event's number.
        seq: u64,
        /// What it is.
        type_name: String,
    },
    /// An event of an entrypoint in a box that does not run.
    #[error("event {seq}, `{type_name}`, comes before the box has started")]
    BeforeStart {
        /// The event's number.
        seq: u64,
        /// What it is.
        type_name: String,
    },
    /// `exited` for a box that never started.
    #[error("event {seq} ends a box that never started as if it had")]
    NeverStarted {
        /// The event's number.
        seq: u64,
    },
    /// `failed` for a box that has started.
    #[error("event {seq} fails the start of a box that has started")]
    HasStarted {
        /// The event's number.
        seq: u64,
    },
    /// `resumed` for a box that has no ending, or one that never started.
    #[error("event {seq} resumes a box that is {state}")]
    NotEnded {
        /// The event's number.
        seq: u64,
        /// What it is.
        state: State,
    },
    /// `resume_failed` for a box that is not being resumed; or `failed` for one that is.
    #[error("event {seq}, `{type_name}`, does not fit whether the box is being resumed")]
    Resume {
        /// The event's number.
        seq: u64,
        /// What it is.
        type_name: String,
    },
    /// `exited` or `failed` with an ending of the other kind.
    #[error("event {seq}, `{type_name}`, cannot hold an ending of reason {reason}")]
    WrongReason {
        /// The event's number.
        seq: u64,
        /// What it is.
        type_name: String,
        /// The ending's reason.
        reason: Reason,
    },
}

/// Which life a box could start next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextLife {
    /// This one.
    Life(u32),
    /// None: it runs.
    NoneWhileRunning,
}

impl std::fmt::Display for NextLife {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Life(life) => write!(f, "life {life} would be next"),
            Self::NoneWhileRunning => f.write_str("the last one has not ended"),
        }
    }
}

impl Record {
    /// The record of a whole journal.
    ///
    /// # Errors
    /// The first event that cannot follow those before it.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Self, Denied> {
        let mut events = events.into_iter();
        let mut record = Self::begin(events.next().ok_or(Denied::Empty)?)?;
        for event in events {
            record.apply(event)?;
        }
        Ok(record)
    }

    /// The record after the first event.
    ///
    /// # Errors
    /// It is not `created`, or not the first.
    pub fn begin(first: &Event) -> Result<Self, Denied> {
        if first.seq != 1 {
            return Err(Denied::SeqGap { expected: 1, found: first.seq });
        }
        let EventData::Created(Created {
            name,
            remove,
            idempotency_key,
            request_digest,
            spec_digest,
            client_digest,
            sources,
        }) = &first.data
        else {
            return Err(Denied::NotCreated { type_name: first.data.type_name().to_owned() });
        };
        Ok(Self {
            id: first.box_id,
            name: name.clone(),
            created_at: first.ts,
            started_at: None,
            ended_at: None,
            state: State::Created,
            ending: None,
            lives: 0,
            enforcement: None,
            boot_id: None,
            keeper_pid: None,
            degraded: None,
            remove: *remove,
            idempotency_key: idempotency_key.clone(),
            request_digest: request_digest.clone(),
            spec_digest: spec_digest.clone(),
            client_digest: client_digest.clone(),
            parent: first.parent,
            last_seq: 1,
            stop_requested: false,
            paused: false,
            entrypoint: Entrypoint::default(),
            sources: sources.clone(),
            generation: 1,
            log_begin: 0,
            resume_failure: None,
            former: None,
        })
    }

    /// Takes the next event, or leaves the record as it was.
    ///
    /// # Errors
    /// Why the event cannot follow.
    pub fn apply(&mut self, event: &Event) -> Result<(), Denied> {
        let seq = event.seq;
        // A journal of 2^64 events cannot be; wrapping then denies rather than panics.
        let expected = self.last_seq.wrapping_add(1);
        if seq != expected {
            return Err(Denied::SeqGap { expected, found: seq });
        }
        if event.box_id != self.id {
            return Err(Denied::OtherBox { seq, found: event.box_id });
        }
        let ends_or_runs = matches!(
            event.data,
            EventData::Started(_)
                | EventData::EntrypointReturned(_)
                | EventData::Restarted(_)
                | EventData::Ready
                | EventData::Paused
                | EventData::Unpaused
                | EventData::Degraded(_)
                | EventData::StopRequested(_)
                | EventData::ExecStarted(_)
                | EventData::ExecExited(_)
                | EventData::ExecsNotListed(_)
                | EventData::Exited(_)
                | EventData::Failed(_)
                | EventData::ResumeFailed(_)
        );
        if ends_or_runs && self.ending.is_some() {
            let type_name = event.data.type_name().to_owned();
            return Err(Denied::AfterEnding { seq, type_name });
        }
        let needs_running = matches!(
            event.data,
            EventData::EntrypointReturned(_)
                | EventData::Restarted(_)
                | EventData::Ready
                | EventData::Paused
                | EventData::Unpaused
        );
        if needs_running && self.state != State::Running {
            let type_name = event.data.type_name().to_owned();
            return Err(Denied::BeforeStart { seq, type_name });
        }
        match &event.data {
            EventData::Created(_) => return Err(Denied::CreatedTwice { seq }),
            EventData::Started(started) => self.start(event, started)?,
            EventData::Exited(ending) | EventData::Failed(ending) => self.end(event, ending)?,
            EventData::Resumed(resumed) => self.resume(seq, resumed)?,
            EventData::ResumeFailed(ending) => self.resume_has_failed(seq, ending)?,
            EventData::EntrypointReturned(ending) => {
                self.entrypoint.returned = Some(ending.clone());
                self.entrypoint.runs_again = false;
            }
            EventData::Restarted(restarted) => {
                self.entrypoint.runs_again = true;
                self.entrypoint.restarts = restarted.restarts;
            }
            EventData::Ready => self.entrypoint.ready = true,
            EventData::Paused => self.paused = true,
            EventData::Unpaused => self.paused = false,
            EventData::Degraded(degraded) => self.degraded = Some(degraded.cause.clone()),
            EventData::Renamed(renamed) => self.name = renamed.to.clone(),
            EventData::StopRequested(_) => self.stop_requested = true,
            // Notes for people, and events of a later version.
            EventData::Attached(_)
            | EventData::Detached(_)
            | EventData::ExecStarted(_)
            | EventData::ExecExited(_)
            | EventData::ExecsNotListed(_)
            | EventData::Unknown { .. } => {}
        }
        self.last_seq = seq;
        Ok(())
    }

    fn start(&mut self, event: &Event, started: &Started) -> Result<(), Denied> {
        let expected = if self.state == State::Running {
            NextLife::NoneWhileRunning
        } else {
            NextLife::Life(self.lives.saturating_add(1))
        };
        if expected != NextLife::Life(started.life) {
            return Err(Denied::Life { seq: event.seq, expected, found: started.life });
        }
        self.state = State::Running;
        self.lives = started.life;
        self.started_at = Some(event.ts);
        self.enforcement = Some(started.enforcement.clone());
        self.boot_id = Some(started.boot_id.clone());
        self.keeper_pid = Some(started.keeper_pid);
        self.entrypoint = Entrypoint::default();
        self.former = None;
        Ok(())
    }

    /// Which life the box is in, has ended, or is about to begin; 1 for a new box.
    #[must_use]
    pub fn life(&self) -> u32 {
        match self.state {
            State::Created | State::Pending | State::Materializing => self.lives.saturating_add(1),
            // One that never started has failed in its first.
            State::Running | State::Exited | State::Stopped | State::Failed => self.lives.max(1),
        }
    }

    /// Whether a further life is beginning.
    #[must_use]
    pub fn is_resuming(&self) -> bool {
        self.former.is_some()
    }

    fn resume(&mut self, seq: u64, resumed: &Resumed) -> Result<(), Denied> {
        if !matches!(self.state, State::Exited | State::Stopped) {
            return Err(Denied::NotEnded { seq, state: self.state });
        }
        let next = self.lives.saturating_add(1);
        if resumed.life != next {
            let expected = NextLife::Life(next);
            return Err(Denied::Life { seq, expected, found: resumed.life });
        }
        self.former = Some(Box::new(self.clone()));
        self.state = State::Pending;
        self.ending = None;
        self.ended_at = None;
        self.started_at = None;
        self.enforcement = None;
        self.boot_id = None;
        self.keeper_pid = None;
        self.degraded = None;
        self.stop_requested = false;
        self.entrypoint = Entrypoint::default();
        self.generation = self.generation.saturating_add(1);
        self.log_begin = resumed.log_begin;
        self.resume_failure = None;
        Ok(())
    }

    fn resume_has_failed(&mut self, seq: u64, ending: &Ending) -> Result<(), Denied> {
        let type_name = || EventData::ResumeFailed(ending.clone()).type_name().to_owned();
        if ending.reason() != Reason::StartFailed {
            let reason = ending.reason();
            return Err(Denied::WrongReason { seq, type_name: type_name(), reason });
        }
        let Some(former) = self.former.take() else {
            return Err(Denied::Resume { seq, type_name: type_name() });
        };
        // The name may have changed meanwhile, and tries count.
        *self = Self {
            name: self.name.clone(),
            generation: self.generation,
            resume_failure: Some(ending.clone()),
            ..*former
        };
        Ok(())
    }

    fn end(&mut self, event: &Event, ending: &Ending) -> Result<(), Denied> {
        let seq = event.seq;
        let failed = matches!(event.data, EventData::Failed(_));
        match (failed, self.state == State::Running) {
            (true, true) => return Err(Denied::HasStarted { seq }),
            (false, false) => return Err(Denied::NeverStarted { seq }),
            (true, false) | (false, true) => {}
        }
        if failed && self.former.is_some() {
            let type_name = event.data.type_name().to_owned();
            return Err(Denied::Resume { seq, type_name });
        }
        if failed != (ending.reason() == Reason::StartFailed) {
            let type_name = event.data.type_name().to_owned();
            return Err(Denied::WrongReason { seq, type_name, reason: ending.reason() });
        }
        self.paused = false;
        self.state = ending.state();
        self.ended_at = Some(ending.at());
        self.ending = Some(ending.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
