//! What this host lets us do, found by trying.

use std::io;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::OFlags;

use crate::fork::{Forked, exit_now, fork};
use crate::namespaces::{self, IdRange, Setgroups};
use crate::overlay::{self, Layers, Marks};

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
    in_a_child(&NAMESPACE_STEPS, enter_namespace)
}

/// Tries to lay an overlay as boxes have it over a system directory, in memory and in a child. The
/// process must have one thread.
///
/// # Errors
/// The first step that was refused.
pub fn overlay() -> Result<(), ProbeFailure> {
    in_a_child(&OVERLAY_STEPS, || {
        let memory = enter_namespace()?;
        let refused = |error| (NAMESPACE_STEPS.len(), error);
        let layer = |name| -> io::Result<OwnedFd> {
            rustix::fs::mkdirat(&memory, name, rustix::fs::Mode::RWXU)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(rustix::fs::openat(&memory, name, flags, rustix::fs::Mode::empty())?)
        };
        let (lower, upper, work) = (
            layer("lower").map_err(refused)?,
            layer("upper").map_err(refused)?,
            layer("work").map_err(refused)?,
        );
        let layers = Layers { lowers: &[lower.as_fd()], upper: upper.as_fd(), work: work.as_fd() };
        overlay::new(layers, Marks::User)
            .map_err(|error| refused(io::Error::from_raw_os_error(error.errno)))
    })
}

const NAMESPACE_STEPS: [&str; 3] = [
    "make a user and mount namespace",
    "map our own user in a user namespace",
    "mount a tmpfs in a user namespace",
];
const OVERLAY_STEPS: [&str; 4] =
    [NAMESPACE_STEPS[0], NAMESPACE_STEPS[1], NAMESPACE_STEPS[2], "mount an overlay"];

fn enter_namespace() -> Result<OwnedFd, (usize, io::Error)> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let refused = |step: usize| move |error: io::Error| (step, error);
    namespaces::own_user_and_mounts().map_err(refused(0))?;
    let one = |id| [IdRange { inside: 0, outside: id, count: 1 }];
    namespaces::write_id_maps("self", &one(uid.as_raw()), &one(gid.as_raw()), Setgroups::Deny)
        .map_err(refused(1))?;
    crate::mount::new_file_system("tmpfs", &[], crate::mount::Restrictions::OWN).map_err(refused(2))
}

/// Attempts something in a child, which says by number which of the steps was refused.
fn in_a_child<T>(
    steps: &'static [&'static str],
    attempt: impl FnOnce() -> Result<T, (usize, io::Error)>,
) -> Result<(), ProbeFailure> {
    let failure = |step, error: &io::Error| ProbeFailure {
        step,
        errno: error.raw_os_error().unwrap_or(libc::EIO),
    };
    let (mut answer, tell) = io::pipe().map_err(|error| failure("make a pipe", &error))?;
    match fork().map_err(|error| failure("make a process", &error))? {
        Forked::Child => {
            drop(answer);
            if let Err((step, error)) = attempt() {
                let mut message = vec![u8::try_from(step).unwrap_or(u8::MAX)];
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                message.extend_from_slice(&errno.to_le_bytes());
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
                    step: steps.get(usize::from(*step)).copied().unwrap_or("try it"),
                    errno: errno.try_into().map_or(libc::EIO, i32::from_le_bytes),
                }),
            }
        }
    }
}
