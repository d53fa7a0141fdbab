//! Input that was not accepted yet: the rule that none is lost or doubled.

use std::collections::VecDeque;

use bytes::{Buf as _, Bytes};

/// Bytes on their way into a box.
///
/// ```text
///       accepted        sent             end
///  ────────┼──────────────┼───────────────┼──▶ offset
///   gone   │ kept, sent   │ kept, to send │
/// ```
#[derive(Debug)]
pub(super) struct InputRing {
    /// What is kept; the first chunk begins at `accepted`, and `sent` is always between chunks.
    chunks: VecDeque<Bytes>,
    /// How many of the chunks were sent on this connection.
    sent_chunks: usize,
    accepted: u64,
    sent: u64,
    /// The highest `sent` of any connection: so much may be accepted.
    reach: u64,
    /// Where this writer began: what is before it, accepted or not, is another's.
    base: u64,
    eof: Eof,
    open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eof {
    NotYet,
    ToSend,
    Sent,
}

/// What is to be sent next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Bytes, and the offset of the first.
    Bytes(u64, Bytes),
    /// The end of the input.
    Eof,
}

/// What the daemon did that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InputError {
    #[error("it accepted input up to {offset}, but only {sent} bytes were sent")]
    NeverSent { offset: u64, sent: u64 },
    #[error("it goes on with input at {offset}, but had accepted {accepted} bytes before")]
    Forgotten { offset: u64, accepted: u64 },
}

impl InputRing {
    /// A writer that begins at `offset`, as a daemon told it.
    pub(super) fn new(offset: u64) -> Self {
        Self {
            chunks: VecDeque::new(),
            sent_chunks: 0,
            accepted: offset,
            sent: offset,
            reach: offset,
            base: offset,
            eof: Eof::NotYet,
            open: true,
        }
    }

    /// More input. Dropped if the box has closed its input, or after the end.
    pub(super) fn push(&mut self, bytes: Bytes) {
        if self.open && self.eof == Eof::NotYet && !bytes.is_empty() {
            self.chunks.push_back(bytes);
        }
    }

    /// The input ends here.
    pub(super) fn finish(&mut self) {
        if self.eof == Eof::NotYet {
            self.eof = Eof::ToSend;
        }
    }

    /// The box takes no more. `false`: that is known already.
    pub(super) fn close(&mut self) -> bool {
        self.chunks.clear();
        self.sent_chunks = 0;
        std::mem::replace(&mut self.open, false)
    }

