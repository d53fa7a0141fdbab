//! How a box is brought to its end: which signal goes when, and what the end is called.
//!
//! ```text
//!            Stop, Timeout: TERM to all            grace over: KILL
//!  running ───────────────────────────▶ stopping ─────────────────▶ killed
//!     │                                     │                          │
//!     └── entrypoint ended: TERM to the rest, 2 s, KILL ◀──────────────┘
//!                              │
//!                              ▼
//!                 init ended: nothing is left in the box
//! ```
//!
//! A box that lives until it is stopped stays on the ground when its entrypoint returns, which may then
//! run again; a box without one has none to wait for. Such a box ends by a stop or a limit, and what
//! its entrypoint returned last goes into the ending. Without that, what the kernel says of init does:
//! it is the one process that such a box is sure to have.
//!
//! Pure: time comes in with each event, signals go out as [`Order`]s.

use std::time::{Duration, Instant};

use minimal_proto::ending::Observed;
use minimal_proto::{Reason, Signal};

/// How long the kernel may take to end what was killed before that is worth a word: only a process
/// that waits for a dead device or network mount takes longer.
pub const KILL_LIMIT: Duration = Duration::from_secs(10);

/// How long what the entrypoint left behind may take to heed TERM.
pub const REST_GRACE: Duration = Duration::from_secs(2);

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// Someone asked for the end.
    Stop {
        /// Without TERM and grace.
        force: bool,
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// The box's own time is over.
    Timeout {
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// It is not ready in time, or its restarts are used up.
    NotReady {
        /// Between TERM and KILL.
        grace: Duration,
    },
    /// The entrypoint runs again.
    EntrypointStarted,
    /// We have sent KILL to the entrypoint because somebody wanted that.
    KillSent,
    /// The kernel has killed something in the box because memory ran out. Told before the
    /// entrypoint's end is.
    OomKill,
    /// The kernel said how the entrypoint ended.
    EntrypointEnded(Observed),
    /// The time of [`Ladder::deadline`] has come.
    DeadlineReached,
    /// The kernel said how init has ended, and with it everything in the box.
    InitEnded(Observed),
}

/// What must be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// TERM to every process of the box but init.
    TermAll,
    /// Let init end as soon as it has no children: the entrypoint is reaped.
    EndWhenEmpty,
    /// Take note of how the entrypoint returned: the box lives on.
    NoteReturn(Reason, Observed),
    /// KILL init, and so everything.
    KillAll,
    /// Say that what was killed has not ended. There is nothing stronger than KILL.
    ReportStuck,
    /// Say that something in the box was killed for memory, but not the entrypoint.
    ReportOomKill,
}

/// How far we have gone with the whole box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rung {
    Ground,
    Termed,
    Killed,
}

/// The state of an end.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own that was seen")]
pub struct Ladder {
    /// Whether the box outlives its entrypoint.
    stays: bool,
    /// Whether an entrypoint is to be waited for.
    runs: bool,
    /// What it returned last, in a box that lives on.
    returned: Option<Observed>,
    /// Why we signalled first, if we did before the entrypoint's end was seen.
    cause: Option<Reason>,
    rung: Rung,
    /// KILL to the entrypoint, because somebody wanted that.
    kill_sent: bool,
    oom_kill: bool,
    deadline: Option<Instant>,
    /// The end of the box, but for what is left in it.
    end: Option<(Reason, Observed)>,
    /// Whether the status of that is init's.
    of_init: bool,
    init_ended: bool,
}

impl Ladder {
    /// A box that runs until its entrypoint returns.
    #[must_use]
    pub const fn until_complete() -> Self {
        Self::new(false, true)
    }

    /// A box that runs until it is stopped, with an entrypoint or without.
    #[must_use]
    pub const fn until_stopped(has_entrypoint: bool) -> Self {
        Self::new(true, has_entrypoint)
    }

    const fn new(stays: bool, runs: bool) -> Self {
        Self {
            stays,
            runs,
            returned: None,
            cause: None,
            rung: Rung::Ground,
            kill_sent: false,
            oom_kill: false,
            deadline: None,
            end: None,
            of_init: false,
            init_ended: false,
        }
    }

