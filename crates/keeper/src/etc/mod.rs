//! The `/etc` of boxes: a copy of what everybody may read in the host's, with files of its own where
//! the host's would speak of the host.
//!
//! Not the host's directory itself: a box's processes act for the caller, and what the caller or one
//! of the caller's groups may read there is no business of theirs.

mod accounts;
mod public_copy;

pub(crate) use accounts::{Account, Accounts};
pub(crate) use public_copy::public_copy;

/// Names in the host's `/etc` that boxes do not get even where everybody may read them: what says
/// who the host's users are, what it mounts, and which machine it is; and those that boxes have of
/// their own.
pub(crate) const NOT_COPIED: [&str; 21] = [
    "passwd",
    "passwd-",
    "group",
    "group-",
    "shadow",
    "shadow-",
    "gshadow",
    "gshadow-",
    "subuid",
    "subuid-",
    "subgid",
    "subgid-",
    "sudoers",
    "sudoers.d",
    "fstab",
    "crypttab",
    "mtab",
    "hosts",
    "hostname",
    "resolv.conf",
    "machine-id",
];

/// Whether a box's `/etc` depends on what is of this name in the host's.
#[must_use]
pub fn is_in_public_etc(name: &[u8]) -> bool {
    // These two name the system's users, which boxes have.
    matches!(name, b"passwd" | b"group") || !NOT_COPIED.iter().any(|not| not.as_bytes() == name)
}

/// `/etc/nsswitch.conf` where the host has none: the C library's own default without it asks for
/// more than files (nsswitch.conf(5)).
pub(crate) const NAME_SERVICES: &str =
    "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n";

/// `/etc/hosts` until a box has its own.
pub(crate) const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost\n";
