//! Waiting for a state of the world.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// When a wait gives up, unless the test says otherwise. Generous: a machine with two busy cores
/// may take seconds for what is milliseconds elsewhere, and only a failing test ever waits this long.
pub const LIMIT: Duration = Duration::from_secs(30);

/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Asks `look` until it answers `Ok`, and returns that.
///
/// It looks at a state, not for a change, so it cannot miss one that came early.
///
/// # Panics
/// If `limit` passes first: with `what`, and the last state seen.
#[track_caller]
pub fn wait_until<T, S: Debug>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, S>,
) -> T {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(1);
    loop {
        match look() {
            Ok(found) => return found,
            Err(state) if Instant::now() >= deadline => {
                panic!("waited {limit:?} until {what}; the last state was {state:?}")
            }
            Err(_) => nap(pause),
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// The one sleep of all tests.
#[expect(clippy::disallowed_methods, reason = "the pause between two looks at a state")]
pub(crate) fn nap(pause: Duration) {
    std::thread::sleep(pause);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_already_there_is_seen() {
        assert_eq!(wait_until("it is there", Duration::ZERO, || Ok::<_, ()>(7)), 7);
    }

    #[test]
    #[should_panic(expected = "the last state was \"still 3\"")]
    fn a_limit_reports_the_last_state() {
        wait_until("it changes", Duration::from_millis(3), || Err::<(), _>("still 3"));
    }
}
