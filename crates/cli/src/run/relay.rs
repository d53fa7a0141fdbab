//! What becomes of a signal to the client. Pure: the loop carries it out.

use std::time::{Duration, Instant};

use minimal_proto::Signal;

/// Within this time a second request to end is one to stop the box.
const AGAIN: Duration = Duration::from_secs(3);

/// What to do about a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Send it to the command's process group.
    Relay,
    /// Stop the box.
    Stop,
    /// Kill the box.
    Kill,
}

/// The ladder of a person who wants an end: once, again, and once more.
///
/// ```text
/// idle ─INT/TERM▶ asked ─within 3 s▶ stopping ─▶ killing
///   ▲               │ later: asked anew
///   └───────────────┘
/// ```
#[derive(Debug, Default)]
pub(super) struct Relay {
    state: State,
    /// Whether an INT was passed on, or meant.
    interrupted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Asked(Instant),
    Stopping,
}

impl Relay {
    pub(super) fn act(&mut self, signal: Signal, now: Instant) -> Act {
        self.interrupted |= signal == Signal::INT;
        if signal != Signal::INT && signal != Signal::TERM {
            return Act::Relay;
        }
        let (state, act) = match self.state {
            State::Stopping => (State::Stopping, Act::Kill),
            State::Asked(before) if now.duration_since(before) < AGAIN => {
                (State::Stopping, Act::Stop)
            }
            State::Idle | State::Asked(_) => (State::Asked(now), Act::Relay),
        };
        self.state = state;
        act
    }

    /// Whether the client was sent INT.
    pub(super) fn was_interrupted(&self) -> bool {
        self.interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_stops_and_every_later_one_kills() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut relay = Relay::default();
        assert_eq!(relay.act(Signal::USR1, at(0)), Act::Relay);
        assert!(!relay.was_interrupted());
        assert_eq!(relay.act(Signal::INT, at(0)), Act::Relay);
        assert_eq!(relay.act(Signal::INT, at(4)), Act::Relay, "too late to be a second");
        assert_eq!(relay.act(Signal::QUIT, at(5)), Act::Relay);
        assert_eq!(relay.act(Signal::TERM, at(6)), Act::Stop);
        assert_eq!(relay.act(Signal::INT, at(60)), Act::Kill);
        assert_eq!(relay.act(Signal::TERM, at(61)), Act::Kill);
        assert!(relay.was_interrupted());
    }
}
