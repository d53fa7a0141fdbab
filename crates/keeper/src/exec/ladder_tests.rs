#![expect(clippy::disallowed_methods, reason = "tests stand in for linux's wait")]

use minimal_proto::ending::WaitOutcome;
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const STOP: Occurrence = Occurrence::Stop { force: false, grace: SECOND };
const FORCE: Occurrence = Occurrence::Stop { force: true, grace: SECOND };
const TIMEOUT: Occurrence = Occurrence::Timeout { grace: SECOND };
const LOST: Occurrence = Occurrence::ClientLost { grace: SECOND };

fn exited(code: u8) -> Occurrence {
    Occurrence::Ended(Observed::from_wait(WaitOutcome::Exited(code)))
}

fn killed(signal: Signal) -> Occurrence {
    Occurrence::Ended(Observed::from_wait(WaitOutcome::Killed(signal)))
}

fn reason(occurrences: &[Occurrence]) -> Reason {
    let mut ladder = Ladder::new();
    let now = Instant::now();
    for occurrence in occurrences {
        ladder.handle(*occurrence, now);
    }
    ladder.end().expect("it has ended").0
}

#[test]
fn the_reason_is_ours_only_if_we_signalled_first() {
    let empty = Occurrence::GroupEmpty;
    assert_eq!(reason(&[exited(3)]), Reason::Exit);
    assert_eq!(reason(&[exited(3), STOP]), Reason::Exit);
    assert_eq!(reason(&[exited(3), Occurrence::BoxEnds]), Reason::Exit, "it had ended by itself");
    assert_eq!(reason(&[killed(Signal::from_number(11).unwrap())]), Reason::Signal);
    assert_eq!(reason(&[STOP, killed(Signal::TERM), empty]), Reason::Stopped);
    assert_eq!(reason(&[TIMEOUT, STOP, exited(0), empty]), Reason::Timeout);
    assert_eq!(reason(&[LOST, TIMEOUT, exited(0), empty]), Reason::ClientLost);
    assert_eq!(reason(&[Occurrence::BoxEnds, exited(7)]), Reason::BoxEnded);
    assert_eq!(reason(&[STOP, Occurrence::BoxEnds, exited(7)]), Reason::Stopped);
    assert_eq!(reason(&[FORCE, killed(Signal::KILL)]), Reason::Stopped);
    assert_eq!(reason(&[Occurrence::OomKill, killed(Signal::KILL)]), Reason::Oom);
    assert_eq!(
        reason(&[Occurrence::KillSent, Occurrence::OomKill, killed(Signal::KILL)]),
        Reason::Signal
    );
}

#[test]
fn the_group_of_one_that_was_stopped_gets_its_grace_and_then_kill() {
    let mut ladder = Ladder::new();
    let now = Instant::now();
    assert_eq!(ladder.handle(STOP, now), [Order::TermGroup]);
    assert_eq!(ladder.handle(killed(Signal::TERM), now), []);
    assert!(ladder.waits_for_group());
    assert_eq!(ladder.end(), None, "its process is not reaped while its group may be signalled");
    assert_eq!(ladder.deadline(), Some(now + SECOND));
    assert_eq!(ladder.handle(Occurrence::DeadlineReached, now), [Order::KillGroup, Order::Reap]);
    assert!(ladder.end().is_some());
}

#[test]
fn what_one_that_returned_left_running_stays() {
    let mut ladder = Ladder::new();
    let now = Instant::now();
    assert_eq!(ladder.handle(exited(0), now), [Order::Reap]);
    assert_eq!(ladder.handle(STOP, now), []);
    assert_eq!(ladder.deadline(), None);
}

#[test]
fn the_box_ends_who_is_left_when_it_ends() {
    let mut ladder = Ladder::new();
    let now = Instant::now();
    ladder.handle(STOP, now);
    ladder.handle(killed(Signal::TERM), now);
    assert_eq!(ladder.handle(Occurrence::BoxEnds, now), [Order::Reap]);
}

fn occurrence() -> impl Strategy<Value = Occurrence> {
    let grace = || (0u64..20_000).prop_map(Duration::from_millis);
    prop_oneof![
        (any::<bool>(), grace()).prop_map(|(force, grace)| Occurrence::Stop { force, grace }),
        grace().prop_map(|grace| Occurrence::Timeout { grace }),
        grace().prop_map(|grace| Occurrence::ClientLost { grace }),
        Just(Occurrence::BoxEnds),
        Just(Occurrence::KillSent),
        Just(Occurrence::OomKill),
        any::<u8>().prop_map(exited),
        Just(Occurrence::GroupEmpty),
        Just(Occurrence::DeadlineReached),
    ]
}

proptest! {
    /// Whatever comes in whatever order: each signal goes at most once and never after the reaping,
    /// the end is the first that was observed under its first cause, and every wait has a limit.
    #[test]
    fn any_order_of_events_keeps_the_promises(
        events in proptest::collection::vec(occurrence(), 0..16),
    ) {
        let mut ladder = Ladder::new();
        let now = Instant::now();
        let (mut cause, mut end, mut orders) = (None, None, Vec::new());
        for event in events {
            if end.is_none() {
                let by = match event {
                    Occurrence::Stop { .. } => Some(Reason::Stopped),
                    Occurrence::Timeout { .. } => Some(Reason::Timeout),
                    Occurrence::ClientLost { .. } => Some(Reason::ClientLost),
                    Occurrence::BoxEnds => Some(Reason::BoxEnded),
                    _ => None,
                };
                cause = cause.or(by);
                if let Occurrence::Ended(observed) = event {
                    end = Some((cause.unwrap_or(Reason::Exit), observed));
                }
            }
            let due = event == Occurrence::DeadlineReached;
            if due && ladder.deadline().is_none() {
                continue;
            }
            for order in ladder.handle(event, now) {
                prop_assert!(!orders.contains(&Order::Reap), "{order:?} after the reaping");
                if order != Order::ReportStuck {
                    prop_assert!(!orders.contains(&order), "{order:?} twice");
                }
                orders.push(order);
            }
            prop_assert_eq!(ladder.end().is_some(), orders.contains(&Order::Reap));
            if let Some(told) = ladder.end() {
                prop_assert_eq!(Some(told), end);
            }
            if ladder.waits_for_group() {
                prop_assert!(ladder.deadline().is_some(), "the group is waited for without a limit");
            }
        }
    }
}
