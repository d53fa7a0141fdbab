//! Whether an entrypoint that returned is started again, and when.
//!
//! Pure: how it returned and how long it had run come in, what to do goes out.

use std::time::Duration;

use minimal_proto::spec::{Restart, RestartPolicy};

/// What is to be done about a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: the policy leaves it at that.
    Stay,
    /// Start it again after this pause.
    After(Duration),
    /// It has been started again as often in a row as it may.
    UsedUp,
}

/// How often it was started again, by which rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Restarts {
    rules: Restart,
    /// In a row.
    row: u32,
    /// In all.
    total: u32,
}

impl Restarts {
    /// None so far.
    pub(crate) const fn new(rules: Restart) -> Self {
        Self { rules, row: 0, total: 0 }
    }

    /// It returned, or could not be started, after it had run for so long.
    pub(crate) fn returned(&mut self, succeeded: bool, ran: Duration) -> Verdict {
        match self.rules.policy {
            RestartPolicy::Never => return Verdict::Stay,
            RestartPolicy::OnFailure if succeeded => return Verdict::Stay,
            RestartPolicy::OnFailure | RestartPolicy::Always => {}
        }
        let longest = Duration::from_millis(self.rules.backoff_max_ms);
        if ran > longest {
            self.row = 0;
        }
        if self.row >= self.rules.max {
            return Verdict::UsedUp;
        }
        // A factor beyond the clock is more than the longest pause.
        let factor = 1u64.checked_shl(self.row).unwrap_or(u64::MAX);
        let pause = Duration::from_millis(self.rules.backoff_ms.saturating_mul(factor));
        self.row += 1;
        Verdict::After(pause.min(longest))
    }

    /// It was started again. How often that makes.
    pub(crate) fn restarted(&mut self) -> u32 {
        self.total = self.total.saturating_add(1);
        self.total
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rules(policy: RestartPolicy, max: u32) -> Restart {
        Restart { policy, max, backoff_ms: 100, backoff_max_ms: 350 }
    }

    #[test]
    fn each_pause_is_twice_the_one_before_up_to_the_longest() {
        let mut restarts = Restarts::new(rules(RestartPolicy::Always, 4));
        let pauses: Vec<_> = (0..5).map(|_| restarts.returned(true, Duration::ZERO)).collect();
        let after = |ms| Verdict::After(Duration::from_millis(ms));
        assert_eq!(pauses, [after(100), after(200), after(350), after(350), Verdict::UsedUp]);
    }

    #[test]
    fn who_ran_for_long_begins_a_new_row() {
        let mut restarts = Restarts::new(rules(RestartPolicy::OnFailure, 1));
        let first = Verdict::After(Duration::from_millis(100));
        assert_eq!(restarts.returned(false, Duration::ZERO), first);
        assert_eq!(restarts.returned(false, Duration::from_millis(351)), first);
        assert_eq!(restarts.returned(false, Duration::from_millis(350)), Verdict::UsedUp);
    }

    proptest! {
        /// Whatever returns come: nothing is started again against the policy or more often in a row
        /// than it may, no pause is outside of the figures, and nobody is given up too early.
        #[test]
        fn the_rules_hold(
            policy in prop_oneof![
                Just(RestartPolicy::Never), Just(RestartPolicy::OnFailure), Just(RestartPolicy::Always),
            ],
            max in 1u32..100,
            backoff_ms in 1u64..u64::MAX,
            more in 0u64..u64::MAX,
            returns in proptest::collection::vec((any::<bool>(), any::<bool>()), 0..150),
        ) {
            let backoff_max_ms = backoff_ms.saturating_add(more);
            let rules = Restart { policy, max, backoff_ms, backoff_max_ms };
            let mut restarts = Restarts::new(rules);
            let mut row = 0;
            let longest = Duration::from_millis(backoff_max_ms);
            for (succeeded, long) in returns {
                let long = long && longest < Duration::MAX;
                let ran = if long { longest + Duration::from_nanos(1) } else { longest };
                let wanted = match policy {
                    RestartPolicy::Never => false,
                    RestartPolicy::OnFailure => !succeeded,
                    RestartPolicy::Always => true,
                };
                match restarts.returned(succeeded, ran) {
                    Verdict::Stay => prop_assert!(!wanted),
                    Verdict::After(pause) => {
                        prop_assert!(wanted);
                        row = if long { 1 } else { row + 1 };
                        prop_assert!(row <= max);
                        prop_assert!(pause >= Duration::from_millis(backoff_ms));
                        prop_assert!(pause <= longest);
                    }
                    Verdict::UsedUp => {
                        prop_assert!(wanted && !long);
                        prop_assert_eq!(row, max);
                    }
                }
            }
        }
    }
}
