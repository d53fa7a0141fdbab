//! The state directory: where all boxes are.

mod blank;
mod create;
mod open;
mod reap;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::BoxId;
use rustix::fs::{Dir, Mode, OFlags};

pub use blank::BlankDir;
pub use create::CreateError;
pub use open::StateDirError;
pub use reap::ReapError;

use crate::box_dir::{BoxDir, BoxDirError};

pub(crate) const LOCK: &str = "lock";
const FORMAT: &str = "format";
const BOXES: &str = "boxes";
const REAPING: &str = "reaping";

/// Where directories are made before they are a box's.
const NEW: &str = "new";

/// The state directory, held open.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    fd: OwnedFd,
    boxes: OwnedFd,
    new: OwnedFd,
    reaping: OwnedFd,
    leftovers: blank::Leftovers,
}

/// A name in `boxes/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    /// A box's.
    Box(BoxId),
    /// Something that is no box's: to be listed as broken, and never touched.
    Foreign(OsString),
}

/// The directory of the boxes could not be listed.
#[derive(Debug, thiserror::Error)]
#[error("list the boxes in `{}`", path.display())]
pub struct ListError {
    path: PathBuf,
    source: io::Error,
}

impl StateDir {
    /// Where it is, as an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory.
    #[must_use]
    pub fn dir_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Where the directory of a box is or would be.
    #[must_use]
    pub fn box_path(&self, id: BoxId) -> PathBuf {
        self.path.join(BOXES).join(id.to_string())
    }

    /// Opens the directory of a box.
    ///
    /// # Errors
    /// There is none, or it cannot be opened.
    pub fn box_dir(&self, id: BoxId) -> Result<BoxDir, BoxDirError> {
        BoxDir::open_at(self.boxes.as_fd(), Path::new(&id.to_string()), &self.box_path(id))
    }

    /// Every name in `boxes/`, boxes first and oldest first.
    ///
    /// # Errors
    /// It cannot be listed.
    pub fn box_ids(&self) -> Result<Vec<Entry>, ListError> {
        let names = names(self.boxes.as_fd())
            .map_err(|source| ListError { path: self.path.join(BOXES), source })?;
        let mut entries: Vec<Entry> = names
            .into_iter()
            .map(|name| match name.to_str().and_then(|text| text.parse().ok()) {
                Some(id) => Entry::Box(id),
                None => Entry::Foreign(name),
            })
            .collect();
        entries.sort_unstable();
        Ok(entries)
    }
}

/// The names in a directory, without `.` and `..`.
fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// Opens a directory for listing and syncing, without following a symbolic link.
fn open_dir(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests;
