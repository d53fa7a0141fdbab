//! Where output goes on: the rule that no byte is missed or repeated.

/// The offset of the next output byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    next: u64,
}

/// Output that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// What the daemon did that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CursorError {
    #[error("output at {offset} where {next} was next")]
    OutOfPlace { next: u64, offset: u64 },
    #[error("output beyond all offsets")]
    Overflow,
    #[error("a gap from {from} to {to} where {next} was next")]
    GapOutOfPlace { next: u64, from: u64, to: u64 },
    #[error("output from {from} on where {next} was asked for")]
    StartsBefore { next: u64, from: u64 },
}

impl Cursor {
    pub(super) fn new(next: u64) -> Self {
        Self { next }
    }

    pub(super) fn next(self) -> u64 {
        self.next
    }

    /// A connection begins at `from`. Later than asked for: what lies between is missing.
    pub(super) fn begin(&mut self, from: u64) -> Result<Option<Missing>, CursorError> {
        if from < self.next {
            return Err(CursorError::StartsBefore { next: self.next, from });
        }
        let missing = (from > self.next).then_some(Missing { from: self.next, to: from });
        self.next = from;
        Ok(missing)
    }

    /// Output of `length` bytes at `offset`.
    pub(super) fn output(&mut self, offset: u64, length: usize) -> Result<(), CursorError> {
        if offset != self.next {
            return Err(CursorError::OutOfPlace { next: self.next, offset });
        }
        self.next = offset.checked_add(length as u64).ok_or(CursorError::Overflow)?;
        Ok(())
    }

    /// The daemon says that bytes are no longer kept. `None`: it is known already.
    pub(super) fn gap(&mut self, from: u64, to: u64) -> Result<Option<Missing>, CursorError> {
        // A connection that began behind a gap may be told of it in words as well.
        if from < to && to == self.next {
            return Ok(None);
        }
        if from != self.next || to <= from {
            return Err(CursorError::GapOutOfPlace { next: self.next, from, to });
        }
        self.next = to;
        Ok(Some(Missing { from, to }))
    }

    /// The log is sealed at `end`. What did not come will not.
    pub(super) fn seal(&mut self, end: u64) -> Option<Missing> {
        let missing = (end > self.next).then_some(Missing { from: self.next, to: end });
        self.next = self.next.max(end);
        missing
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_and_repeats_are_refused() {
        let mut cursor = Cursor::new(10);
        assert_eq!(cursor.output(10, 5), Ok(()));
        assert!(cursor.output(10, 5).is_err(), "a repeat");
        assert!(cursor.output(14, 5).is_err(), "an overlap");
        assert!(cursor.output(16, 5).is_err(), "a gap nobody told of");
        assert_eq!(cursor.gap(15, 20), Ok(Some(Missing { from: 15, to: 20 })));
        assert!(cursor.gap(15, 19).is_err());
        assert!(cursor.gap(20, 20).is_err());
        assert_eq!(cursor.output(20, 0), Ok(()));
        assert_eq!(cursor.output(20, usize::MAX), Err(CursorError::Overflow));
    }

    #[test]
    fn a_connection_that_begins_later_has_a_gap() {
        let mut cursor = Cursor::new(3);
        assert!(cursor.begin(2).is_err());
        assert_eq!(cursor.begin(3), Ok(None));
        assert_eq!(cursor.begin(7), Ok(Some(Missing { from: 3, to: 7 })));
        assert_eq!(cursor.gap(3, 7), Ok(None), "told twice, counted once");
        assert_eq!(cursor.seal(7), None);
        assert_eq!(cursor.seal(9), Some(Missing { from: 7, to: 9 }));
    }

    proptest! {
        #[test]
        fn whatever_a_daemon_says_output_never_overlaps(
            says in proptest::collection::vec((any::<bool>(), 0u64..40, 0u64..40), 0..40),
        ) {
            let mut cursor = Cursor::new(0);
            let mut end = 0;
            for (is_gap, at, to) in says {
                let before = cursor.next();
                if is_gap {
                    if let Ok(Some(missing)) = cursor.gap(at, to) {
                        prop_assert_eq!(missing.from, before);
                    }
                } else if cursor.output(at, usize::try_from(to).unwrap()).is_ok() {
                    prop_assert_eq!(at, end);
                }
                prop_assert!(cursor.next() >= end);
                end = cursor.next();
            }
        }
    }
}
