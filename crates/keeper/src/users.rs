//! Which ids of the host a box's users are.

use minimal_linux::namespaces::IdRange;

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
    /// The daemon is an ordinary user, who is uid 0 of the namespace its keepers live in, and the
    /// only user of its boxes.
    Single,
}

/// The uid and gid of a box's processes.
pub const BOX_USER: u32 = 1000;

/// How many ids a box has where it has a range.
const RANGE: u32 = 65_536;

/// Where the reserved range begins if nothing is in the way: the first id after those systemd
/// hands to containers (524288 to 1879048191, systemd's UIDS-GIDS.md).
const FIRST_BASE: u32 = 1_879_048_192;

impl Users {
    /// The word of the record.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Range { .. } => "range",
            Self::Single => "single",
        }
    }

    /// The box's uid and gid map.
    #[must_use]
    pub(crate) fn map(self) -> [IdRange; 1] {
        match self {
            Self::Range { base } => [IdRange { inside: 0, outside: base, count: RANGE }],
            Self::Single => [IdRange { inside: BOX_USER, outside: 0, count: 1 }],
        }
    }

    /// The id that init becomes, where there is more than one.
    #[must_use]
    pub(crate) const fn init_id(self) -> u32 {
        match self {
            Self::Range { .. } => 0,
            Self::Single => BOX_USER,
        }
    }

    /// The box's user as the keeper's namespace numbers it, for owners of files.
    #[must_use]
    pub(crate) const fn owner(self) -> u32 {
        match self {
            Self::Range { base } => base + BOX_USER,
            Self::Single => 0,
        }
    }

    /// How many processes of ours count as the box's user's in the box's user namespace: init, where
    /// there is one user only.
    #[must_use]
    pub(crate) const fn ours_beside_the_box(self) -> u64 {
        match self {
            Self::Range { .. } => 0,
            Self::Single => 1,
        }
    }

    /// The first range at or after the usual one that no line of /etc/subuid or /etc/subgid
    /// (subuid(5): `name:first:count`) overlaps. `None` if there is none below 2^32 - 2.
    #[must_use]
    pub(crate) fn reserve(subordinate_ids: &str) -> Option<Self> {
        let taken: Vec<(u64, u64)> = subordinate_ids
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(':').skip(1);
                let first: u64 = fields.next()?.trim().parse().ok()?;
                let count: u64 = fields.next()?.trim().parse().ok()?;
                Some((first, first.saturating_add(count)))
            })
            .collect();
        let range = u64::from(RANGE);
        (u64::from(FIRST_BASE)..u64::from(u32::MAX) - range)
            .step_by(RANGE as usize)
            .find(|base| taken.iter().all(|(first, end)| *end <= *base || *first >= base + range))
            .and_then(|base| u32::try_from(base).ok())
            .map(|base| Self::Range { base })
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
    fn an_exhausted_id_space_is_told() {
        assert_eq!(Users::reserve("all:0:4294967295"), None);
    }
}
