//! Which of a writer's bytes are taken. Pure.

use minimal_proto::stream::INPUT_WINDOW;
use minimal_proto::{ErrorBody, ErrorCode};

/// What one connection has sent of a box's input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputGate {
    received: u64,
}

/// The client breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InputFault {
    /// Bytes were left out.
    #[error("input at {offset} came where {expected} was next")]
    Skips {
        /// Where the bytes belong.
        offset: u64,
        /// What should have come.
        expected: u64,
    },
    /// More than the window.
    #[error("input up to {end} was sent when only {accepted} was accepted")]
    Window {
        /// Where the bytes end.
        end: u64,
        /// What was accepted.
        accepted: u64,
    },
}

impl From<InputFault> for ErrorBody {
    fn from(fault: InputFault) -> Self {
        let code = match fault {
            InputFault::Skips { .. } => ErrorCode::BadRequest,
            InputFault::Window { .. } => ErrorCode::InputWindow,
        };
        Self::new(code, fault.to_string())
    }
}

impl InputGate {
    /// A connection whose input goes on from `from`.
    pub(crate) fn new(from: u64) -> Self {
        Self { received: from }
    }

    /// The end of what was received.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Takes `length` bytes at `offset`, when input before `accepted` was accepted. Returns how many
    /// of the first are known already.
    ///
    /// # Errors
    /// The client breaks the protocol; nothing was taken.
    pub(crate) fn take(
        &mut self,
        offset: u64,
        length: usize,
        accepted: u64,
    ) -> Result<usize, InputFault> {
        if offset > self.received {
            return Err(InputFault::Skips { offset, expected: self.received });
        }
        let end = offset.saturating_add(length as u64);
        if end > accepted.saturating_add(INPUT_WINDOW) {
            return Err(InputFault::Window { end, accepted });
        }
        let known = usize::try_from(self.received - offset).unwrap_or(usize::MAX).min(length);
        self.received = self.received.max(end);
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn skipping_and_flooding_are_told_apart() {
        let mut gate = InputGate::new(10);
        assert_eq!(gate.take(11, 1, 10), Err(InputFault::Skips { offset: 11, expected: 10 }));
        let window = usize::try_from(INPUT_WINDOW).unwrap();
        assert_eq!(gate.take(10, window, 10), Ok(0));
        let end = 10 + INPUT_WINDOW + 1;
        assert_eq!(gate.take(end - 1, 1, 10), Err(InputFault::Window { end, accepted: 10 }));
        assert_eq!(gate.take(end - 1, 1, 11), Ok(0));
        assert_eq!(
            gate.take(u64::MAX, 1, 0).unwrap_err(),
            InputFault::Skips { offset: u64::MAX, expected: end }
        );
    }

    proptest! {
        /// However a client repeats itself, what is new is each byte once, in order.
        #[test]
        fn repeats_are_known(steps in proptest::collection::vec((0u64..50, 0usize..50), 0..40)) {
            let mut gate = InputGate::new(0);
            let mut new = 0u64;
            for (back, length) in steps {
                let offset = gate.received().saturating_sub(back);
                let known = gate.take(offset, length, 0).unwrap();
                prop_assert_eq!(offset + known as u64, new.min(offset + length as u64));
                new += (length - known) as u64;
                prop_assert_eq!(gate.received(), new);
            }
        }
    }
}
