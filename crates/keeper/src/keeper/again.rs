//! The entrypoint of a box that lives on: its return, and its start once more.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use minimal_proto::ending::Observed;
use minimal_proto::event::Restarted;
use minimal_proto::{Ending, EventData, Reason, Timestamp};
use minimal_store::hook;
use rustix::event::PollFlags;

use super::Keeper;
use crate::birth::{Again, BirthError, Entered, Entering};
use crate::ladder::Occurrence;
use crate::restarts::{Restarts, Verdict};
use crate::timers::Timer;
use crate::watch::{Slot, Watch, Woken};

/// An entrypoint that may be executed again.
#[derive(Debug)]
pub(super) struct Restarting {
    again: Again,
    restarts: Restarts,
    /// When it was executed last.
    began: Instant,
    /// It is on its way in.
    entering: Option<Entering>,
}

impl Restarting {
    /// One that was just executed for the first time.
    pub(super) fn new(again: Again, restarts: Restarts) -> Self {
        Self { again, restarts, began: Instant::now(), entering: None }
    }

    pub(super) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) -> Option<Slot> {
        self.entering.as_ref().map(|entering| watch.add(entering.as_fd(), PollFlags::IN))
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.entering.as_ref().map(Entering::due)
    }
}

impl Keeper<'_> {
    /// The entrypoint has returned, and the box lives on.
    pub(super) fn has_returned(&mut self, reason: Reason, observed: Observed) {
        let ending = Ending::observed(reason, observed, Timestamp::now());
        let succeeded = ending.exit_code() == Some(0);
        self.append(EventData::EntrypointReturned(ending));
        hook::point("keeper.returned.after_journal").ok();
        let ran = self.restarting.as_ref().map(|it| it.began.elapsed());
        if let Some(ran) = ran {
            self.judge(succeeded, ran);
        }
    }

    fn judge(&mut self, succeeded: bool, ran: Duration) {
        let Some(restarting) = &mut self.restarting else { return };
        match restarting.restarts.returned(succeeded, ran) {
            Verdict::Stay => {}
            Verdict::After(pause) => self.timers.set_in(Timer::Restart, pause),
            Verdict::UsedUp => {
                self.not_ready = Some("the entrypoint was started again as often as it may".into());
                self.climb(Occurrence::NotReady { grace: self.grace });
            }
        }
    }

    /// The pause is over.
    pub(super) fn restart(&mut self) {
        if self.ladder.is_ending() {
            return;
        }
        let (Some(restarting), Some(init)) = (&mut self.restarting, &self.init) else { return };
        let entering = hook::point("keeper.restart.before_enter")
            .map_err(|error| BirthError::new("enter the box", &error))
            .and_then(|()| restarting.again.enter(&self.execs.way_in, init, &self.hosted.cgroups));
        match entering {
            Ok(entering) => restarting.entering = Some(entering),
            Err(error) => self.could_not_restart(&error),
        }
    }

    /// Takes note of what has become of who is on the way in.
    pub(super) fn follow_restart(&mut self, woken: &Woken, slot: Option<Slot>) {
        let Some(Restarting { entering: at, .. }) = &mut self.restarting else { return };
        let Some(mut entering) = at.take() else { return };
        let entered = if woken.is_ready(slot) && entering.advance() {
            entering.finish()
        } else if let Some(error) = entering.fault(Instant::now()) {
            entering.give_up(error)
        } else {
            *at = Some(entering);
            return;
        };
        let Entered { outcome, leftovers } = entered;
        self.execs.reap_later(leftovers);
        match outcome {
            Ok(entrypoint) => {
                self.entrypoint = Some(entrypoint);
                self.climb(Occurrence::EntrypointStarted);
                let Some(restarting) = &mut self.restarting else { return };
                restarting.began = Instant::now();
                let restarts = restarting.restarts.restarted();
                self.append(EventData::Restarted(Restarted { restarts }));
                hook::point("keeper.restart.after_journal").ok();
            }
            Err(error) => self.could_not_restart(&error),
        }
    }

    fn could_not_restart(&mut self, error: &BirthError) {
        self.degraded(&format!("the entrypoint was not started again: {}", error.message));
        self.judge(false, Duration::ZERO);
    }

    /// The box is being ended: who is on the way in is not to begin now.
    pub(super) fn restart_no_more(&mut self) {
        self.timers.set(Timer::Restart, None);
        let entering = self.restarting.as_mut().and_then(|it| it.entering.take());
        if let Some(entering) = entering {
            let why = std::io::Error::other("the box is being ended");
            let entered = entering.give_up(BirthError::new("execute the program", &why));
            self.execs.reap_later(entered.leftovers);
        }
    }
}
