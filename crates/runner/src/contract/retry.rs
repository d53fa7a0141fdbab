//! Trying again what may succeed later.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use super::Answer;

/// How often and how fast to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// How often in all, at least once.
    pub attempts: u32,
    /// The longest pause after the first attempt; after each further one it is twice as long.
    pub base: Duration,
    /// The longest pause of all.
    pub max: Duration,
}

impl Default for Backoff {
    /// Three attempts, 250 ms, 2 s: the figures that users of the contract count on.
    fn default() -> Self {
        Self { attempts: 3, base: Duration::from_millis(250), max: Duration::from_secs(2) }
    }
}

impl Backoff {
    /// The longest pause after attempt `attempt`, counted from 1.
    #[must_use]
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1);
        // A shift that is too far is longer than any limit, not 0.
        let factor = 1_u32.checked_shl(doublings).filter(|factor| *factor != 0);
        factor.and_then(|factor| self.base.checked_mul(factor)).unwrap_or(self.max).min(self.max)
    }

    /// A pause between half of the ceiling and all of it.
    #[must_use]
    pub fn pause(&self, attempt: u32) -> Duration {
        let ceiling = self.ceiling(attempt);
        let random = RandomState::new().build_hasher().finish();
        let share = u32::try_from(random % 1000).expect("below a thousand");
        ceiling / 2 + ceiling / 2000 * share
    }
}

/// Calls again while the answer is an error that may pass; the last answer. Only for calls that may
/// be carried out twice: never for starting a command.
///
/// # Errors
/// The last answer's.
pub async fn with_backoff<T, F>(backoff: Backoff, mut call: impl FnMut() -> F) -> Answer<T>
where
    F: Future<Output = Answer<T>>,
{
    let mut attempt = 1;
    loop {
        match call().await {
            Err(error) if error.is_transient() && attempt < backoff.attempts => {
                tokio::time::sleep(backoff.pause(attempt)).await;
                attempt += 1;
            }
            answer => return answer,
        }
    }
}
