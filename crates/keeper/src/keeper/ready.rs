//! Whether the box is ready for others: looks at it, until one finds that it is or time is over.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use minimal_linux::Child;
use minimal_proto::ending::Observed;
use minimal_proto::spec::{Probe, Ready};
use minimal_proto::{Ending, EventData, Reason, Signal, Timestamp};
use minimal_store::hook;
use rustix::event::PollFlags;

use super::Keeper;
use crate::birth::{BirthError, Entered, Entering};
use crate::ladder::Occurrence;
use crate::timers::Timer;
use crate::watch::{Slot, Watch, Woken};

/// A box that is not known to be ready.
#[derive(Debug)]
pub(super) struct Readiness {
    ready: Ready,
    look: Look,
    /// What the last look found.
    answer: Option<String>,
}

/// A look that is being taken.
#[derive(Debug)]
enum Look {
    None,
    Entering(Entering),
    Running(Child),
}

impl Readiness {
    /// Nobody has looked yet.
    pub(super) fn new(ready: Ready) -> Self {
        Self { ready, look: Look::None, answer: None }
    }

    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.ready.timeout_ms)
    }

    pub(super) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) -> Option<Slot> {
        match &self.look {
            Look::None => None,
            Look::Entering(entering) => Some(watch.add(entering.as_fd(), PollFlags::IN)),
            Look::Running(child) => Some(watch.add(child.as_fd(), PollFlags::IN)),
        }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        match &self.look {
            Look::Entering(entering) => Some(entering.due()),
            Look::None | Look::Running(_) => None,
        }
    }

    /// What is said of a look that ended so, if it has not found the box ready.
    fn fault(&self, observed: Observed) -> Option<String> {
        let ending = Ending::observed(Reason::Exit, observed, Timestamp::now());
        let how = match (ending.exit_code(), ending.signal()) {
            (Some(0), _) => return None,
            (Some(code), _) => code,
            (None, signal) => {
                let signal = signal.map_or_else(String::new, |signal| signal.to_string());
                return Some(format!("the probe was ended by {signal}"));
            }
        };
        Some(match &self.ready.probe {
            Probe::Port(port) => {
                let why = std::io::Error::from_raw_os_error(i32::from(how));
                format!("nothing accepts connections on port {port}: {why}")
            }
            Probe::Exec(argv) => {
                let program = argv.first().map(|it| it.to_lossy()).unwrap_or_default();
                let shown: String = program.chars().take(255).collect();
                format!("`{shown}` returned {how}")
            }
        })
    }
}

impl Keeper<'_> {
    /// Begins to look, if the spec has a probe.
    pub(super) fn expect_ready(&mut self) {
        if let Some(readiness) = &self.readiness {
            self.timers.set_in(Timer::NotReady, readiness.timeout());
            self.timers.set_in(Timer::Probe, Duration::ZERO);
        }
    }

    /// It is time for a look.
    pub(super) fn probe(&mut self) {
        if self.ladder.is_ending() {
            return;
        }
        let (Some(readiness), Some(init)) = (&mut self.readiness, &self.init) else { return };
        let way_in = &self.execs.way_in;
        let look = hook::point("keeper.ready.before_probe")
            .map_err(|error| BirthError::new("look whether the box is ready", &error))
            .and_then(|()| match &readiness.ready.probe {
                Probe::Port(port) => way_in.connect(init, *port).map(Look::Running),
                Probe::Exec(argv) => {
                    way_in.probe(init, &self.hosted.cgroups, argv).map(Look::Entering)
                }
            });
        match look {
            Ok(look) => readiness.look = look,
            Err(error) => self.looked(Some(error.message)),
        }
    }

    /// Takes note of what has become of a look.
    pub(super) fn follow_probe(&mut self, woken: &Woken, slot: Option<Slot>) {
        let Some(readiness) = &mut self.readiness else { return };
        match std::mem::replace(&mut readiness.look, Look::None) {
            Look::None => {}
            Look::Entering(mut entering) => {
                let entered = if woken.is_ready(slot) && entering.advance() {
                    entering.finish()
                } else if let Some(error) = entering.fault(Instant::now()) {
                    entering.give_up(error)
                } else {
                    readiness.look = Look::Entering(entering);
                    return;
                };
                let Entered { outcome, leftovers } = entered;
                self.execs.reap_later(leftovers);
                match outcome {
                    Ok(child) => readiness.look = Look::Running(child),
                    Err(error) => self.looked(Some(error.message)),
                }
            }
            Look::Running(mut child) => match child.try_reap() {
                Ok(None) => readiness.look = Look::Running(child),
                Ok(Some(observed)) => {
                    let fault = readiness.fault(observed);
                    self.looked(fault);
                }
                Err(error) => self.looked(Some(format!("the probe cannot be waited for: {error}"))),
            },
        }
    }

    /// A look is over.
    fn looked(&mut self, fault: Option<String>) {
        let Some(readiness) = &mut self.readiness else { return };
        if fault.is_some() {
            readiness.answer = fault;
            let pause = Duration::from_millis(readiness.ready.interval_ms);
            return self.timers.set_in(Timer::Probe, pause);
        }
        self.readiness = None;
        self.timers.set(Timer::NotReady, None);
        self.append(EventData::Ready);
        hook::point("keeper.ready.after_journal").ok();
    }

    /// Time is over.
    pub(super) fn is_not_ready(&mut self) {
        let Some(readiness) = &self.readiness else { return };
        if self.ladder.is_ending() {
            return;
        }
        let answer = readiness.answer.as_deref().unwrap_or("the probe has not answered");
        let limit = readiness.ready.timeout_ms;
        self.not_ready = Some(format!("it was not ready within {limit} ms: {answer}"));
        self.climb(Occurrence::NotReady { grace: self.grace });
    }

    /// The box is being ended: nobody looks any more.
    pub(super) fn probe_no_more(&mut self) {
        self.timers.set(Timer::Probe, None);
        self.timers.set(Timer::NotReady, None);
        let look = self.readiness.take().map(|readiness| readiness.look);
        let leftovers = match look {
            None | Some(Look::None) => return,
            Some(Look::Entering(entering)) => {
                let why = std::io::Error::other("the box is being ended");
                let entered = entering.give_up(BirthError::new("execute the program", &why));
                entered.leftovers
            }
            Some(Look::Running(child)) => {
                child.signal(Signal::KILL).ok();
                vec![child]
            }
        };
        self.execs.reap_later(leftovers);
    }
}
