//! Who is alive: POSIX record locks, which go with their process (fcntl(2)).
//!
//! A forked child does not have its parent's locks, unlike with flock(2) and open file description
//! locks, so a lock says that one process lives. The price: closing any descriptor of the file
//! gives up all locks the process has on it. So each file is opened once per process that locks
//! it, and kept open for as long as the locks are to last.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use minimal_linux::record_lock::{self, Holder};
use rustix::fs::OFlags;

use crate::box_dir::{BoxDir, LIFE_LOCK};
use crate::regular;
use crate::state_dir::{LOCK, StateDir};

/// The byte of `life.lock` that a keeper holds while it lives.
pub const KEEPER_BYTE: u64 = 0;
/// The byte of `life.lock` that a box's init holds while it lives.
pub const INIT_BYTE: u64 = 1;

/// A lock file could not be opened, locked or asked.
#[derive(Debug, thiserror::Error)]
#[error("{attempt} `{}`", path.display())]
pub struct LockError {
    attempt: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl From<LockError> for io::Error {
    fn from(error: LockError) -> Self {
        Self::new(error.source.kind(), error)
    }
}

/// The locks of one box. Whoever has both knows that nobody else acts for the box.
///
/// A process has at most one of these per box: dropping one drops every lock of the process on
/// that box.
#[derive(Debug)]
pub struct LifeLock {
    path: PathBuf,
    file: File,
}

/// Who lives, as other processes' locks show it. One's own locks are not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holders {
    /// Another process is the box's keeper.
    pub keeper: bool,
    /// Another process is the box's init.
    pub init: bool,
}

impl Holders {
    /// Whether nobody is there.
    #[must_use]
    pub fn nobody(self) -> bool {
        !self.keeper && !self.init
    }
}

impl LifeLock {
    /// Opens the box's lock file; takes no lock.
    ///
    /// # Errors
    /// The file is missing, is not a regular file, or cannot be opened.
    pub fn open(dir: &BoxDir) -> Result<Self, LockError> {
        let path = dir.path().join(LIFE_LOCK);
        match regular::open(dir.dir_fd(), LIFE_LOCK, OFlags::RDWR) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(LockError { attempt: "open the lock file", path, source }),
        }
    }

    /// Takes the keeper's lock. `false`: another process has it.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn try_keeper(&self) -> Result<bool, LockError> {
        self.take(KEEPER_BYTE)
    }

    /// Takes the init's lock. `false`: another process has it.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn try_init(&self) -> Result<bool, LockError> {
        self.take(INIT_BYTE)
    }

    /// Takes both locks, or neither.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn try_both(&self) -> Result<bool, LockError> {
        if !self.try_keeper()? {
            return Ok(false);
        }
        if self.try_init()? {
            return Ok(true);
        }
        self.release(KEEPER_BYTE)?;
        Ok(false)
    }

    /// Gives up both locks and keeps the file open.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn release_both(&self) -> Result<(), LockError> {
        self.release(KEEPER_BYTE)?;
        self.release(INIT_BYTE)
    }

    /// Who else lives.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn holders(&self) -> Result<Holders, LockError> {
        Ok(Holders { keeper: self.is_held(KEEPER_BYTE)?, init: self.is_held(INIT_BYTE)? })
    }

    /// The pid of another process that is the box's keeper, for people; none if there is none, or it
    /// cannot be seen from here.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn keeper_pid(&self) -> Result<Option<i32>, LockError> {
        let holder = record_lock::holder(self.fd(), KEEPER_BYTE)
            .map_err(|source| self.error("ask for the locks of", source))?;
        Ok(holder.and_then(|holder| holder.pid))
    }

    /// Notes that the box's command is about to be executed. In the file's length, which takes no
    /// space on a full disk; for whoever finds that its keeper was killed before it had told.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn mark_begun(&self) -> Result<(), LockError> {
        self.file.set_len(1).map_err(|source| self.error("write", source))
    }

    /// Notes that it is not: of a further life. Whoever does holds both locks.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn mark_not_begun(&self) -> Result<(), LockError> {
        self.file.set_len(0).map_err(|source| self.error("write", source))
    }

    /// Whether the command of the box's present life may have been executed.
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn has_begun(&self) -> Result<bool, LockError> {
        let metadata = self.file.metadata().map_err(|source| self.error("look at", source))?;
        Ok(metadata.len() > 0)
    }

    /// The descriptor, for the init to inherit and lock [`INIT_BYTE`] on.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn take(&self, byte: u64) -> Result<bool, LockError> {
        record_lock::try_write_lock(self.fd(), byte).map_err(|source| self.error("lock", source))
    }

    fn release(&self, byte: u64) -> Result<(), LockError> {
        record_lock::unlock(self.fd(), byte).map_err(|source| self.error("unlock", source))
    }

    fn is_held(&self, byte: u64) -> Result<bool, LockError> {
        record_lock::holder(self.fd(), byte)
            .map(|holder| holder.is_some())
            .map_err(|source| self.error("ask for the locks of", source))
    }

    fn error(&self, attempt: &'static str, source: io::Error) -> LockError {
        LockError { attempt, path: self.path.clone(), source }
    }
}

/// That this process is the state directory's daemon; lasts until dropped.
#[derive(Debug)]
pub struct DaemonLock {
    // The lock goes when the file is closed.
    file: File,
}

impl DaemonLock {
    /// Whether the lock still keeps others out: its file is the one in the state directory.
    #[must_use]
    pub fn is_in_place(&self, state: &StateDir) -> bool {
        let ours = rustix::fs::fstat(&self.file);
        let theirs =
            rustix::fs::statat(state.dir_fd(), LOCK, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino),
            _ => false,
        }
    }
}

/// The process that is the daemon of the state directory at `path`. Opens nothing but the lock file.
///
/// # Errors
/// The lock file is there and cannot be asked.
pub fn daemon(path: &Path) -> Result<Option<Holder>, LockError> {
    let path = path.join(LOCK);
    let error = |attempt| {
        let path = path.clone();
        move |source| LockError { attempt, path, source }
    };
    let file = match File::options()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(&path)
    {
        Ok(file) => file,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(error("open the lock file")(source)),
    };
    record_lock::holder(file.as_fd(), 0).map_err(error("ask for the lock of"))
}

/// Becomes the state directory's daemon. `None`: another process is.
///
/// A process calls this once: a second success, dropped, would give up the first one's lock.
///
/// # Errors
/// The lock file cannot be opened or locked.
pub fn try_lock_daemon(state: &StateDir) -> Result<Option<DaemonLock>, LockError> {
    let path = state.path().join(LOCK);
    let error = |attempt| {
        let path = path.clone();
        move |source| LockError { attempt, path, source }
    };
    let file = regular::open(state.dir_fd(), LOCK, OFlags::RDWR | OFlags::CREATE)
        .map_err(error("open the lock file"))?;
    let taken = record_lock::try_write_lock(file.as_fd(), 0).map_err(error("lock"))?;
    Ok(taken.then_some(DaemonLock { file }))
}
