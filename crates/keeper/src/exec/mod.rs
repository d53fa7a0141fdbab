//! One exec: a further command in a box, with streams, connections and an ending of its own.
//!
//! ```text
//! entering ──executed──▶ running ──its process ended──▶ draining ──quiet──▶ over ──on disk──▶ told
//!    └──── could not be ───────────────────────────────────────────────────▶ over
//! ```
//!
//! Nothing here waits: the keeper's loop does, for everything at once.

pub(crate) mod execs;
mod group;
mod ladder;
mod requests;

use std::time::{Duration, Instant};

use minimal_linux::Child;
use minimal_proto::ending::{Observed, Observer};
use minimal_proto::event::ExecStarted;
use minimal_proto::exec::{ExecEnd, ExecMode};
use minimal_proto::keeper::{ExecStanding, FromKeeper};
use minimal_proto::{ByteString, Ending, ExecId, Reason, Signal, Timestamp};
use minimal_store::{ExecDir, exec_dir, hook};
use rustix::event::PollFlags;
use std::os::fd::AsFd as _;

use crate::birth::{BirthError, Entered, Entering};
use crate::control::Connection;
use crate::limits::Cgroups;
use crate::outputs::BUSY_PIPE;
use crate::streams::{Slots, Streams};
use crate::watch::{Slot, Watch, Woken};
use ladder::{Ladder, Occurrence, Order};

/// Its output is read on for so long after its process has ended, while more comes and somebody
/// else holds the pipes.
const DRAIN: Duration = Duration::from_secs(2);
/// Without more for so long, nothing is waited for any more.
const QUIET: Duration = Duration::from_millis(100);
/// What was in its pipes when it ended is read whoever holds the log back.
const IN_PIPES: usize = 2 * BUSY_PIPE;
/// The pause between two looks at who is left in its process group, at first and at most.
const LOOK: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// The pause after an ending could not be written, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How it is to be run.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) id: ExecId,
    pub(crate) mode: ExecMode,
    pub(crate) timeout: Option<Duration>,
    /// Between TERM and KILL.
    pub(crate) grace: Duration,
    /// The request's idempotency key and digest.
    pub(crate) key: Option<(String, Option<String>)>,
    /// As much of its command as an event shows.
    pub(crate) shown: Vec<ByteString>,
    /// Who runs it, if it says.
    pub(crate) user: Option<String>,
}

/// How far it has come.
#[derive(Debug)]
enum Stage {
    Entering(Entering),
    Running(Child),
    Draining {
        reason: Reason,
        observed: Observed,
        until: Instant,
        quiet_at: Instant,
        read: usize,
    },
    Over {
        end: Box<ExecEnd>,
        retry_at: Option<Instant>,
        pause: Duration,
    },
    /// Only while one stage becomes the next.
    Between,
}

/// An exec that lives.
#[derive(Debug)]
pub(crate) struct Exec {
    terms: Terms,
    dir: ExecDir,
    streams: Streams,
    connections: Vec<Connection>,
    stage: Stage,
    ladder: Ladder,
    started_at: Option<Timestamp>,
    timeout_at: Option<Instant>,
    /// When to look again who is left in the process group, and the pause before that.
    look: Option<(Instant, Duration)>,
    /// How many processes of the box had been killed for memory when this was started.
    oom_kills: u64,
    /// Whether those waiting for the start were answered.
    answered: bool,
    /// Whether the journal has told of its start.
    listed: bool,
    /// What the loop has to know.
    news: News,
}

/// What the loop has to know of an exec.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Its program was executed.
    pub(crate) started: bool,
    /// Children that have ended, or been killed, and are to be reaped.
    pub(crate) leftovers: Vec<Child>,
    /// What went wrong, in words.
    pub(crate) faults: Vec<String>,
}

/// Where a wait finds it.
#[derive(Debug)]
pub(crate) struct ExecSlots {
    process: Option<Slot>,
    streams: Slots,
    connections: Vec<Slot>,
}

impl Exec {
    /// One whose program is on its way in.
    pub(crate) fn entering(
        terms: Terms,
        dir: ExecDir,
        streams: Streams,
        entering: Entering,
        oom_kills: u64,
    ) -> Self {
        Self::new(terms, dir, streams, Stage::Entering(entering), oom_kills)
    }

