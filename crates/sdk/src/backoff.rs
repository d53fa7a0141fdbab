//! When to try again, and when to give up.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// How long, and how often, a lost connection is sought again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The first pause. Each next one is twice as long.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
    /// How long to go on without progress.
    pub total: Duration,
}

impl Default for RetryPolicy {
    /// As the API promises: 60 s without progress. The first pause is about what a daemon needs to
    /// start; the longest is what a person is ready to wait after the daemon is back.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(10),
            longest: Duration::from_secs(2),
            total: Duration::from_secs(60),
        }
    }
}

/// A connection that lasted this long was progress even if nothing was said on it: a box may be
/// quiet for days.
const LASTING: Duration = Duration::from_secs(10);

/// Counts the time without progress.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: RetryPolicy,
    lost_since: Option<Instant>,
    pause: Duration,
}

impl Backoff {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, lost_since: None, pause: policy.first }
    }

    /// Something new was learned: the time begins again at the next loss.
    pub(crate) fn progress(&mut self) {
        self.lost_since = None;
        self.pause = self.policy.first;
    }

    /// A connection that stood since `connected` is gone.
    pub(crate) fn lost(&mut self, connected: Instant) {
        if connected.elapsed() >= LASTING {
            self.progress();
        }
    }

    /// For how long there has been no progress.
    pub(crate) fn since_loss(&self) -> Duration {
        self.lost_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits before the next attempt. `false`: the time is used up.
    pub(crate) async fn pause(&mut self) -> bool {
        let lost_since = *self.lost_since.get_or_insert_with(Instant::now);
        let left = self.policy.total.saturating_sub(lost_since.elapsed());
        if left.is_zero() {
            return false;
        }
        let pause = jittered(self.pause).min(left);
        self.pause = (self.pause * 2).min(self.policy.longest);
        tokio::time::sleep(pause).await;
        true
    }
}

/// Between half of it and all of it, so that many clients of one daemon do not come at once.
fn jittered(pause: Duration) -> Duration {
    // The standard library's hasher is seeded by the operating system.
    let random = RandomState::new().build_hasher().finish();
    let share = u32::try_from(random % 1000).expect("below a thousand");
    pause / 2 + pause / 2000 * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_gives_up_after_the_total_and_begins_again_after_progress() {
        let policy = RetryPolicy::default();
        let mut backoff = Backoff::new(policy);
        let start = Instant::now();
        while backoff.pause().await {}
        assert!(start.elapsed() >= policy.total && start.elapsed() < policy.total * 2);
        backoff.progress();
        assert!(backoff.pause().await);
    }

    #[test]
    fn jitter_stays_between_half_and_all() {
        let pause = Duration::from_millis(100);
        for _ in 0..1000 {
            assert!((pause / 2..=pause).contains(&jittered(pause)));
        }
    }
}
