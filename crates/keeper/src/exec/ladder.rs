//! How an exec is brought to its end: which signal goes to its process group when, and what the end
//! is called. The box is left alone.
//!
//! ```text
//!          Stop, Timeout, ClientLost: TERM to its group        grace over: KILL
//!  running ────────────────────────────────────────▶ stopping ─────────────────▶ killed
//!     │                                                 │                          │
//!     │ its process ended                               │ its process ended        │ its process ended
//!     ▼                                                 ▼                          ▼
//!   reap ◀──────────────── nobody else in the group, or grace over: KILL ─────▶ reap
//! ```
//!
//! A group's number is free for another once its leader is reaped, so the leader stays unreaped while
//! its group is signalled. Pure: time comes in with each event, signals go out as [`Order`]s.

use std::time::{Duration, Instant};

use minimal_proto::ending::Observed;
use minimal_proto::{Reason, Signal};

use crate::ladder::KILL_LIMIT;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occurrence {
    /// Someone asked for the end.
    Stop {
        /// Without TERM and grace.
        force: bool,
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// Its own time is over.
    Timeout {
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// Its client is gone for good.
    ClientLost {
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// Everything in the box was signalled, because the box ends.
    BoxEnds,
    /// We have sent KILL because somebody wanted that.
    KillSent,
    /// The kernel has killed something in the box because memory ran out, since this was started.
    /// Told before the end is.
    OomKill,
    /// The kernel said how its process ended, which is not reaped yet.
    Ended(Observed),
    /// Nobody but its ended process is left in its group.
    GroupEmpty,
    /// The time of [`Ladder::deadline`] has come.
    DeadlineReached,
}

/// What must be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// TERM to its process group.
    TermGroup,
    /// KILL to its process group.
    KillGroup,
    /// Reap its process. Its group is not signalled any more.
    Reap,
    /// Say that what was killed has not ended. There is nothing stronger than KILL.
    ReportStuck,
}

/// How far we have gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Ground,
    Termed,
    Killed,
}

/// The state of an end.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one exec")]
pub(crate) struct Ladder {
    /// Why it was signalled first, if that was before its end was seen.
    cause: Option<Reason>,
    rung: Rung,
    box_ends: bool,
    kill_sent: bool,
    oom_kill: bool,
    deadline: Option<Instant>,
    end: Option<(Reason, Observed)>,
    reaped: bool,
}

impl Default for Ladder {
    fn default() -> Self {
        Self::new()
    }
}

impl Ladder {
    /// An exec that runs.
    #[must_use]
    pub(crate) const fn new() -> Self {
        Self {
            cause: None,
            rung: Rung::Ground,
            box_ends: false,
            kill_sent: false,
            oom_kill: false,
            deadline: None,
            end: None,
            reaped: false,
        }
    }

    /// When [`Occurrence::DeadlineReached`] is due.
    #[must_use]
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether its process has ended and others of its group are waited for.
    #[must_use]
    pub(crate) const fn waits_for_group(&self) -> bool {
        self.end.is_some() && !self.reaped
    }

    /// Reason and status, once its process may be reaped.
    #[must_use]
    pub(crate) fn end(&self) -> Option<(Reason, Observed)> {
        self.end.filter(|_| self.reaped)
    }

    /// Takes note of what happened and says what to do.
    pub(crate) fn handle(&mut self, occurrence: Occurrence, now: Instant) -> Vec<Order> {
        match occurrence {
            Occurrence::Stop { force, grace } => {
                self.bring_down(Reason::Stopped, force, grace, now)
            }
            Occurrence::Timeout { grace } => self.bring_down(Reason::Timeout, false, grace, now),
            Occurrence::ClientLost { grace } => {
                self.bring_down(Reason::ClientLost, false, grace, now)
            }
            Occurrence::BoxEnds => {
                self.box_ends = true;
                if self.end.is_none() {
                    self.cause.get_or_insert(Reason::BoxEnded);
                }
                // Whoever is left is the box's to end.
                self.reap_if_ended()
            }
            Occurrence::KillSent => {
                self.kill_sent = true;
                Vec::new()
            }
            Occurrence::OomKill => {
                self.oom_kill = true;
                Vec::new()
            }
            Occurrence::Ended(observed) => self.has_ended(observed),
            Occurrence::GroupEmpty => self.reap_if_ended(),
            Occurrence::DeadlineReached => {
                self.deadline = None;
                if self.rung == Rung::Killed { vec![Order::ReportStuck] } else { self.kill(now) }
            }
        }
    }

    fn bring_down(
        &mut self,
        cause: Reason,
        force: bool,
        grace: Duration,
        now: Instant,
    ) -> Vec<Order> {
        if self.reaped {
            return Vec::new();
        }
        if self.end.is_none() {
            self.cause.get_or_insert(cause);
        }
        if force {
            return self.kill(now);
        }
        // The sooner of what was expected before and this. A grace beyond the clock is none.
        let by = now.checked_add(grace);
        if self.rung != Rung::Killed {
            self.deadline = match (self.deadline, by) {
                (Some(before), Some(by)) => Some(before.min(by)),
                (before, by) => before.or(by),
            };
        }
        // Once only: a second TERM means "at once" to many programs.
        if self.rung != Rung::Ground {
            return Vec::new();
        }
        self.rung = Rung::Termed;
        vec![Order::TermGroup]
    }

    fn has_ended(&mut self, observed: Observed) -> Vec<Order> {
        if self.end.is_some() {
            return Vec::new();
        }
        let reason = self.cause.unwrap_or_else(|| self.own_reason(observed));
        self.end = Some((reason, observed));
        // What it leaves running stays, unless its group was to end.
        if self.rung == Rung::Termed && !self.box_ends { Vec::new() } else { self.reap_if_ended() }
    }

    /// What an end is called that we did not bring about.
    fn own_reason(&self, observed: Observed) -> Reason {
        match observed {
            Observed::Exit(_) => Reason::Exit,
            // As for a box: the kernel counts how many it killed for memory, not whom.
            Observed::Signal(by)
                if by.signal() == Signal::KILL && self.oom_kill && !self.kill_sent =>
            {
                Reason::Oom
            }
            Observed::Signal(_) => Reason::Signal,
        }
    }

    fn kill(&mut self, now: Instant) -> Vec<Order> {
        if self.reaped || self.rung == Rung::Killed {
            return Vec::new();
        }
        self.rung = Rung::Killed;
        self.deadline = now.checked_add(KILL_LIMIT);
        let mut orders = vec![Order::KillGroup];
        orders.extend(self.reap_if_ended());
        orders
    }

    fn reap_if_ended(&mut self) -> Vec<Order> {
        if self.end.is_none() || self.reaped {
            return Vec::new();
        }
        self.reaped = true;
        self.deadline = None;
        vec![Order::Reap]
    }
}

#[cfg(test)]
#[path = "ladder_tests.rs"]
mod tests;
