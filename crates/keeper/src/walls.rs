//! The walls between a box and the rest, as data: each is one measure, and a scenario attacks it
//! twice, once as it is and once with the wall taken down, when the attack must work. A test that
//! could not fail would prove nothing.
//!
//! Only a build with the feature `testhooks` can take one down, before the nursery starts.

use std::sync::OnceLock;

use minimal_store::hook;

/// One measure that keeps a box in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// No capability beyond those a box's root needs.
    Capabilities,
    /// The system call policy.
    SystemCalls,
    /// The host's directories are mounted read-only.
    ReadOnly,
    /// Of the host's `/etc` only what everybody may read.
    PublicEtc,
    /// Landlock, on the host's network.
    AbstractSockets,
}

impl Wall {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Capabilities,
        Self::SystemCalls,
        Self::ReadOnly,
        Self::PublicEtc,
        Self::AbstractSockets,
    ];

    /// The name by which a test takes it down.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Capabilities => "capabilities",
            Self::SystemCalls => "system_calls",
            Self::ReadOnly => "read_only",
            Self::PublicEtc => "public_etc",
            Self::AbstractSockets => "abstract_sockets",
        }
    }

    /// The measure, and the attack that it stops: the rows of `docs/reference/walls.md`.
    #[must_use]
    pub const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Capabilities => (
                "a box's user has no capability, its root eleven over its own files and users, neither can gain one",
                "root of a box opens a raw socket",
            ),
            Self::SystemCalls => (
                "the system call policy, `policy/seccomp.policy`",
                "a process makes a user namespace, in which it has every capability",
            ),
            Self::ReadOnly => (
                "the host's directories are mounted read-only",
                "a process writes to a directory of the host's that everybody may write to",
            ),
            Self::PublicEtc => (
                "`/etc` is a copy of what everybody may read in the host's",
                "root of a box, or its only user, reads a file of `/etc` that is root's or the caller's alone",
            ),
            Self::AbstractSockets => (
                "a box on the host's network has Landlock's scope for abstract sockets",
                "a process connects to an abstract socket of the host's",
            ),
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Whether it stands. Always, but in tests.
    pub(crate) fn stands(self) -> bool {
        cfg!(not(feature = "testhooks")) || down() & self.bit() == 0
    }
}

/// Which are down, as a set of bits: looked up once, by the nursery, for what it forks cannot see
/// the directory that says so.
pub(crate) fn down() -> u32 {
    static DOWN: OnceLock<u32> = OnceLock::new();
    *DOWN.get_or_init(|| {
        let down = Wall::ALL.into_iter().filter(|wall| hook::is_down(wall.name()));
        down.fold(0, |set, wall| set | wall.bit())
    })
}

/// The page of the reference.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "<!-- Written by `cargo xtask gen`; do not edit. -->\n\n# Walls\n\n\
         What keeps a box in, measure by measure. Each is attacked by a scenario (`tests/e2e/tests/e2e/walls.rs`) \
         twice: as it is, when the attack fails, and with that one measure taken down, when it works.\n\n\
         | wall | measure | attack |\n|---|---|---|\n",
    );
    for wall in Wall::ALL {
        let (measure, attack) = wall.words();
        page.extend(["| `", wall.name(), "` | ", measure, " | ", attack, " |\n"]);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_page_of_walls() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/walls.md");
        if std::env::var_os("MIN_UPDATE").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(written, reference(), "run `cargo xtask gen`");
    }

    #[test]
    fn every_wall_stands_by_itself() {
        for wall in Wall::ALL {
            assert!(wall.stands());
            assert_eq!(Wall::ALL.iter().filter(|other| other.bit() == wall.bit()).count(), 1);
        }
    }
}
