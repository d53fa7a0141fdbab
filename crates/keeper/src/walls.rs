//! The walls between a box and the rest, as data: measures, and attacks that they stop. A scenario
//! makes each attack twice, once as it is and once with what stops it taken down, when it must work.
//! A test that could not fail would prove nothing.
//!
//! Only a build with the feature `testhooks` can take one down, before the nursery starts.

use std::io;
use std::sync::OnceLock;

use minimal_linux::creds::{self, GroupsKept};
use minimal_linux::fds;
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
    /// Our processes in a box cannot be looked into.
    Hidden,
    /// Our file is executed from a read-only copy.
    OwnExecutable,
    /// The host's root is nobody in a box.
    HostRoot,
    /// The caller's supplementary groups are given up.
    Groups,
    /// A box's processes have no descriptor of ours.
    Descriptors,
    /// What administrators put on the host is not the box's root's.
    Administrators,
    /// Nobody else reaches what a box wrote.
    PrivateState,
}

impl Wall {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Capabilities,
        Self::SystemCalls,
        Self::ReadOnly,
        Self::PublicEtc,
        Self::AbstractSockets,
        Self::Hidden,
        Self::OwnExecutable,
        Self::HostRoot,
        Self::Groups,
        Self::Descriptors,
        Self::Administrators,
        Self::PrivateState,
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
            Self::Hidden => "hidden",
            Self::OwnExecutable => "own_executable",
            Self::HostRoot => "host_root",
            Self::Groups => "groups",
            Self::Descriptors => "descriptors",
            Self::Administrators => "administrators",
            Self::PrivateState => "private_state",
        }
    }

    /// The measure in words.
    #[must_use]
    pub const fn measure(self) -> &'static str {
        match self {
            Self::Capabilities => {
                "a box's user has no capability, its root eleven over its own files and users, neither can gain one"
            }
            Self::SystemCalls => "the system call policy, `policy/seccomp.policy`",
            Self::ReadOnly => "the host's directories are mounted read-only",
            Self::PublicEtc => "`/etc` is a copy of what everybody may read in the host's",
            Self::AbstractSockets => {
                "a box on the host's network has Landlock's scope for abstract sockets"
            }
            Self::Hidden => {
                "our processes in a box, its init and whoever enters it until the exec, are not dumpable (prctl(2)); \
                 init also keeps a capability that a box's user lacks"
            }
            Self::OwnExecutable => {
                "what enters a box runs from a mount of our executable that is read-only for ever"
            }
            Self::HostRoot => "no id of a box is the host's root",
            Self::Groups => {
                "the caller's supplementary groups are given up, but in a box with one user, where the kernel forbids it"
            }
            Self::Descriptors => {
                "every descriptor of ours is closed by exec, and once more all from 3 on"
            }
            Self::Administrators => {
                "a box's root owns nothing that is in the host's `/usr/local` and `/opt`"
            }
            Self::PrivateState => "the state directory is open to its owner alone",
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

/// One way out of a box that was thought of.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// The scenario that makes it.
    pub name: &'static str,
    /// What is tried.
    pub words: &'static str,
    /// What stops it: it works once all of these are down.
    pub walls: &'static [Wall],
}

const fn attack(name: &'static str, words: &'static str, walls: &'static [Wall]) -> Attack {
    Attack { name, words, walls }
}