    /// How much of it was not accepted yet.
    pub(super) fn waiting(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.len() as u64).sum()
    }

    /// Whether more is taken.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// What to send; it counts as sent.
    pub(super) fn take_next(&mut self) -> Option<Next> {
        if !self.open {
            return None;
        }
        if let Some(chunk) = self.chunks.get(self.sent_chunks) {
            let offset = self.sent;
            self.sent += chunk.len() as u64;
            self.reach = self.reach.max(self.sent);
            self.sent_chunks += 1;
            return Some(Next::Bytes(offset, chunk.clone()));
        }
        (self.eof == Eof::ToSend).then(|| {
            self.eof = Eof::Sent;
            Next::Eof
        })
    }

    /// The daemon has handed on everything before `offset`. Answers how many bytes that frees.
    pub(super) fn accept(&mut self, offset: u64) -> Result<u64, InputError> {
        if !self.open {
            return Ok(0);
        }
        if offset > self.reach {
            return Err(InputError::NeverSent { offset, sent: self.reach });
        }
        let freed = offset.saturating_sub(self.accepted);
        let mut left = freed;
        while left > 0 {
            let front = self.chunks.front_mut().expect("what was sent is kept until accepted");
            match usize::try_from(left) {
                Ok(part) if part < front.len() => {
                    front.advance(part);
                    left = 0;
                }
                _ => {
                    left -= front.len() as u64;
                    self.chunks.pop_front();
                    self.sent_chunks = self.sent_chunks.saturating_sub(1);
                }
            }
        }
        self.accepted += freed;
        // What an older connection sent may be accepted before this one has sent it again.
        self.sent = self.sent.max(self.accepted);
        Ok(freed)
    }

    /// A new connection goes on at `offset`: everything behind it is sent again, and the end too.
    /// Answers how many bytes were accepted before the old connection could say so.
    pub(super) fn resume(&mut self, offset: u64) -> Result<u64, InputError> {
        if !self.open {
            return Ok(0);
        }
        // What another has typed before us may still wait.
        let offset = if self.accepted == self.base { offset.max(self.base) } else { offset };
        if offset < self.accepted {
            return Err(InputError::Forgotten { offset, accepted: self.accepted });
        }
        let freed = self.accept(offset)?;
        self.sent = offset;
        self.sent_chunks = 0;
        if self.eof == Eof::Sent {
            self.eof = Eof::ToSend;
        }
        Ok(freed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A keeper and a wire that loses what was sent but not delivered.
    #[derive(Default)]
    struct Model {
        got: Vec<u8>,
        eof: bool,
        wire: VecDeque<Next>,
    }

    impl Model {
        fn deliver(&mut self) {
            match self.wire.pop_front() {
                Some(Next::Bytes(offset, bytes)) => {
                    let got = self.got.len() as u64;
                    assert!(offset <= got, "input skips bytes");
                    let skip = usize::try_from(got - offset).unwrap().min(bytes.len());
                    self.got.extend_from_slice(&bytes[skip..]);
                }
                Some(Next::Eof) => self.eof = true,
                None => {}
            }
        }
    }

    proptest! {
        #[test]
        fn whatever_is_lost_on_the_way_each_byte_arrives_once(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..9), 0..9),
            steps in proptest::collection::vec(0u8..6, 0..80),
        ) {
            let whole: Vec<u8> = chunks.concat();
            let mut ring = InputRing::new(0);
            let mut model = Model::default();
            let mut chunks = chunks.into_iter();
            let mut freed = 0;
            let settle = std::iter::repeat_n([0, 1, 2], 80).flatten();
            for step in steps.into_iter().chain(settle) {
                match step {
                    0 => match chunks.next() {
                        Some(chunk) => ring.push(chunk.into()),
                        None => ring.finish(),
                    },
                    1 => model.wire.extend(ring.take_next()),
                    2 => model.deliver(),
                    3 => freed += ring.accept(model.got.len() as u64).unwrap(),
                    // The daemon dies; what is on the way is lost.
                    4 => {
                        model.wire.clear();
                        freed += ring.resume(model.got.len() as u64).unwrap();
                    }
                    // It dies, but the keeper still gets what was on the way, later.
                    _ => {
                        freed += ring.resume(model.got.len() as u64).unwrap();
                    }
                }
            }
            freed += ring.accept(model.got.len() as u64).unwrap();
            prop_assert_eq!(&model.got, &whole);
            prop_assert_eq!(freed, whole.len() as u64);
            prop_assert!(model.eof);
        }
    }

    #[test]
    fn a_daemon_that_contradicts_itself_is_told_apart() {
        let mut ring = InputRing::new(5);
        ring.push(Bytes::from_static(b"abc"));
        assert_eq!(ring.accept(6), Err(InputError::NeverSent { offset: 6, sent: 5 }));
        assert_eq!(ring.take_next(), Some(Next::Bytes(5, Bytes::from_static(b"abc"))));
        assert_eq!(ring.accept(7), Ok(2));
        assert_eq!(ring.resume(6), Err(InputError::Forgotten { offset: 6, accepted: 7 }));
        assert_eq!(ring.resume(7), Ok(0));
        assert_eq!(ring.take_next(), Some(Next::Bytes(7, Bytes::from_static(b"c"))));
        assert!(ring.close());
        assert!(!ring.close());
        assert_eq!((ring.take_next(), ring.accept(99), ring.resume(0)), (None, Ok(0), Ok(0)));
    }
}
