//! The state directory: where all boxes are.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use minimal_proto::event::Created;
use minimal_proto::{BoxId, Spec, Timestamp};

use crate::box_dir::{BoxDir, BoxDirError};

pub(crate) const LOCK: &str = "lock";

/// The state directory, held open.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    fd: OwnedFd,
}

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Anything else.
    #[error("open the state directory `{}`", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl StateDirError {
    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        String::new()
    }
}

/// A name in `boxes/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// A box's.
    Box(BoxId),
    /// Something that is no box's; listed as broken, never touched.
    Foreign(OsString),
}

/// A box's directory could not be made; nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The id is taken by a box that is there.
    #[error("the box {id} exists")]
    Exists {
        /// The id.
        id: BoxId,
    },
    /// The file system is full, or the quota used up.
    #[error("make the box directory `{}`: there is no space", path.display())]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Anything else.
    #[error("{attempt} `{}`", path.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The directory of the boxes could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("list the boxes in `{}`", path.display())]
pub struct ListError {
    path: PathBuf,
    source: io::Error,
}

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
    #[error("move `{}` to be deleted", path.display())]
    Move {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It is no box any more, but not all of it could be deleted; the next
    /// [`StateDir::finish_reaping`] goes on.
    #[error("delete `{}`", path.display())]
    Remove {
        /// What could not be deleted.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl StateDir {
    /// Opens the state directory and makes what is missing of it.
    ///
    /// # Errors
    /// It cannot be made, is not ours alone, or is of a format of another version.
    pub fn open(_path: &Path) -> Result<Self, StateDirError> {
        unimplemented!()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory.
    #[must_use]
    pub fn dir_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Opens the directory of a box.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn box_dir(&self, _id: BoxId) -> Result<BoxDir, BoxDirError> {
        unimplemented!()
    }

    /// Makes the directory of a new box, with its spec and its first event. Nothing is fsynced:
    /// [`crate::JournalWriter::sync`] does that once the box runs.
    ///
    /// # Errors
    /// Nothing was made.
    pub fn create_box(
        &self,
        _id: BoxId,
        _spec: &Spec,
        _created: Created,
        _ts: Timestamp,
    ) -> Result<BoxDir, CreateError> {
        unimplemented!()
    }

    /// Every name in `boxes/`, boxes first and oldest first.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn box_ids(&self) -> Result<Vec<Entry>, ListError> {
        unimplemented!()
    }

    /// First half of [`StateDir::reap`]: from here on there is no such box, whatever happens.
    ///
    /// # Errors
    /// It is missing, or could not be moved.
    pub fn condemn(&self, _id: BoxId) -> Result<(), ReapError> {
        unimplemented!()
    }

    /// Deletes a box: moves it out of `boxes/` in one step, then removes it.
    ///
    /// # Errors
    /// See [`ReapError`] for what then is left.
    pub fn reap(&self, _id: BoxId) -> Result<(), ReapError> {
        unimplemented!()
    }

    /// Finishes what a crash interrupted: removes everything in `reaping/` and the unfinished
    /// directories in `boxes/`. For the daemon, at its start. Returns what could not be removed.
    #[must_use]
    pub fn finish_reaping(&self) -> Vec<ReapError> {
        unimplemented!()
    }
}
