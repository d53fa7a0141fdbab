//! What a keeper waits for by time of the box as a whole, on the monotonic clock.

use std::time::{Duration, Instant};

/// A thing that becomes due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The box's own time is over.
    Timeout,
    /// The ladder's next rung.
    Ladder,
    /// The journal and directory go to disk, off the path to the first byte; and so the keeper's
    /// leaving of the box's control groups.
    Sync,
    /// The entrypoint is to be started again.
    Restart,
    /// Somebody is to look whether the box is ready.
    Probe,
    /// It is not ready in time.
    NotReady,
}

const COUNT: usize = 6;

/// Which are set.
#[derive(Debug, Default)]
pub(crate) struct Timers([Option<Instant>; COUNT]);

impl Timers {
    const ALL: [Timer; COUNT] =
        [Timer::Timeout, Timer::Ladder, Timer::Sync, Timer::Restart, Timer::Probe, Timer::NotReady];

    /// Sets or clears one. A time beyond the clock is never due.
    pub(crate) fn set(&mut self, timer: Timer, due: Option<Instant>) {
        self.0[timer as usize] = due;
    }

    /// Sets one from now on.
    pub(crate) fn set_in(&mut self, timer: Timer, delay: Duration) {
        self.set(timer, Instant::now().checked_add(delay));
    }

    /// When the next is due; none if nothing is set.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes one that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let timer = Self::ALL
            .into_iter()
            .find(|timer| self.0[*timer as usize].is_some_and(|due| due <= now))?;
        self.set(timer, None);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_taken_once() {
        let now = Instant::now();
        let mut timers = Timers::default();
        assert_eq!(timers.next(), None);
        timers.set(Timer::Ladder, Some(now + Duration::from_secs(2)));
        timers.set(Timer::Sync, Some(now + Duration::from_secs(1)));
        assert_eq!(timers.next(), Some(now + Duration::from_secs(1)));
        assert_eq!(timers.take_due(now), None);
        let later = now + Duration::from_secs(3);
        assert_eq!(timers.take_due(later), Some(Timer::Ladder));
        assert_eq!(timers.take_due(later), Some(Timer::Sync));
        assert_eq!(timers.take_due(later), None);
    }
}