/// All of them.
pub const ATTACKS: [Attack; 16] = [
    attack("raw_socket", "root of a box opens a raw socket", &[Wall::Capabilities]),
    attack(
        "user_namespace",
        "a process makes a user namespace, in which it has every capability",
        &[Wall::SystemCalls],
    ),
    attack(
        "set_uid_bits",
        "a process makes a program in the real project set-uid",
        &[Wall::SystemCalls],
    ),
    attack(
        "host_file",
        "a process writes to a file of the host's that everybody may write to",
        &[Wall::ReadOnly],
    ),
    attack(
        "remount",
        "root of a box mounts a directory of the host's anew, to write to it",
        &[Wall::Capabilities, Wall::SystemCalls],
    ),
    attack(
        "secret_in_etc",
        "root of a box, or its only user, reads a file of `/etc` that is root's or the caller's alone",
        &[Wall::PublicEtc],
    ),
    attack(
        "secret_in_local",
        "root of a box reads a file of `/usr/local` that is root's alone, through the layer that it installs in",
        &[Wall::Administrators],
    ),
    attack(
        "kernel_settings",
        "root of a box opens a setting of the kernel's for writing, `core_pattern` among them",
        &[Wall::HostRoot],
    ),
    attack(
        "group_file",
        "a process reads a file of the host's that is open to a group of the caller's",
        &[Wall::Groups],
    ),
    attack(
        "inherited",
        "a process looks for descriptors that whoever started it had",
        &[Wall::Descriptors],
    ),
    attack(
        "init",
        "a process reads memory, environment, executable, descriptors or root of its init, or traces it",
        &[Wall::Hidden],
    ),
    attack(
        "joiner",
        "a process does the same to one that was made for the box and has not executed its program yet",
        &[Wall::Hidden],
    ),
    attack(
        "exec_joiner",
        "a process does the same to one that enters its box, for an exec, and has not executed its program yet",
        &[Wall::Hidden],
    ),
    attack(
        "executable",
        "a process changes our executable by way of `/proc`, where the caller owns it",
        &[Wall::Hidden, Wall::OwnExecutable],
    ),
    attack(
        "set_uid_file",
        "another user of the host executes a set-uid program that a box has made",
        &[Wall::PrivateState],
    ),
    attack(
        "abstract_socket",
        "a process connects to an abstract socket of the host's",
        &[Wall::AbstractSockets],
    ),
];

/// Which are down, as a set of bits: looked up once, by the nursery, for what it forks cannot see
/// the directory that says so.
pub(crate) fn down() -> u32 {
    static DOWN: OnceLock<u32> = OnceLock::new();
    *DOWN.get_or_init(|| {
        let down = Wall::ALL.into_iter().filter(|wall| hook::is_down(wall.name()));
        down.fold(0, |set, wall| set | wall.bit())
    })
}

/// Hides this process from those of a box. A change of user undoes it.
pub(crate) fn hide() -> io::Result<()> {
    if Wall::Hidden.stands() { creds::hide_from_others() } else { creds::show_to_others() }
}

/// Gives up the supplementary groups of whoever started us.
pub(crate) fn give_up_groups() -> io::Result<GroupsKept> {
    if Wall::Groups.stands() { creds::give_up_groups() } else { Ok(GroupsKept::Yes) }
}

/// Has nothing but the standard streams survive the exec that comes.
pub(crate) fn close_on_exec() -> io::Result<()> {
    const FIRST: i32 = 3;
    if Wall::Descriptors.stands() {
        fds::close_on_exec_from(FIRST)
    } else {
        fds::keep_on_exec_from(FIRST)
    }
}

/// The page of the reference.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(
        "<!-- Written by `cargo xtask gen`; do not edit. -->\n\n# Walls\n\n\
         What keeps a box in, measure by measure.\n\n\
         | wall | measure |\n|---|---|\n",
    );
    for wall in Wall::ALL {
        page.extend(["| `", wall.name(), "` | ", wall.measure(), " |\n"]);
    }
    page.push_str(
        "\nEach attack is made by a scenario (`tests/e2e/tests/e2e/walls/`) twice: as it is, when it fails, and with \
         what stops it taken down, when it works. Where that is more than one wall, each alone stops it, and the attack \
         works once all of them are down.\n\n\
         | attack | what is tried | what stops it |\n|---|---|---|\n",
    );
    for Attack { name, words, walls } in ATTACKS {
        let walls: Vec<String> = walls.iter().map(|wall| format!("`{}`", wall.name())).collect();
        page.extend(["| `", name, "` | ", words, " | ", &walls.join(", "), " |\n"]);
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

    #[test]
    fn every_wall_is_attacked_and_every_attack_made() {
        for wall in Wall::ALL {
            assert!(ATTACKS.iter().any(|attack| attack.walls.contains(&wall)), "{wall:?}");
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/e2e/tests/e2e/walls");
        let scenarios: String = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        for Attack { name, walls, .. } in ATTACKS {
            assert!(scenarios.contains(&format!("fn {name}(env)")), "no scenario makes {name}");
            for wall in walls {
                let named = scenarios.contains(&format!("\"{}\"", wall.name()));
                assert!(named, "no scenario takes down {wall:?}");
            }
        }
    }
}
