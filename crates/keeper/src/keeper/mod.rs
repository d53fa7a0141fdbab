//! The loop of a keeper: everything that can happen to a running box, one thing at a time.

mod again;
mod execs;
mod pause;
mod ready;
mod requests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use again::Restarting;
use minimal_linux::{Child, socket};
use minimal_proto::error::Chain;
use minimal_proto::event::{Degraded, Started};
use minimal_proto::keeper::{Enforcement, Start};
use minimal_proto::spec::Lifetime;
use minimal_proto::{Ending, EventData, Reason, Signal, Timestamp};
use minimal_store::{BoxDir, JournalWriter, LogWriter, hook};
use ready::Readiness;
use rustix::event::PollFlags;

use crate::birth::{END_WHEN_EMPTY, HANG_UP_ALL, Newborn, TERM_ALL};
use crate::exec::execs::Execs;
use crate::keeper_log::KeeperLog;
use crate::ladder::{Ladder, Occurrence, Order};
use crate::limits::Cgroups;
use crate::outputs::READ;
use crate::peers::Peers;
use crate::restarts::Restarts;
use crate::saving::{FAREWELL, save_and_tell};
use crate::streams::Streams;
use crate::timers::{Timer, Timers};
use crate::watch::Watch;

/// How long the output of a box in which nothing is left may go on: an empty namespace has closed
/// its pipes, so this covers a descriptor that was passed out of it.
const DRAIN: Duration = Duration::from_millis(250);
/// When the journal of a started box goes to disk, and its keeper out of its control groups: both
/// may take milliseconds.
const SYNC: Duration = Duration::from_millis(250);

/// What is on the host of a box: its directory with what the keeper alone writes there, besides
/// the log, and its control groups.
pub(crate) struct Hosted {
    pub(crate) dir: BoxDir,
    pub(crate) journal: JournalWriter,
    pub(crate) log: KeeperLog,
    /// Events that could not be written yet, oldest first. An ending without the start before it
    /// would be no ending.
    pub(crate) unsaved: VecDeque<(EventData, Timestamp)>,
    pub(crate) cgroups: Cgroups,
}

/// A running box.
pub(crate) struct Keeper<'a> {
    hosted: Hosted,
    peers: Peers,
    listener: Option<UnixListener>,
    init: Option<Child>,
    lifeline: OwnedFd,
    entrypoint: Option<Child>,
    /// Whether it ever had one.
    has_entrypoint: bool,
    /// What it takes to start it again, if that may be.
    restarting: Option<Restarting>,
    /// Until it is known to be ready, if it has a probe.
    readiness: Option<Readiness>,
    streams: Streams,
    execs: Execs<'a>,
    buffer: Vec<u8>,
    ladder: Ladder,
    timers: Timers,
    grace: Duration,
    /// How many processes of the box the kernel killed for memory, by the entrypoint's end.
    oom_kills: u64,
    /// Why that could not be found out.
    oom_unknown: Option<String>,
    /// Why the box is not ready, if it ends for that.
    not_ready: Option<String>,
    /// While everything in the box stands still: what has become due since.
    paused: Option<Vec<Timer>>,
    /// Init is to end once nothing is left in the box, which it has not been told yet.
    ends_when_empty: bool,
    /// An exec was sent into the box in this turn.
    was_entered: bool,
    /// What is announced once the first turn is over.
    birth: Option<(u32, Enforcement)>,
}