    /// One that could not even be sent on its way.
    pub(crate) fn failed(terms: Terms, dir: ExecDir, streams: Streams, error: &BirthError) -> Self {
        let mut exec = Self::new(terms, dir, streams, Stage::Between, 0);
        exec.fail(error);
        exec
    }

    fn new(terms: Terms, dir: ExecDir, streams: Streams, stage: Stage, oom_kills: u64) -> Self {
        Self {
            terms,
            dir,
            streams,
            connections: Vec::new(),
            stage,
            ladder: Ladder::new(),
            started_at: None,
            timeout_at: None,
            look: None,
            oom_kills,
            answered: false,
            listed: false,
            news: News::default(),
        }
    }

    /// Waits for it as well.
    pub(crate) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) -> ExecSlots {
        let process = match &self.stage {
            Stage::Entering(entering) => Some(watch.add(entering.as_fd(), PollFlags::IN)),
            // One that has ended and is not to be reaped yet would be ready for ever.
            Stage::Running(child) if !self.ladder.waits_for_group() => {
                Some(watch.add(child.as_fd(), PollFlags::IN))
            }
            Stage::Running(_) | Stage::Draining { .. } | Stage::Over { .. } | Stage::Between => {
                None
            }
        };
        let hold_back = match self.stage {
            Stage::Draining { read, .. } => read > IN_PIPES,
            _ => true,
        };
        let streams = self.streams.watch(watch, hold_back);
        let connections = self.connections.iter().map(|it| it.watch(watch)).collect();
        ExecSlots { process, streams, connections }
    }

    /// Takes note of what a wait has found.
    pub(crate) fn woken(
        &mut self,
        woken: &Woken,
        slots: &ExecSlots,
        buffer: &mut [u8],
        cgroups: &Cgroups,
    ) {
        for (connection, slot) in self.connections.iter_mut().zip(&slots.connections) {
            connection.woken(woken.is_ready(Some(*slot)));
        }
        // The kernel's word first: a stop that arrives in the same turn comes after the end.
        if woken.is_ready(slots.process) {
            match &mut self.stage {
                Stage::Entering(entering) => {
                    if entering.advance() {
                        self.settle(Entering::finish);
                    }
                }
                Stage::Running(_) => self.observe(cgroups),
                Stage::Draining { .. } | Stage::Over { .. } | Stage::Between => {}
            }
        }
        let count = self.streams.handle(woken, slots.streams, buffer, &mut self.news.faults);
        self.has_read(count);
        self.drain_at_once(buffer);
    }

    fn has_read(&mut self, count: usize) {
        if let Stage::Draining { quiet_at, read, .. } = &mut self.stage
            && count > 0
        {
            *read = read.saturating_add(count);
            *quiet_at = Instant::now() + QUIET;
        }
    }

    /// The program is executed, or will not be.
    fn settle(&mut self, end: impl FnOnce(Entering) -> Entered) {
        let Stage::Entering(entering) = std::mem::replace(&mut self.stage, Stage::Between) else {
            return;
        };
        let Entered { outcome, leftovers } = end(entering);
        self.news.leftovers.extend(leftovers);
        match outcome {
            Ok(child) => {
                hook::point("keeper.exec.entered").ok();
                self.stage = Stage::Running(child);
                self.started_at = Some(Timestamp::now());
                self.timeout_at =
                    self.terms.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
                self.news.started = true;
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &BirthError) {
        self.streams.close_input();
        let ending = Ending::start_failed(
            error.fault,
            &error.step,
            &error.message,
            error.errno,
            Timestamp::now(),
            Observer::Keeper,
        );
        self.is_over(ending);
    }

    /// Looks how its process ended.
    fn observe(&mut self, cgroups: &Cgroups) {
        let Stage::Running(child) = &self.stage else { return };
        match child.peek() {
            Ok(None) => {}
            Ok(Some(observed)) => {
                hook::point("keeper.exec.observed").ok();
                let now = Instant::now();
                if is_kill(observed) && self.was_memory_short(cgroups) {
                    self.handle(Occurrence::OomKill, now);
                }
                self.handle(Occurrence::Ended(observed), now);
            }
            // Nobody else can have reaped it; what it says is not known, and not made up.
            Err(error) => {
                self.news.faults.push(format!("the kernel does not say how it ended: {error}"));
                self.stage = Stage::Between;
                self.streams.close_input();
                self.is_over(ExecDir::lost(Timestamp::now()).ending);
            }
        }
    }

    fn was_memory_short(&mut self, cgroups: &Cgroups) -> bool {
        match cgroups.oom_kills() {
            Ok(kills) => kills.is_some_and(|kills| kills > self.oom_kills),
            Err(error) => {
                self.news
                    .faults
                    .push(format!("whether the kernel killed it for memory is not known: {error}"));
                false
            }
        }
    }

    /// Takes note of what happened, and does what follows.
    fn handle(&mut self, occurrence: Occurrence, now: Instant) {
        for order in self.ladder.handle(occurrence, now) {
            let Stage::Running(child) = &mut self.stage else { return };
            // A signal that cannot be sent finds its addressee gone, which is what it is for; the
            // deadline goes on from there.
            match order {
                Order::TermGroup => {
                    if self.streams.is_terminal() {
                        // Interactive shells ignore TERM, and end when their terminal does.
                        child.signal_group(Signal::HUP).ok();
                    }
                    // A stopped process takes TERM only once it goes on.
                    child.signal_group(Signal::TERM).ok();
                    child.signal_group(Signal::CONT).ok();
                }
                Order::KillGroup => {
                    child.signal_group(Signal::KILL).ok();
                }
                // It has ended, so this does not wait.
                Order::Reap => {
                    child.reap().ok();
                }
                Order::ReportStuck => self
                    .news
                    .faults
                    .push("it was killed, but does not end: it waits in the kernel".to_owned()),
            }
        }
        if let (Some((reason, observed)), Stage::Running(_)) = (self.ladder.end(), &self.stage) {
            self.streams.close_input();
            self.look = None;
            self.timeout_at = None;
            let (until, quiet_at) = (now + DRAIN, now + QUIET);
            self.stage = Stage::Draining { reason, observed, until, quiet_at, read: 0 };
        } else if self.ladder.waits_for_group() && self.look.is_none() {
            self.look = Some((now, LOOK.0));
        }
    }

    /// Reads what is there already: of most programs that is all, and the end.
    fn drain_at_once(&mut self, buffer: &mut [u8]) {
        while let Stage::Draining { read, .. } = self.stage
            && read <= IN_PIPES
            && !self.streams.outputs_have_ended()
        {
            let count = self.streams.read_outputs(buffer, &mut self.news.faults);
            if count == 0 {
                break;
            }
            self.has_read(count);
        }
        self.end_of_drain(Instant::now());
    }

    fn end_of_drain(&mut self, now: Instant) {
        let Stage::Draining { reason, observed, until, quiet_at, .. } = self.stage else { return };
        if !self.streams.outputs_have_ended() && now < until.min(quiet_at) {
            return;
        }
        hook::point("keeper.exec.drained").ok();
        let mut ending = Ending::observed(reason, observed, Timestamp::now());
        if !self.streams.outputs_have_ended() {
            ending = ending.with_detail("output_still_open", true);
        }
        self.is_over(ending);
    }

    fn is_over(&mut self, mut ending: Ending) {
        if self.streams.dropped() > 0 {
            ending = ending.with_detail("output_dropped_bytes", self.streams.dropped());
        }
        let end = ExecEnd {
            schema: exec_dir::END_SCHEMA.to_owned(),
            started_at: self.started_at,
            ending: ending.with_detail("log_end", self.streams.log_end()),
        };
        self.streams.close_outputs();
        self.stage = Stage::Over { end: Box::new(end), retry_at: None, pause: RETRY.0 };
    }

    /// When [`Exec::take_due`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let own = match &self.stage {
            Stage::Entering(entering) => Some(entering.due()),
            Stage::Running(_) => {
                let look = self.look.map(|(at, _)| at);
                [self.ladder.deadline(), self.timeout_at, look].into_iter().flatten().min()
            }
            Stage::Draining { until, quiet_at, .. } => Some(*until.min(quiet_at)),
            Stage::Over { retry_at, .. } => *retry_at,
            Stage::Between => None,
        };
        [own, self.streams.due()].into_iter().flatten().min()
    }

    /// Does what is due by now.
    pub(crate) fn take_due(&mut self, now: Instant, buffer: &mut [u8]) {
        if self.streams.take_due(now) {
            self.client_is_lost(now);
        }
        match &mut self.stage {
            Stage::Entering(entering) => {
                if let Some(error) = entering.fault(now) {
                    self.settle(|entering| entering.give_up(error));
                }
            }
            Stage::Running(child) => {
                let leader = child.pid();
                if let Some((at, pause)) = self.look
                    && at <= now
                {
                    if group::has_others(leader) {
                        self.look = Some((now + pause, (pause * 2).min(LOOK.1)));
                    } else {
                        self.handle(Occurrence::GroupEmpty, now);
                    }
                }
                if self.ladder.deadline().is_some_and(|at| at <= now) {
                    self.handle(Occurrence::DeadlineReached, now);
                }
                if self.timeout_at.take_if(|at| *at <= now).is_some() {
                    self.handle(Occurrence::Timeout { grace: self.terms.grace }, now);
                }
                self.drain_at_once(buffer);
            }
            Stage::Draining { .. } => self.end_of_drain(now),
            Stage::Over { .. } | Stage::Between => {}
        }
    }

    /// Its client is gone for good, if it lives by one.
    fn client_is_lost(&mut self, now: Instant) {
        if self.terms.mode != ExecMode::Attached {
            return;
        }
        let before = "its client was gone before it could";
        self.bring_down(Occurrence::ClientLost { grace: self.terms.grace }, before, now);
    }

    /// Ends it: by signals, or by giving up its start, `why`.
    fn bring_down(&mut self, occurrence: Occurrence, why: &str, now: Instant) {
        // What has been executed in the meantime runs, whether or not that was seen.
        if let Stage::Entering(entering) = &mut self.stage {
            if entering.advance() {
                self.settle(Entering::finish);
            } else {
                let error = BirthError::new("execute the program", &std::io::Error::other(why));
                self.settle(|entering| entering.give_up(error));
                return;
            }
        }
        self.handle(occurrence, now);
    }

    /// Everything in the box is being signalled, because it ends.
    pub(crate) fn box_ends(&mut self) {
        let why = "the box was ended before it could";
        self.bring_down(Occurrence::BoxEnds, why, Instant::now());
    }

    /// Nothing is left in the box. What can still come is in the pipes.
    pub(crate) fn box_has_ended(&mut self, left: Duration, buffer: &mut [u8], cgroups: &Cgroups) {
        self.box_ends();
        self.observe(cgroups);
        if let Stage::Draining { until, quiet_at, .. } = &mut self.stage {
            self.streams.drain(left, buffer, &mut self.news.faults);
            (*until, *quiet_at) = (Instant::now(), Instant::now());
            self.end_of_drain(Instant::now());
        }
    }

    /// Which it is.
    pub(crate) fn id(&self) -> ExecId {
        self.terms.id
    }

    /// Takes what the loop has to know.
    pub(crate) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// The event of its start, which is then in the journal, and so will be that of its end.
    pub(crate) fn list(&mut self) -> ExecStarted {
        self.listed = true;
        ExecStarted {
            exec: self.terms.id,
            argv: std::mem::take(&mut self.terms.shown),
            mode: self.terms.mode,
            user: self.terms.user.clone(),
            tty: self.terms.mode == ExecMode::Tty,
        }
    }

    /// Whether the journal has its start.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed
    }

    /// Tells its connections what has changed.
    pub(crate) fn tell(&mut self) {
        if self.answered {
            self.streams.tell(&mut self.connections);
        }
    }

    /// Where things stand with it.
    fn standing(&self) -> ExecStanding {
        self.streams.standing(self.terms.id, self.started_at)
    }

    /// Gives it one more connection, which is told once it has started or failed.
    fn join(&mut self, mut connection: Connection) {
        if self.answered {
            connection.send(&FromKeeper::Exec(self.standing()));
        }
        self.connections.push(connection);
    }

    /// Answers those that wait for the start, if that is over.
    pub(crate) fn answer(&mut self) {
        if self.answered || matches!(self.stage, Stage::Entering(_)) {
            return;
        }
        self.answered = true;
        let standing = self.standing();
        for connection in &mut self.connections {
            connection.send(&FromKeeper::Exec(standing.clone()));
        }
        hook::point("keeper.exec.answered").ok();
    }

    /// The pid of its process, while that is ours to reap.
    fn child_pid(&self) -> Option<i32> {
        match &self.stage {
            Stage::Running(child) => Some(child.pid()),
            _ => None,
        }
    }
}

fn is_kill(observed: Observed) -> bool {
    matches!(observed, Observed::Signal(by) if by.signal() == Signal::KILL)
}
