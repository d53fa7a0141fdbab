//! Deleting boxes, across crashes.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;

use minimal_proto::BoxId;
use rustix::fs::AtFlags;
use rustix::io::Errno;

use super::{NEW, REAPING, StateDir, names};
use crate::hook;
use crate::remove::{RemoveError, remove_tree};

/// A box could not be deleted.
#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    /// There is no such box.
    #[error("there is no box {id}")]
    Missing {
        /// The id.
        id: BoxId,
    },
    /// It could not be moved out of the boxes, and is as it was.
    #[error("move `{}` away to be deleted", path.display())]
    Move {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It is no box any more, but not all of it could be deleted; the next
    /// [`StateDir::reap`] of the same id or [`StateDir::finish_reaping`] goes on.
    #[error("delete `{}`", path.display())]
    Remove {
        /// The directory.
        path: PathBuf,
        /// What stood in the way.
        source: RemoveError,
    },
    /// What there is to be deleted cannot be listed.
    #[error("list `{}`", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl StateDir {
    /// Moves a box out of `boxes/`: from here on there is no such box, whatever happens. The
    /// caller holds both of its locks.
    ///
    /// # Errors
    /// It is missing, or could not be moved.
    pub fn condemn(&self, id: BoxId) -> Result<(), ReapError> {
        let name = id.to_string();
        let error = |source| ReapError::Move { path: self.box_path(id), source };
        hook::point("store.reap.before_rename").map_err(error)?;
        match rustix::fs::renameat(&self.boxes, &name, &self.reaping, &name) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(ReapError::Missing { id }),
            Err(errno) => return Err(error(errno.into())),
        }
        hook::point("store.reap.after_rename").map_err(error)
    }

    /// Deletes a box: moves it out of `boxes/` in one step, then removes it. Can be repeated after
    /// [`ReapError::Remove`].
    ///
    /// # Errors
    /// See [`ReapError`] for what then is left.
    pub fn reap(&self, id: BoxId) -> Result<(), ReapError> {
        let name = id.to_string();
        match self.condemn(id) {
            Err(ReapError::Missing { .. }) if self.is_condemned(&name) => {}
            other => other?,
        }
        self.remove(self.reaping.as_fd(), REAPING, name.into())
    }

    /// Goes on deleting a box that was moved out of `boxes/`; any other is left alone.
    ///
    /// # Errors
    /// [`ReapError::Remove`].
    pub fn remove_condemned(&self, id: BoxId) -> Result<(), ReapError> {
        self.remove(self.reaping.as_fd(), REAPING, id.to_string().into())
    }

    /// The boxes that were moved out of `boxes/` and are not deleted yet.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn condemned(&self) -> Result<Vec<BoxId>, ReapError> {
        let error = |source| ReapError::List { path: self.path.join(REAPING), source };
        let found = names(self.reaping.as_fd()).map_err(error)?;
        Ok(found.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
    }

    /// Finishes what a crash interrupted: removes everything in `reaping/`, and what was made in `new/`
    /// for boxes that never were. For the daemon, at its start, before it makes boxes. Returns what
    /// could not be removed; none of it is a box.
    #[must_use]
    pub fn finish_reaping(&self) -> Vec<ReapError> {
        let mut errors = Vec::new();
        for (dir, name) in [(&self.reaping, REAPING), (&self.new, NEW)] {
            let found = names(dir.as_fd());
            let found = found.unwrap_or_else(|source| {
                errors.push(ReapError::List { path: self.path.join(name), source });
                Vec::new()
            });
            errors
                .extend(found.into_iter().filter_map(|f| self.remove(dir.as_fd(), name, f).err()));
        }
        errors
    }

    fn is_condemned(&self, name: &str) -> bool {
        rustix::fs::statat(&self.reaping, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn remove(&self, dir: BorrowedFd<'_>, place: &str, name: OsString) -> Result<(), ReapError> {
        remove_tree(dir, &name)
            .map_err(|source| ReapError::Remove { path: self.path.join(place).join(name), source })
    }
}