impl<'a> Keeper<'a> {
    /// Takes a newborn box.
    pub(crate) fn new(
        start: &Start,
        newborn: Newborn<'a>,
        output: LogWriter,
        hosted: Hosted,
        peers: Peers,
    ) -> Result<Self, Box<(Hosted, Peers, io::Error)>> {
        let execution = &start.spec.execution;
        let mut timers = Timers::default();
        if let Some(timeout) = execution.timeout_ms {
            timers.set_in(Timer::Timeout, Duration::from_millis(timeout));
        }
        timers.set_in(Timer::Sync, SYNC);
        let streams = match Streams::new(newborn.ends, output, start.options.pin) {
            Ok(streams) => streams,
            Err(error) => return Err(Box::new((hosted, peers, error))),
        };
        let grace = Duration::from_millis(execution.stop_grace_ms);
        let ladder = match start.spec.identity.lifetime {
            Lifetime::UntilComplete => Ladder::until_complete(),
            Lifetime::UntilStopped => Ladder::until_stopped(newborn.entrypoint.is_some()),
        };
        let execs = Execs::new(newborn.way_in, start.box_id, start.life, grace);
        Ok(Self {
            hosted,
            peers,
            listener: None,
            init: Some(newborn.init),
            lifeline: newborn.lifeline,
            has_entrypoint: newborn.entrypoint.is_some(),
            entrypoint: newborn.entrypoint,
            restarting: newborn
                .again
                .map(|again| Restarting::new(again, Restarts::new(execution.restart))),
            readiness: execution.ready.clone().map(Readiness::new),
            streams,
            execs,
            // Untouched pages cost nothing: a box that prints little stays small.
            buffer: vec![0; READ],
            ladder,
            timers,
            grace,
            oom_kills: 0,
            oom_unknown: None,
            not_ready: None,
            paused: None,
            ends_when_empty: false,
            was_entered: false,
            birth: Some((start.life, newborn.enforcement)),
        })
    }

    /// Keeps the box until it has ended and everyone connected knows.
    pub(crate) fn keep(mut self) -> Hosted {
        // First: whoever hears of the start may have something to run in the box.
        self.listen();
        self.announce_birth();
        self.expect_ready();
        while !self.turn() {}
        self.end()
    }

    fn announce_birth(&mut self) {
        let Some((life, enforcement)) = self.birth.take() else { return };
        hook::point("keeper.started.before_journal").ok();
        let boot_id =
            std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        self.append(EventData::Started(Started {
            life,
            boot_id: boot_id.trim().to_owned(),
            keeper_pid: self.peers.greeting.pid,
            enforcement,
        }));
        hook::point("keeper.started.after_journal").ok();
    }

    fn listen(&mut self) {
        // A socket of an earlier life has no listener: we hold the lock.
        let directory = self.hosted.dir.dir_fd();
        rustix::fs::unlinkat(directory, crate::SOCKET, rustix::fs::AtFlags::empty()).ok();
        let listener = socket::listen(directory, crate::SOCKET).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        match listener {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => self.degraded(&format!("no later daemon can reach this box: {error}")),
        }
    }

    /// Waits for something and handles it. Whether nothing is left in the box.
    fn turn(&mut self) -> bool {
        let mut watch = Watch::default();
        for child in [&self.entrypoint, &self.init].into_iter().flatten() {
            watch.add(child.as_fd(), PollFlags::IN);
        }
        let streams = self.streams.watch(&mut watch, true);
        let restart = self.restarting.as_ref().and_then(|it| it.watch(&mut watch));
        // One that cannot be accepted now would be ready for ever.
        let listener = self.listener.as_ref().filter(|_| self.peers.has_room());
        let listener = listener.map(|it| watch.add(it.as_fd(), PollFlags::IN));
        let connections: Vec<_> =
            self.peers.connections.iter().map(|it| it.watch(&mut watch)).collect();
        let execs = self.execs.watch(&mut watch);
        let probe = self.readiness.as_ref().and_then(|it| it.watch(&mut watch));
        let probe_due = self.readiness.as_ref().and_then(Readiness::due);
        let restart_due = self.restarting.as_ref().and_then(Restarting::due);
        let due = [self.timers.next(), self.streams.due(), self.execs.due(), self.peers.due()];
        let due = due.into_iter().chain([restart_due, probe_due]).flatten().min();
        let woken = watch.wait(due.map(|due| due.saturating_duration_since(Instant::now())));
        // The kernel's word first: a stop that arrives in the same turn comes after the end.
        self.reap();
        self.follow_restart(&woken, restart);
        self.follow_probe(&woken, probe);
        let mut faults = Vec::new();
        self.streams.handle(&woken, streams, &mut self.buffer, &mut faults);
        for fault in faults {
            self.degraded(&fault);
        }
        self.execs.woken(&woken, &execs, &mut self.buffer, &self.hosted.cgroups);
        for (connection, slot) in self.peers.connections.iter_mut().zip(connections) {
            connection.woken(woken.is_ready(Some(slot)));
        }
        self.streams.describe(&mut self.peers.greeting);
        if woken.is_ready(listener)
            && let Some(listener) = &self.listener
        {
            self.peers.accept(listener);
        }
        self.serve();
        self.streams.write_input();
        self.execs.serve(&mut self.buffer);
        let now = Instant::now();
        while let Some(timer) = self.timers.take_due(now) {
            if !self.holds(timer) {
                self.due(timer);
            }
        }
        self.streams.take_due(now);
        self.let_init_end();
        self.follow_execs();
        self.mind_the_door();
        self.streams.tell(&mut self.peers.connections);
        self.peers.greeting.execs = Some(self.execs.ids());
        self.ladder.end().is_some()
    }

