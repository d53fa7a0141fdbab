//! Which ids of the host a box's users are.

use minimal_linux::namespaces::IdRange;

use crate::subordinate;

/// How ids of a box map to ids of the namespace its keeper lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Users {
    /// The daemon is the host's root: box ids 0 to 65535 are a range of the host's that nobody else
    /// has. The host's own root is never one of them: it owns /proc/sys and much else, whatever
    /// capabilities it lacks.
    Range {
        /// First id of the range on the host.
        base: u32,
    },
    /// The daemon is an ordinary user, who is uid 0 of the namespace its keepers live in and the
    /// user `box` of its boxes. Every other user of a box is one of the caller's subordinate ids,
    /// which that namespace has from 1 on.
    Subordinate,
    /// The daemon is an ordinary user, who is uid 0 of the namespace its keepers live in, and the
    /// only user of its boxes.
    Single,
}

/// The uid and gid of a box's processes.
pub const BOX_USER: u32 = 1000;

/// How many ids a box has where it has a range.
pub(crate) const RANGE: u32 = 65_536;

/// Where the reserved range begins if nothing is in the way: the first id after those systemd
/// hands to containers (524288 to 1879048191, systemd's UIDS-GIDS.md).
const FIRST_BASE: u32 = 1_879_048_192;

impl Users {
    /// The word of the record.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Range { .. } => "range",
            Self::Subordinate => "subordinate",
            Self::Single => "single",
        }
    }

    /// The box's uid and gid map, in ids of the namespace its keeper lives in.
    #[must_use]
    pub(crate) fn map(self) -> Vec<IdRange> {
        let line = |inside, outside, count| IdRange { inside, outside, count };
        match self {
            Self::Range { base } => vec![line(0, base, RANGE)],
            // The caller takes the place of one id; those before it are one further on outside.
            Self::Subordinate => vec![
                line(0, 1, BOX_USER),
                line(BOX_USER, 0, 1),
                line(BOX_USER + 1, BOX_USER + 1, RANGE - BOX_USER - 1),
            ],
            Self::Single => vec![line(BOX_USER, 0, 1)],
        }
    }

    /// The same in ids of the host, as far as the keeper's namespace knows: what its own map
    /// (`/proc/self/uid_map`) says of them.
    #[must_use]
    pub(crate) fn map_on_the_host(self, own: &[IdRange]) -> Vec<IdRange> {
        let mut lines = Vec::new();
        for IdRange { inside, outside, count } in self.map() {
            for line in own {
                let first = outside.max(line.inside);
                let end = |range: &IdRange| u64::from(range.inside) + u64::from(range.count);
                let end = (u64::from(outside) + u64::from(count)).min(end(line));
                let Some(count) = end.checked_sub(u64::from(first)).filter(|count| *count > 0)
                else {
                    continue;
                };
                lines.push(IdRange {
                    inside: inside + (first - outside),
                    outside: line.outside + (first - line.inside),
                    count: u32::try_from(count).unwrap_or(u32::MAX),
                });
            }
        }
        lines
    }

    /// The lowest and the highest id that a box has.
    #[must_use]
    pub(crate) const fn first_and_last(self) -> (u32, u32) {
        match self {
            Self::Range { .. } | Self::Subordinate => (0, RANGE - 1),
            Self::Single => (BOX_USER, BOX_USER),
        }
    }

    /// An id of the box as the keeper's namespace numbers it; none if the box has no such id.
    #[must_use]
    pub(crate) fn outside(self, id: u32) -> Option<u32> {
        self.map().into_iter().find_map(|line| {
            let distance = id.checked_sub(line.inside)?;
            (distance < line.count).then(|| line.outside + distance)
        })
    }

    /// The id that init becomes, where there is more than one.
    #[must_use]
    pub(crate) const fn init_id(self) -> u32 {
        match self {
            Self::Range { .. } | Self::Subordinate => 0,
            Self::Single => BOX_USER,
        }
    }

    /// The box's root as the keeper's namespace numbers it, for owners of files, where it is
    /// another than the keeper itself.
    #[must_use]
    pub(crate) const fn root(self) -> Option<u32> {
        match self {
            Self::Range { base } => Some(base),
            Self::Subordinate => Some(1),
            Self::Single => None,
        }
    }

    /// The box's user as the keeper's namespace numbers it, for owners of files.
    #[must_use]
    pub(crate) const fn owner(self) -> u32 {
        match self {
            Self::Range { base } => base + BOX_USER,
            Self::Subordinate | Self::Single => 0,
        }
    }

    /// How many processes of ours count as the box's user's in the box's user namespace: init, where
    /// there is one user only.
    #[must_use]
    pub(crate) const fn ours_beside_the_box(self) -> u64 {
        match self {
            Self::Range { .. } | Self::Subordinate => 0,
            Self::Single => 1,
        }
    }

    /// The first range at or after the usual one that no line of /etc/subuid or /etc/subgid
    /// overlaps. `None` if there is none below 2^32 - 2.
    #[must_use]
    pub(crate) fn reserve(subordinate_ids: &str) -> Option<Self> {
        subordinate::free(subordinate_ids, FIRST_BASE).map(|base| Self::Range { base })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_avoids_what_is_handed_out_and_never_holds_root() {
        assert_eq!(Users::reserve(""), Some(Users::Range { base: FIRST_BASE }));
        let taken =
            format!("a:{}:65536\nb:{}:1\n# c\nbroken:x:y\n", FIRST_BASE, FIRST_BASE + 65_536 + 9);
        let next = Users::Range { base: FIRST_BASE + 2 * 65_536 };
        assert_eq!(Users::reserve(&taken), Some(next));
        assert!(next.map()[0].outside > 0);
    }

    #[test]
    fn maps_with_subordinate_ids_overlap_nowhere() {
        for users in [Users::Subordinate, Users::Single, Users::Range { base: FIRST_BASE }] {
            let mut ids: Vec<u32> = Vec::new();
            let mut inside = Vec::new();
            for line in users.map() {
                ids.extend(line.outside..line.outside + line.count);
                inside.extend(line.inside..line.inside + line.count);
            }
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count, "{users:?}");
            inside.dedup();
            assert_eq!(inside.len(), count, "{users:?}");
        }
        let at = |id| Users::Subordinate.outside(id);
        assert_eq!(
            [at(0), at(999), at(1000), at(1001), at(65_535), at(65_536)],
            [Some(1), Some(1000), Some(0), Some(1001), Some(65_535), None]
        );
        assert_eq!([Users::Single.outside(0), Users::Single.outside(1000)], [None, Some(0)]);
        assert_eq!(Users::Subordinate.root(), at(0));
        assert_eq!(Some(Users::Subordinate.owner()), at(BOX_USER));
    }

    #[test]
    fn the_record_speaks_in_ids_of_the_host() {
        let line = |inside, outside, count| IdRange { inside, outside, count };
        let everything = [line(0, 0, u32::MAX)];
        let range = Users::Range { base: FIRST_BASE };
        assert_eq!(range.map_on_the_host(&everything), range.map());
        let own = [line(0, 1001, 1), line(1, 100_000, 65_536)];
        assert_eq!(Users::Single.map_on_the_host(&own), [line(1000, 1001, 1)]);
        assert_eq!(
            Users::Subordinate.map_on_the_host(&own),
            [line(0, 100_000, 1000), line(1000, 1001, 1), line(1001, 101_000, 64_535),]
        );
        // Subordinate ids in two pieces.
        let own = [line(0, 7, 1), line(1, 500, 10), line(11, 9000, 65_526)];
        assert_eq!(
            Users::Subordinate.map_on_the_host(&own)[..3],
            [line(0, 500, 10), line(10, 9000, 990), line(1000, 7, 1),]
        );
    }

    #[test]
    fn an_exhausted_id_space_is_told() {
        assert_eq!(Users::reserve("all:0:4294967295"), None);
    }
}