    /// When [`Occurrence::DeadlineReached`] is due.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether the box ends by what its entrypoint has returned: a stop would change nothing.
    #[must_use]
    pub const fn entrypoint_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether the box is being brought to its end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.cause.is_some() || self.end.is_some() || self.rung != Rung::Ground || self.init_ended
    }

    /// Whether the status of [`Ladder::end`] is init's, since there is none of an entrypoint.
    #[must_use]
    pub const fn is_of_init(&self) -> bool {
        self.of_init
    }

    /// Reason and status, once nothing is left in the box.
    #[must_use]
    pub fn end(&self) -> Option<(Reason, Observed)> {
        if self.init_ended { self.end } else { None }
    }

    /// Takes note of what happened and says what to do.
    pub fn handle(&mut self, occurrence: Occurrence, now: Instant) -> Vec<Order> {
        match occurrence {
            Occurrence::Stop { force, grace } => {
                self.bring_down(Reason::Stopped, force, grace, now)
            }
            Occurrence::Timeout { grace } => self.bring_down(Reason::Timeout, false, grace, now),
            Occurrence::NotReady { grace } => self.bring_down(Reason::NotReady, false, grace, now),
            Occurrence::EntrypointStarted => {
                self.runs = true;
                Vec::new()
            }
            Occurrence::KillSent => {
                self.kill_sent = true;
                Vec::new()
            }
            Occurrence::OomKill => {
                self.oom_kill = true;
                Vec::new()
            }
            Occurrence::EntrypointEnded(observed) => self.entrypoint_has_ended(observed, now),
            Occurrence::DeadlineReached => {
                self.deadline = None;
                if self.is_killed() { vec![Order::ReportStuck] } else { self.kill(now) }
            }
            Occurrence::InitEnded(observed) => {
                self.init_ended = true;
                self.deadline = None;
                if self.end.is_none() && !self.runs {
                    let returned = self.returned.filter(|_| self.cause.is_some());
                    self.of_init = returned.is_none();
                    let observed = returned.unwrap_or(observed);
                    let reason = self.cause.unwrap_or_else(|| self.own_reason(observed));
                    self.end = Some((reason, observed));
                }
                Vec::new()
            }
        }
    }

    fn is_killed(&self) -> bool {
        self.rung == Rung::Killed
    }

    fn bring_down(
        &mut self,
        cause: Reason,
        force: bool,
        grace: Duration,
        now: Instant,
    ) -> Vec<Order> {
        if self.init_ended {
            return Vec::new();
        }
        // After the entrypoint's own end only the hurry counts: the reason is the entrypoint's.
        if self.end.is_none() && self.cause.is_none() {
            self.cause = Some(cause);
        }
        if force {
            return self.kill(now);
        }
        self.expect_end_by(now.checked_add(grace));
        let mut orders = self.term();
        // Nobody's return is waited for.
        if !self.runs && !orders.is_empty() {
            orders.push(Order::EndWhenEmpty);
        }
        orders
    }

    fn entrypoint_has_ended(&mut self, observed: Observed, now: Instant) -> Vec<Order> {
        let reason = self.cause.unwrap_or_else(|| self.own_reason(observed));
        self.runs = false;
        let mut orders = Vec::new();
        if self.oom_kill && reason != Reason::Oom {
            orders.push(Order::ReportOomKill);
        }
        if self.stays && !self.is_ending() {
            self.returned = Some(observed);
            // They were about this run.
            (self.oom_kill, self.kill_sent) = (false, false);
            orders.push(Order::NoteReturn(reason, observed));
            return orders;
        }
        self.end = Some((reason, observed));
        if self.init_ended || self.is_killed() {
            return orders;
        }
        self.expect_end_by(now.checked_add(REST_GRACE));
        orders.extend(self.term());
        orders.push(Order::EndWhenEmpty);
        orders
    }

    /// What an end is called that we did not bring about.
    fn own_reason(&self, observed: Observed) -> Reason {
        match observed {
            Observed::Exit(_) => Reason::Exit,
            // The kernel counts how many it killed for memory, not whom: a KILL that is not ours,
            // in a box where it has killed, is taken for one of those.
            Observed::Signal(by)
                if by.signal() == Signal::KILL
                    && self.oom_kill
                    && !self.kill_sent
                    && !self.is_killed() =>
            {
                Reason::Oom
            }
            Observed::Signal(_) => Reason::Signal,
        }
    }

    /// The sooner of what was expected before and this. A grace beyond the clock is none.
    fn expect_end_by(&mut self, by: Option<Instant>) {
        if !self.is_killed() {
            self.deadline = match (self.deadline, by) {
                (Some(before), Some(by)) => Some(before.min(by)),
                (before, by) => before.or(by),
            };
        }
    }

    fn term(&mut self) -> Vec<Order> {
        // Once only: a second TERM means "at once" to many servers.
        if self.rung != Rung::Ground {
            return Vec::new();
        }
        self.rung = Rung::Termed;
        vec![Order::TermAll]
    }

    fn kill(&mut self, now: Instant) -> Vec<Order> {
        if self.is_killed() || self.init_ended {
            return Vec::new();
        }
        self.rung = Rung::Killed;
        self.deadline = now.checked_add(KILL_LIMIT);
        vec![Order::KillAll]
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests stand in for linux's wait")]
mod tests {
    use minimal_proto::ending::WaitOutcome;
    use proptest::prelude::*;

    use super::*;

    fn exited(code: u8) -> Occurrence {
        Occurrence::EntrypointEnded(Observed::from_wait(WaitOutcome::Exited(code)))
    }

    fn killed(signal: Signal) -> Occurrence {
        Occurrence::EntrypointEnded(Observed::from_wait(WaitOutcome::Killed(signal)))
    }

    fn init_ended() -> Occurrence {
        Occurrence::InitEnded(Observed::from_wait(WaitOutcome::Exited(0)))
    }

    const SECOND: Duration = Duration::from_secs(1);
    const STOP: Occurrence = Occurrence::Stop { force: false, grace: Duration::from_secs(10) };
    const FORCE: Occurrence = Occurrence::Stop { force: true, grace: Duration::ZERO };

    fn reason(occurrences: &[Occurrence]) -> Reason {
        let mut ladder = Ladder::until_complete();
        let now = Instant::now();
        for occurrence in occurrences {
            ladder.handle(*occurrence, now);
        }
        ladder.end().expect("the box has ended").0
    }

    #[test]
    fn the_reason_is_ours_only_if_we_signalled_first() {
        let end = init_ended();
        assert_eq!(reason(&[exited(3), end]), Reason::Exit);
        assert_eq!(reason(&[killed(Signal::KILL), end]), Reason::Signal);
        assert_eq!(reason(&[STOP, killed(Signal::TERM), end]), Reason::Stopped);
        assert_eq!(reason(&[STOP, exited(0), end]), Reason::Stopped);
        assert_eq!(
            reason(&[exited(3), STOP, end]),
            Reason::Exit,
            "a stop on its way changes nothing"
        );
        let timeout = Occurrence::Timeout { grace: SECOND };
        assert_eq!(reason(&[timeout, STOP, exited(0), end]), Reason::Timeout);
        assert_eq!(reason(&[STOP, timeout, exited(0), end]), Reason::Stopped);
    }

    #[test]
    fn a_kill_for_memory_is_one_that_nobody_else_can_have_sent() {
        use Occurrence::{KillSent, OomKill};
        let end = init_ended();
        assert_eq!(reason(&[OomKill, killed(Signal::KILL), end]), Reason::Oom);
        assert_eq!(reason(&[KillSent, killed(Signal::KILL), end]), Reason::Signal);
        assert_eq!(reason(&[KillSent, OomKill, killed(Signal::KILL), end]), Reason::Signal);
        assert_eq!(reason(&[OomKill, killed(Signal::TERM), end]), Reason::Signal);
        // What a shell returns whose command was killed.
        assert_eq!(reason(&[OomKill, exited(137), end]), Reason::Exit);
        assert_eq!(reason(&[STOP, OomKill, killed(Signal::KILL), end]), Reason::Stopped);
        assert_eq!(reason(&[FORCE, OomKill, killed(Signal::KILL), end]), Reason::Stopped);
    }

    #[test]
    fn a_kill_for_memory_that_spared_the_entrypoint_is_said_once() {
        let count = |occurrences: &[Occurrence]| {
            let mut ladder = Ladder::until_complete();
            let now = Instant::now();
            let orders = occurrences.iter().flat_map(|it| ladder.handle(*it, now));
            orders.filter(|order| *order == Order::ReportOomKill).count()
        };
        let oom = Occurrence::OomKill;
        assert_eq!(count(&[oom, oom, exited(1), init_ended()]), 1);
        assert_eq!(count(&[FORCE, oom, killed(Signal::KILL), init_ended()]), 1);
        assert_eq!(count(&[oom, killed(Signal::KILL), init_ended()]), 0);
        assert_eq!(count(&[exited(1), init_ended()]), 0);
    }

    #[test]
    fn a_stop_terms_once_then_kills_when_the_grace_is_over() {
        let mut ladder = Ladder::until_complete();
        let now = Instant::now();
        assert_eq!(ladder.handle(STOP, now), [Order::TermAll]);
        assert_eq!(ladder.handle(STOP, now + SECOND), []);
        assert_eq!(ladder.deadline(), Some(now + 10 * SECOND), "a later stop does not prolong");
        assert_eq!(ladder.handle(Occurrence::DeadlineReached, now), [Order::KillAll]);
        assert_eq!(ladder.handle(FORCE, now), []);
        assert_eq!(ladder.end(), None, "nobody has seen the end yet");
    }

    #[test]
    fn the_rest_of_the_box_gets_two_seconds() {
        let mut ladder = Ladder::until_complete();
        let now = Instant::now();
        assert_eq!(ladder.handle(exited(0), now), [Order::TermAll, Order::EndWhenEmpty]);
        assert_eq!(ladder.deadline(), Some(now + REST_GRACE));
        assert_eq!(ladder.handle(Occurrence::DeadlineReached, now), [Order::KillAll]);
    }

    /// The ending of a box that lives until it is stopped.
    fn stays(has_entrypoint: bool, occurrences: &[Occurrence]) -> Option<(Reason, Observed)> {
        let mut ladder = Ladder::until_stopped(has_entrypoint);
        let now = Instant::now();
        for occurrence in occurrences {
            ladder.handle(*occurrence, now);
        }
        ladder.end()
    }

    #[test]
    fn a_box_that_stays_ends_by_request_with_what_its_entrypoint_returned() {
        let code = |code| Observed::from_wait(WaitOutcome::Exited(code));
        let end = init_ended();
        assert_eq!(stays(true, &[exited(3)]), None);
        assert_eq!(stays(true, &[exited(3), STOP, end]), Some((Reason::Stopped, code(3))));
        assert_eq!(stays(true, &[STOP, exited(4), end]), Some((Reason::Stopped, code(4))));
        let again = [exited(3), Occurrence::EntrypointStarted, STOP, exited(5), end];
        assert_eq!(stays(true, &again), Some((Reason::Stopped, code(5))));
        let timeout = Occurrence::Timeout { grace: SECOND };
        assert_eq!(stays(true, &[exited(3), timeout, end]), Some((Reason::Timeout, code(3))));
        let not_ready = Occurrence::NotReady { grace: SECOND };
        assert_eq!(stays(true, &[exited(9), not_ready, end]), Some((Reason::NotReady, code(9))));
        assert_eq!(stays(false, &[STOP, end]), Some((Reason::Stopped, code(0))));
    }

    #[test]
    fn a_box_that_stays_and_loses_its_init_ended_as_init_did() {
        let kill = Observed::from_wait(WaitOutcome::Killed(Signal::KILL));
        let end = Occurrence::InitEnded(kill);
        assert_eq!(stays(true, &[exited(3), end]), Some((Reason::Signal, kill)));
        assert_eq!(stays(false, &[end]), Some((Reason::Signal, kill)));
        assert_eq!(stays(false, &[Occurrence::OomKill, end]), Some((Reason::Oom, kill)));
        assert_eq!(stays(false, &[FORCE, end]), Some((Reason::Stopped, kill)));
    }

    #[test]
    fn a_return_is_noted_and_nothing_is_signalled_until_a_stop() {
        let mut ladder = Ladder::until_stopped(true);
        let now = Instant::now();
        let code = Observed::from_wait(WaitOutcome::Exited(0));
        assert_eq!(ladder.handle(exited(0), now), [Order::NoteReturn(Reason::Exit, code)]);
        assert_eq!((ladder.deadline(), ladder.is_ending()), (None, false));
        assert_eq!(ladder.handle(STOP, now), [Order::TermAll, Order::EndWhenEmpty]);
        assert_eq!(ladder.deadline(), Some(now + 10 * SECOND));
        let mut bare = Ladder::until_stopped(false);
        assert_eq!(bare.handle(STOP, now), [Order::TermAll, Order::EndWhenEmpty]);
        assert_eq!(bare.handle(STOP, now), []);
        assert_eq!(bare.handle(Occurrence::DeadlineReached, now), [Order::KillAll]);
    }

    #[test]
    fn a_return_for_memory_is_told_of_its_own_run_only() {
        use Occurrence::{EntrypointStarted, KillSent, OomKill};
        let mut ladder = Ladder::until_stopped(true);
        let now = Instant::now();
        let returned = |ladder: &mut Ladder, how| match ladder.handle(how, now)[..] {
            [.., Order::NoteReturn(reason, _)] => reason,
            _ => panic!("the box lives on"),
        };
        ladder.handle(OomKill, now);
        assert_eq!(returned(&mut ladder, killed(Signal::KILL)), Reason::Oom);
        ladder.handle(EntrypointStarted, now);
        assert_eq!(returned(&mut ladder, killed(Signal::KILL)), Reason::Signal);
        ladder.handle(EntrypointStarted, now);
        ladder.handle(KillSent, now);
        assert_eq!(returned(&mut ladder, killed(Signal::KILL)), Reason::Signal);
    }

    fn occurrence() -> impl Strategy<Value = Occurrence> {
        prop_oneof![
            (any::<bool>(), 0u64..20_000).prop_map(|(force, ms)| Occurrence::Stop {
                force,
                grace: Duration::from_millis(ms)
            }),
            (0u64..20_000).prop_map(|ms| Occurrence::Timeout { grace: Duration::from_millis(ms) }),
            any::<u8>().prop_map(exited),
            (1i32..=31).prop_map(|n| killed(Signal::from_number(n).unwrap())),
            Just(Occurrence::KillSent),
            Just(Occurrence::OomKill),
            Just(Occurrence::DeadlineReached),
        ]
    }

    proptest! {
        /// A model that knows only the order of things: who signalled first, and what came out.
        #[test]
        fn any_order_of_events_keeps_the_promises(
            before in proptest::collection::vec(occurrence(), 0..12),
            code: u8,
        ) {
            let mut ladder = Ladder::until_complete();
            let now = Instant::now();
            let mut first = None;
            let mut orders = Vec::new();
            // The kernel reports one end; drop the ones that proptest made up beyond it.
            let mut ended = false;
            let events = before
                .into_iter()
                .filter(|it| !matches!(it, Occurrence::EntrypointEnded(_)))
                .chain([exited(code)]);
            for event in events {
                if !ended && first.is_none() {
                    first = match event {
                        Occurrence::Stop { .. } => Some(Reason::Stopped),
                        Occurrence::Timeout { .. } => Some(Reason::Timeout),
                        Occurrence::EntrypointEnded(_) => Some(Reason::Exit),
                        Occurrence::KillSent
                        | Occurrence::OomKill
                        | Occurrence::DeadlineReached
                        | Occurrence::EntrypointStarted
                        | Occurrence::InitEnded(_) => None,
                        Occurrence::NotReady { .. } => Some(Reason::NotReady),
                    };
                }
                ended |= matches!(event, Occurrence::EntrypointEnded(_));
                orders.extend(ladder.handle(event, now));
                prop_assert_eq!(ladder.end(), None);
            }
            prop_assert!(
                ladder.deadline().is_some() || orders.contains(&Order::ReportStuck),
                "every end has a limit"
            );
            ladder.handle(init_ended(), now);
            let (reason, observed) = ladder.end().expect("both ends were seen");
            prop_assert_eq!(Some(reason), first);
            prop_assert_eq!(observed, Observed::from_wait(WaitOutcome::Exited(code)));
            let count = |wanted| orders.iter().filter(|order| **order == wanted).count();
            prop_assert!(count(Order::TermAll) <= 1);
            prop_assert!(count(Order::KillAll) <= 1);
        }
    }
}
