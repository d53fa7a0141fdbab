//! What this host lets us do, found by trying.

use std::io;
use std::io::{Read as _, Write as _};

use crate::fork::{Forked, exit_now, fork};
use crate::namespaces::{self, IdRange, Setgroups};

/// A step that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step}: {}", io::Error::from_raw_os_error(*errno))]
pub struct ProbeFailure {
    /// What was attempted.
    pub step: &'static str,
    /// The kernel's answer.
    pub errno: i32,
}

/// Tries to make a user and mount namespace, map ourselves in it and mount a tmpfs, in a child.
/// The process must have one thread.
///
/// # Errors
/// The first step that was refused.
pub fn user_namespaces() -> Result<(), ProbeFailure> {
    let failure = |step, error: &io::Error| ProbeFailure {
        step,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let (mut answer, tell) = io::pipe().map_err(|error| failure("make a pipe", &error))?;
    match fork().map_err(|error| failure("make a process", &error))? {
        Forked::Child => {
            drop(answer);
            if let Err(refused) = try_user_namespace() {
                let mut message = vec![
                    STEPS
                        .iter()
                        .position(|step| *step == refused.step)
                        .map_or(0, |at| u8::try_from(at).expect("there are three steps")),
                ];
                message.extend_from_slice(&refused.errno.to_le_bytes());
                // The parent reads until the end; without it there is nobody to tell.
                drop((&tell).write_all(&message));
            }
            exit_now(0);
        }
        Forked::Parent(mut child) => {
            drop(tell);
            let mut message = Vec::new();
            let read = answer.read_to_end(&mut message);
            child.reap().map_err(|error| failure("wait for the probe", &error))?;
            read.map_err(|error| failure("read the probe's answer", &error))?;
            match message.split_first() {
                None => Ok(()),
                Some((step, errno)) => Err(ProbeFailure {
                    step: STEPS.get(usize::from(*step)).copied().unwrap_or(STEPS[0]),
                    errno: errno.try_into().map_or(libc::EIO, i32::from_le_bytes),
                }),
            }
        }
    }
}

const STEPS: [&str; 3] = [
    "make a user and mount namespace",
    "map our own user in a user namespace",
    "mount a tmpfs in a user namespace",
];

fn try_user_namespace() -> Result<(), ProbeFailure> {
    let failure = |step: usize| {
        move |error: io::Error| ProbeFailure {
            step: STEPS[step],
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    };
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    namespaces::own_user_and_mounts().map_err(failure(0))?;
    let one = |id| [IdRange { inside: 0, outside: id, count: 1 }];
    namespaces::write_id_maps("self", &one(uid.as_raw()), &one(gid.as_raw()), Setgroups::Deny)
        .map_err(failure(1))?;
    crate::mount::new_file_system("tmpfs", &[], crate::mount::Restrictions::OWN)
        .map(drop)
        .map_err(failure(2))
}
