//! The keys that are ours. Pure.

/// What follows the leader to detach.
const DETACH: u8 = b'd';

/// Finds the leader among what is typed, however that is split.
#[derive(Debug)]
pub(super) struct Leader {
    /// What a terminal sends for it.
    key: u8,
    /// The leader was typed, and nothing behind it.
    is_open: bool,
}

/// What was typed, as far as it was looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// What is the box's.
    pub(super) keys: Vec<u8>,
    /// Whether the client is to leave; what comes behind is nobody's.
    pub(super) detach: bool,
}

impl Leader {
    /// By this byte.
    pub(super) fn new(key: u8) -> Self {
        Self { key, is_open: false }
    }

    /// Takes what was typed.
    pub(super) fn take(&mut self, typed: &[u8]) -> Typed {
        let mut keys = Vec::with_capacity(typed.len());
        let leader = self.key;
        for key in typed {
            match (std::mem::take(&mut self.is_open), *key) {
                (false, key) if key == leader => self.is_open = true,
                (false, key) => keys.push(key),
                (true, DETACH) => return Typed { keys, detach: true },
                // Doubled it is itself.
                (true, key) if key == leader => keys.push(key),
                // Before anything else it is what it was typed as.
                (true, key) => keys.extend([leader, key]),
            }
        }
        Typed { keys, detach: false }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEADER: u8 = 0x1d;

    fn all(pieces: &[&[u8]]) -> Typed {
        let mut leader = Leader::new(LEADER);
        let mut all = Typed { keys: Vec::new(), detach: false };
        for piece in pieces {
            let typed = leader.take(piece);
            all.keys.extend(typed.keys);
            all.detach |= typed.detach;
        }
        all
    }

    #[test]
    fn only_the_leader_and_its_key_are_kept_from_the_box() {
        assert_eq!(all(&[b"a\x1d", b"d"]), Typed { keys: b"a".to_vec(), detach: true });
        assert_eq!(all(&[b"\x1d\x1dd"]), Typed { keys: b"\x1dd".to_vec(), detach: false });
        assert_eq!(all(&[b"\x1d", b"x"]), Typed { keys: b"\x1dx".to_vec(), detach: false });
    }

    proptest! {
        #[test]
        fn splits_change_nothing(
            typed in proptest::collection::vec(prop_oneof![Just(LEADER), Just(DETACH), any::<u8>()], 0..40),
            at in 0usize..40,
        ) {
            let (before, after) = typed.split_at(at.min(typed.len()));
            let whole = all(&[&typed]);
            let mut leader = Leader::new(LEADER);
            let mut split = leader.take(before);
            if !split.detach {
                let rest = leader.take(after);
                split.keys.extend(rest.keys);
                split.detach = rest.detach;
            }
            prop_assert_eq!(whole, split);
        }
    }
}
