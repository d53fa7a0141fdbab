//! What a box is given of the host, held open: the project's directory, or the source of a mount.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_proto::Signal;
use minimal_proto::api::FileId;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat};

use super::mounts::Around;
use super::{BirthError, about};
use crate::birth::{on_host, readable_before};

/// How long the project's directory may take to answer.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// A directory of the host, or a file of it, held open: whatever its path means later, it is the same.
#[derive(Debug)]
pub(in crate::birth) struct Project {
    /// Where it was found; for messages.
    pub(in crate::birth) path: PathBuf,
    fd: OwnedFd,
    /// Its owner, mode and times.
    pub(in crate::birth) stat: Stat,
    /// What is mounted below it, as paths of the host.
    pub(in crate::birth) mounts_below: Vec<PathBuf>,
}

impl Project {
    /// Opens it, without following a symbolic link anywhere on the way. Who made the box has named
    /// it without any, so one was put there since.
    ///
    /// `meant` is which one they mean: what was mounted in our namespace when the daemon started may
    /// be another than what the host has there now.
    pub(super) fn open(path: &Path, meant: Option<FileId>, what: &str) -> Result<Self, BirthError> {
        Self::open_any(path, meant, OFlags::DIRECTORY, what)
    }

    /// The same for whatever is there.
    pub(in crate::birth) fn open_source(
        path: &Path,
        meant: Option<FileId>,
        what: &str,
    ) -> Result<Self, BirthError> {
        Self::open_any(path, meant, OFlags::empty(), what)
    }

    fn open_any(
        path: &Path,
        meant: Option<FileId>,
        kind: OFlags,
        what: &str,
    ) -> Result<Self, BirthError> {
        let failed = about(what, path);
        let around = Around::of(path).map_err(&failed)?;
        if !around.local {
            look_at(path).map_err(&failed)?;
        }
        // O_PATH: the directory of another user may be given though not even we may list it.
        let flags = OFlags::PATH | OFlags::CLOEXEC | kind;
        let opened =
            rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let fd = opened.map_err(|errno| match errno {
            rustix::io::Errno::LOOP => BirthError {
                message: format!(
                    "cannot {what}: {}: a symbolic link is on the way to it",
                    path.display()
                ),
                ..BirthError::new(what, &errno.into())
            },
            errno => failed(errno.into()),
        })?;
        let stat = rustix::fs::fstat(&fd).map_err(|errno| failed(errno.into()))?;
        if let Some(meant) = meant {
            on_host::check_same(fd.as_fd(), meant).map_err(&failed)?;
        }
        Ok(Self { path: path.to_owned(), fd, stat, mounts_below: around.below })
    }

    /// The directory: to look below it, or to make a mount of it.
    pub(in crate::birth) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Looks at a directory from a child of ours first: one on a dead network mount never answers, and
/// who waits for it cannot even be killed.
pub(in crate::birth) fn look_at(directory: &Path) -> io::Result<()> {
    match fork()? {
        Forked::Child => {
            // How it ends says only that it ends: the keeper asks again.
            directory.metadata().ok();
            exit_now(0)
        }
        Forked::Parent(mut child) => {
            if !readable_before(child.as_fd(), Instant::now() + LOOK_LIMIT)? {
                // Left behind: it ends when the mount answers.
                child.signal(Signal::KILL)?;
                return Err(io::Error::other("it does not answer; is it on a dead network mount?"));
            }
            child.reap().map(drop)
        }
    }
}
