//! The entrypoint's input: counted from 0, taken once however often it is sent.
//!
//! Pure: bytes and offsets come in, and what to write goes out.

use std::collections::VecDeque;

use minimal_proto::stream::INPUT_WINDOW;

/// What has come in and how much of it was handed on.
#[derive(Debug)]
pub struct Input {
    /// Received and not yet handed on.
    pending: VecDeque<u8>,
    /// Everything before this was handed on, or dropped because nobody reads.
    accepted: u64,
    /// Where the input ends, once that is known.
    ends_at: Option<u64>,
    /// Whether the entrypoint can still be given anything.
    open: bool,
}

/// Input that does not fit what was received before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputFault {
    /// Bytes between are missing.
    #[error("input at {offset} came when {expected} was next")]
    Gap {
        /// Where the bytes belong.
        offset: u64,
        /// What should have come.
        expected: u64,
    },
    /// More than the window.
    #[error("more than {INPUT_WINDOW} bytes of input were sent ahead of what was accepted")]
    Window,
}

impl Input {
    /// Input that is open from the start, or never was.
    #[must_use]
    pub fn new(open: bool) -> Self {
        Self { pending: VecDeque::new(), accepted: 0, ends_at: None, open }
    }

    /// How much was handed on.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Whether more is taken.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// How much has come, handed on or not.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.accepted + u64::try_from(self.pending.len()).expect("a length fits 64 bits")
    }

    /// Takes bytes of the input. Those that came before are dropped: a client that reconnected
    /// sends what it cannot know to have arrived.
    ///
    /// # Errors
    /// The client does not follow the protocol; nothing was taken.
    pub fn offer(&mut self, offset: u64, bytes: &[u8]) -> Result<(), InputFault> {
        let received = self.received();
        if offset > received {
            return Err(InputFault::Gap { offset, expected: received });
        }
        let known = usize::try_from(received - offset).unwrap_or(usize::MAX);
        let fresh = bytes.get(known..).unwrap_or_default();
        if !self.open {
            // Counted as accepted, so that the client need not keep it.
            self.accepted += u64::try_from(fresh.len()).expect("a length fits 64 bits");
            return Ok(());
        }
        if self.ends_at.is_some() {
            // Past its end there is nothing.
            return Ok(());
        }
        let window = usize::try_from(INPUT_WINDOW).expect("the window is 1 MiB");
        if self.pending.len() + fresh.len() > window {
            return Err(InputFault::Window);
        }
        self.pending.extend(fresh);
        Ok(())
    }

    /// The client says that the input ends at this offset.
    ///
    /// # Errors
    /// Bytes before it have not come.
    pub fn end_at(&mut self, offset: u64) -> Result<(), InputFault> {
        if offset > self.received() {
            return Err(InputFault::Gap { offset, expected: self.received() });
        }
        self.ends_at.get_or_insert(self.received());
        Ok(())
    }

    /// Nobody will send the rest: the input ends with what has come.
    pub fn abandon(&mut self) {
        self.ends_at.get_or_insert(self.received());
    }

    /// What to write next.
    #[must_use]
    pub fn next(&self) -> &[u8] {
        if self.open { self.pending.as_slices().0 } else { &[] }
    }

    /// So many bytes of [`Input::next`] were written.
    pub fn wrote(&mut self, count: usize) {
        self.pending.drain(..count);
        self.accepted += u64::try_from(count).expect("a length fits 64 bits");
    }

    /// Whether everything was handed on and the entrypoint's stdin must now end.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.open && self.ends_at == Some(self.accepted)
    }

    /// The entrypoint's stdin is closed, by it or by us. What is pending is dropped.
    pub fn close(&mut self) {
        self.accepted = self.received();
        self.pending = VecDeque::new();
        self.open = false;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is sent again after a loss, each byte is handed on once and in order.
        #[test]
        fn bytes_are_handed_on_once(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
            steps in proptest::collection::vec((0usize..300, 0usize..300, any::<bool>()), 1..60),
        ) {
            let mut input = Input::new(true);
            let mut sent = 0;
            let mut out = Vec::new();
            for (send, write, lose) in steps {
                if lose {
                    // The client goes on from what it knows to be accepted.
                    sent = usize::try_from(input.accepted()).unwrap();
                }
                let end = (sent + send).min(bytes.len());
                input.offer(sent as u64, &bytes[sent..end]).unwrap();
                sent = end.max(sent);
                let count = input.next().len().min(write);
                out.extend_from_slice(&input.next()[..count]);
                input.wrote(count);
            }
            let from = usize::try_from(input.accepted()).unwrap();
            input.offer(from as u64, &bytes[from..]).unwrap();
            input.end_at(bytes.len() as u64).unwrap();
            while !input.next().is_empty() {
                out.extend_from_slice(input.next());
                input.wrote(input.next().len());
            }
            prop_assert!(input.is_complete());
            prop_assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_gap_and_a_flood_are_refused() {
        let mut input = Input::new(true);
        assert_eq!(input.offer(1, b"x"), Err(InputFault::Gap { offset: 1, expected: 0 }));
        assert_eq!(input.end_at(1), Err(InputFault::Gap { offset: 1, expected: 0 }));
        let flood = vec![0; usize::try_from(INPUT_WINDOW).unwrap() + 1];
        assert_eq!(input.offer(0, &flood), Err(InputFault::Window));
        assert_eq!(input.accepted(), 0);
    }

    #[test]
    fn input_that_nobody_reads_counts_as_accepted() {
        let mut input = Input::new(true);
        input.offer(0, b"abc").unwrap();
        input.close();
        assert_eq!(input.accepted(), 3);
        input.offer(3, b"def").unwrap();
        assert_eq!(input.accepted(), 6);
        assert!(input.next().is_empty() && !input.is_complete());
    }
}
