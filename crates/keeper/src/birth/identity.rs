//! As whom the entrypoint runs.

use std::io;
use std::os::fd::BorrowedFd;

use minimal_proto::ending::StartFault;
use rustix::thread::CapabilitySet;

use super::BirthError;
use crate::etc::{Account, Accounts};
use crate::users::Users;

/// What root of a box may do in it, by the names of capabilities(7): what installing packages and
/// running services takes. Never what mounts (CAP_SYS_ADMIN), makes devices (CAP_MKNOD), looks into
/// other processes (CAP_SYS_PTRACE) or changes the network (CAP_NET_ADMIN).
const OF_ROOT: [(CapabilitySet, &str); 11] = [
    (CapabilitySet::CHOWN, "CAP_CHOWN"),
    (CapabilitySet::DAC_OVERRIDE, "CAP_DAC_OVERRIDE"),
    (CapabilitySet::FOWNER, "CAP_FOWNER"),
    (CapabilitySet::FSETID, "CAP_FSETID"),
    (CapabilitySet::KILL, "CAP_KILL"),
    (CapabilitySet::SETGID, "CAP_SETGID"),
    (CapabilitySet::SETUID, "CAP_SETUID"),
    (CapabilitySet::SETPCAP, "CAP_SETPCAP"),
    (CapabilitySet::NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE"),
    (CapabilitySet::SYS_CHROOT, "CAP_SYS_CHROOT"),
    (CapabilitySet::AUDIT_WRITE, "CAP_AUDIT_WRITE"),
];

/// A user of the box, with the ids that the keeper's namespace has for it.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) account: Account,
    uid_outside: u32,
    gid_outside: u32,
}

/// What a user of a box may do beyond what every user may.
pub(super) fn capabilities_of(uid: u32) -> CapabilitySet {
    let of_root = OF_ROOT.iter().filter(|_| uid == 0);
    of_root.fold(CapabilitySet::empty(), |all, (one, _)| all | *one)
}

impl Identity {
    /// Finds the user that a spec names, among those that the box knows.
    pub(super) fn find(user: &str, accounts: &Accounts, users: Users) -> Result<Self, BirthError> {
        let refuse = |why: String| BirthError {
            fault: StartFault::Other,
            step: "find the box's user".to_owned(),
            message: format!("cannot run as `{user}`: {why}"),
            errno: None,
        };
        let account = accounts.find(user);
        let account = account.ok_or_else(|| refuse("the box has no such user".to_owned()))?;
        let outside = |id| users.outside(id);
        let (Some(uid_outside), Some(gid_outside)) = (outside(account.uid), outside(account.gid))
        else {
            let (first, last) = users.first_and_last();
            return Err(refuse(if first == last {
                "boxes have one user on this host, `box`; `min doctor` says how to get more"
                    .to_owned()
            } else {
                format!("a box has the ids {first} to {last}")
            }));
        };
        Ok(Self { account, uid_outside, gid_outside })
    }

    pub(super) fn is_root(&self) -> bool {
        self.account.uid == 0
    }

    /// What it may do beyond what every user may, by name.
    pub(super) fn capability_names(&self) -> Vec<String> {
        OF_ROOT.iter().filter(|_| self.is_root()).map(|(_, name)| (*name).to_owned()).collect()
    }

    /// Makes it the owner of a file of the box's, or of a pipe: a program that opens /dev/stdout opens
    /// the pipe anew, which its owner may.
    pub(super) fn own(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let (uid, gid) = (self.uid_outside, self.gid_outside);
        if (uid, gid) == (0, 0) {
            // That is ourselves.
            return Ok(());
        }
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        Ok(rustix::fs::fchown(file, Some(uid), Some(gid))?)
    }
}