    /// Takes the kernel's word on both children. The entrypoint first: until it is reaped the
    /// kernel does not report init (pid_namespaces(7): init waits for the whole namespace).
    fn reap(&mut self) {
        if let Some(entrypoint) = &mut self.entrypoint {
            match entrypoint.try_reap() {
                Ok(None) => {}
                Ok(Some(observed)) => {
                    hook::point("keeper.end.observed").ok();
                    self.entrypoint = None;
                    self.streams.program_ended();
                    self.note_kills();
                    self.climb(Occurrence::EntrypointEnded(observed));
                }
                // Nobody else can have reaped it; without its status there is no ending to tell,
                // and the daemon will find the box lost.
                Err(error) => {
                    self.abandon(&format!("the kernel does not say how it ended: {error}"));
                }
            }
        }
        if let Some(init) = &mut self.init
            && let Ok(Some(observed)) = init.try_reap()
        {
            self.init = None;
            if !self.ladder.is_ending() {
                // It ends as its init did, and memory may have been the reason.
                self.note_kills();
            }
            self.climb(Occurrence::InitEnded(observed));
        }
        if self.execs.closed
            && let Some(init) = &self.init
        {
            // The kernel does not report init before all of its namespace is reaped that is ours to
            // reap, and that may be somebody of whom nobody could tell us any more.
            let own = [Some(init), self.entrypoint.as_ref()].into_iter().flatten().map(Child::pid);
            let known: Vec<i32> = own.chain(self.execs.pids()).collect();
            minimal_linux::wait::reap_strangers(&known).ok();
        }
    }

    /// Tells the ladder of kills for memory since the last look.
    fn note_kills(&mut self) {
        let before = self.oom_kills;
        self.count_kills();
        if self.oom_kills > before {
            self.climb(Occurrence::OomKill);
        }
    }

    /// Whether memory was the reason must not be guessed: what cannot be read is told.
    fn count_kills(&mut self) {
        match self.hosted.cgroups.oom_kills() {
            Ok(kills) => self.oom_kills = kills.unwrap_or(0),
            Err(error) => {
                self.oom_unknown = Some(error.to_string());
                self.degraded(&format!(
                    "whether the kernel killed processes of the box for memory is not known: {error}"
                ));
            }
        }
    }

    fn climb(&mut self, occurrence: Occurrence) {
        for order in self.ladder.handle(occurrence, Instant::now()) {
            // An order that cannot be given finds its addressee gone, which is what it is for; the
            // deadline and the next reaping go on from there.
            match order {
                Order::TermAll => {
                    // Who has not executed anything yet is not to begin now.
                    self.execs.box_ends();
                    self.restart_no_more();
                    self.probe_no_more();
                    // Who stands still takes no signal.
                    self.go_on();
                    // Interactive shells ignore TERM, and end when their terminal does.
                    let order = if self.streams.is_terminal() { HANG_UP_ALL } else { TERM_ALL };
                    socket::send(self.lifeline.as_fd(), &[order], None).ok();
                    hook::point("keeper.stop.after_term").ok();
                }
                Order::EndWhenEmpty => self.ends_when_empty = true,
                Order::NoteReturn(reason, observed) => self.has_returned(reason, observed),
                Order::KillAll => {
                    self.execs.box_ends();
                    self.restart_no_more();
                    self.probe_no_more();
                    // Who stands still takes no signal.
                    self.go_on();
                    if let Some(init) = &self.init {
                        init.signal(Signal::KILL).ok();
                    }
                }
                Order::ReportOomKill => {
                    let count = self.oom_kills;
                    self.degraded(&format!(
                        "the kernel killed {count} of the box's processes because its memory ran out"
                    ));
                }
                Order::ReportStuck => {
                    self.degraded("the box was killed, but a process in it does not end: it waits in the kernel");
                }
            }
        }
        self.timers.set(Timer::Ladder, self.ladder.deadline());
    }

