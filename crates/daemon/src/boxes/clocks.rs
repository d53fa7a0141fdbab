//! When to ask a keeper whether it is there, and when to say that it is not. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// How long a keeper may take for an answer. It must show within 3 s that it does not respond, and
/// a second of those may pass before it is asked.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// How long after its last sign of life a keeper is asked, where few boxes run.
const QUIET: Duration = Duration::from_secs(1);

/// How many keepers are asked in a second, at most: with many boxes each is asked less often,
/// so that idle ones do not add up. (A question wakes two processes, about 30 µs.)
const ASKED_PER_SECOND: u32 = 100;

/// The pace at which silent keepers are asked, for a number of live boxes.
pub(crate) fn pace(live: usize) -> Duration {
    let live = u32::try_from(live).unwrap_or(u32::MAX);
    QUIET * (live / ASKED_PER_SECOND).max(1)
}

/// What is known of a keeper's being there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pulse {
    heard: Instant,
    question: Question,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    None,
    /// Asked then, and not answered.
    Open(Instant),
    /// Not answered in time; still open, so that its answer ends the silence.
    Overdue,
}

impl Pulse {
    pub(crate) fn new(now: Instant) -> Self {
        Self { heard: now, question: Question::None }
    }

    /// It said something.
    pub(crate) fn heard(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// Whether to ask it now; then it counts as asked. Not while a question is open.
    pub(crate) fn should_ask(&mut self, now: Instant, silence: Duration) -> bool {
        let due = self.question == Question::None && now.duration_since(self.heard) >= silence;
        if due {
            self.question = Question::Open(now);
        }
        due
    }

    /// Whether it has just become too late for its answer. Says so once.
    pub(crate) fn falls_silent(&mut self, now: Instant) -> bool {
        let late = matches!(self.question, Question::Open(asked)
            if now.duration_since(asked) >= ANSWER_LIMIT);
        if late {
            self.question = Question::Overdue;
        }
        late
    }

    /// Whether it has not answered in time.
    pub(crate) fn is_silent(&self) -> bool {
        self.question == Question::Overdue
    }

    /// When to look again; never, while it is silent, nor if it is to be asked at no `pace`.
    pub(crate) fn next(&self, pace: Option<Duration>) -> Option<Instant> {
        match self.question {
            Question::None => pace.map(|pace| self.heard + pace),
            Question::Open(asked) => Some(asked + ANSWER_LIMIT),
            Question::Overdue => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_noticed_within_three_seconds_and_forgiven_at_a_word() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pulse = Pulse::new(start);
        assert!(!pulse.should_ask(at(999), pace(1)));
        assert_eq!(pulse.next(Some(pace(1))), Some(at(1_000)));
        assert!(pulse.should_ask(at(1_000), pace(1)));
        assert!(!pulse.should_ask(at(1_500), Duration::ZERO), "one question at a time");
        assert!(!pulse.falls_silent(at(2_999)));
        assert_eq!(pulse.next(Some(pace(1))), Some(at(3_000)));
        assert!(pulse.falls_silent(at(3_000)));
        assert!(!pulse.falls_silent(at(3_001)) && pulse.is_silent(), "it is said once");
        assert_eq!(pulse.next(Some(pace(1))), None);
        pulse.heard(at(3_100));
        assert!(!pulse.is_silent());
    }

    #[test]
    fn many_boxes_are_asked_less_often() {
        assert_eq!(pace(0), QUIET);
        assert_eq!(pace(150), QUIET);
        assert_eq!(pace(1_000), QUIET * 10);
    }
}