    /// Tells init to end when it is alone. It does not know of execs, which are our children and not
    /// its: it would end with them, and before their time is over.
    fn let_init_end(&mut self) {
        if self.ends_when_empty && !self.execs.run() {
            self.ends_when_empty = false;
            socket::send(self.lifeline.as_fd(), &[END_WHEN_EMPTY], None).ok();
        }
    }

    fn due(&mut self, timer: Timer) {
        match timer {
            Timer::Timeout => self.climb(Occurrence::Timeout { grace: self.grace }),
            Timer::Ladder => self.climb(Occurrence::DeadlineReached),
            Timer::Restart => self.restart(),
            Timer::Probe => self.probe(),
            Timer::NotReady => self.is_not_ready(),
            Timer::Sync => {
                if let Err(error) = self.hosted.cgroups.leave() {
                    self.degraded(&format!("the box's keeper shares the box's limits: {error}"));
                }
                if self.hosted.catch_up(&mut self.peers).is_err() {
                    self.timers.set_in(Timer::Sync, SYNC);
                    return;
                }
                if let Err(error) = self.hosted.journal.sync() {
                    self.degraded(&format!("the journal is not on disk yet: {}", Chain(&error)));
                }
            }
        }
    }

    /// Appends an event and tells everyone. What cannot be written now is said in the keeper's log
    /// and tried again with the next event, at the latest before the ending.
    fn append(&mut self, data: EventData) {
        self.hosted.unsaved.push_back((data, Timestamp::now()));
        self.hosted.catch_up(&mut self.peers).ok();
    }

    fn degraded(&mut self, cause: &str) {
        self.hosted.log.error(&self.hosted.dir, "the box is degraded", cause);
        self.append(EventData::Degraded(Degraded { cause: cause.to_owned() }));
    }

    fn abandon(&mut self, cause: &str) {
        self.hosted.log.error(&self.hosted.dir, "the box is given up", cause);
        // Our end takes the whole box with it (init's lifeline and parent-death signal).
        minimal_linux::fork::exit_now(1);
    }

    /// The order of a box's end, from the empty box on: output to its real end, the log sealed, the
    /// ending on disk, and only then told.
    fn end(mut self) -> Hosted {
        let Some((reason, observed)) = self.ladder.end() else { return self.hosted };
        // All of theirs before the box's: after that nobody looks.
        self.end_execs();
        // It holds the output's other end.
        self.restarting = None;
        let mut faults = Vec::new();
        self.streams.drain(DRAIN, &mut self.buffer, &mut faults);
        for fault in faults {
            self.degraded(&fault);
        }
        hook::point("keeper.end.drained").ok();
        let mut ending = Ending::observed(reason, observed, Timestamp::now());
        if let Some(why) = self.not_ready.take().filter(|_| reason == Reason::NotReady) {
            ending = ending.with_detail("message", why);
        }
        if self.ladder.is_of_init() {
            ending = ending.with_detail("observed_of", "init");
        }
        if !self.streams.outputs_have_ended() {
            ending = ending.with_detail("output_still_open", true);
        }
        if let Some(why) = self.oom_unknown.take() {
            ending = ending.with_detail("oom_kills_unknown", why);
        }
        if self.oom_kills > 0 {
            ending = ending.with_detail("oom_kills", self.oom_kills);
        }
        if self.streams.dropped() > 0 {
            ending = ending.with_detail("output_dropped_bytes", self.streams.dropped());
        }
        let log_end = self.streams.seal();
        hook::point("keeper.end.sealed").ok();
        let ending = ending.with_detail("log_end", log_end);
        save_and_tell(&mut self.hosted, &mut self.peers, self.listener.as_ref(), &ending, log_end);
        self.execs.finish(FAREWELL);
        self.hosted
    }
}
