//! Deleting a tree that may hold anything.
//!
//! The tree is flattened while it is deleted: a directory below the top is moved up into the top,
//! and then has its turn. So the depth of the tree costs neither stack nor descriptors, memory does
//! not grow with the tree, and what a crash leaves is a smaller tree of the same kind. No path is
//! resolved: everything is done by one name in an open directory, and no link is followed.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, Dir, FileType, OFlags};
use rustix::io::Errno;

use crate::hook;
use crate::regular::PRIVATE_DIR;

/// Something of a tree could not be removed; the rest was.
#[derive(Debug, thiserror::Error)]
#[error("remove `{}`", path.display())]
pub struct RemoveError {
    path: PathBuf,
    source: io::Error,
}

/// Removes `name` in `parent` with everything below it. That it is not there is success, so a
/// removal that was interrupted, or failed, can be repeated.
///
/// # Errors
/// The first thing that could not be removed. As much as can be is removed all the same.
pub fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), RemoveError> {
    let fault = |path: &[u8], source: io::Error| RemoveError {
        path: PathBuf::from(OsStr::from_bytes(path)),
        source,
    };
    let bytes = name.as_bytes();
    let c_name = CString::new(bytes).map_err(|error| fault(bytes, error.into()))?;
    match rustix::fs::unlinkat(parent, &c_name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // For a directory Linux answers EISDIR, POSIX EPERM. What cannot be opened as one below
        // was a file that could not be unlinked.
        Err(_) => {}
    }
    let top = open_accessible(parent, &c_name).map_err(|source| fault(bytes, source))?;
    let mut flattening = Flattening { top, serial: 0, progress: true, first_error: None };
    // One pass may miss names that were moved up while it listed.
    while std::mem::take(&mut flattening.progress) {
        flattening.first_error = None;
        if let Err(source) = flattening.pass() {
            return Err(fault(bytes, source));
        }
        match rustix::fs::unlinkat(parent, &c_name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(fault(bytes, errno.into())),
        }
    }
    let (path, source) = flattening
        .first_error
        .unwrap_or_else(|| (CString::default(), io::Error::from(Errno::NOTEMPTY)));
    Err(fault(&[bytes, b"/", path.to_bytes()].concat(), source))
}

/// The state of one removal.
struct Flattening {
    top: OwnedFd,
    /// Numbers the names given to directories that are moved up.
    serial: u64,
    /// Whether this pass removed or moved anything.
    progress: bool,
    first_error: Option<(CString, io::Error)>,
}

impl Flattening {
    /// Goes over the names in the top once.
    fn pass(&mut self) -> io::Result<()> {
        for entry in Dir::read_from(&self.top)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_dot(name) {
                continue;
            }
            match unlink(self.top.as_fd(), name, entry.file_type()) {
                Ok(Unlinked::Gone) => self.progress = true,
                Ok(Unlinked::Directory) => {
                    hook::point("store.reap.during_remove")?;
                    if let Err(error) = self.remove_dir(name) {
                        self.note(name, error);
                    }
                }
                Err(error) => self.note(name, error),
            }
        }
        Ok(())
    }

    /// Empties a directory in the top, moving its directories up, and removes it.
    fn remove_dir(&mut self, name: &CStr) -> io::Result<()> {
        if rustix::fs::unlinkat(&self.top, name, AtFlags::REMOVEDIR).is_ok() {
            self.progress = true;
            return Ok(());
        }
        let dir = open_accessible(self.top.as_fd(), name)?;
        // Listing a directory that changes may miss names: go on until there is nothing to do.
        let mut again = true;
        while again {
            again = false;
            for entry in Dir::read_from(&dir)? {
                let entry = entry?;
                let inner = entry.file_name();
                if is_dot(inner) {
                    continue;
                }
                let done = match unlink(dir.as_fd(), inner, entry.file_type()) {
                    Ok(Unlinked::Gone) => Ok(()),
                    Ok(Unlinked::Directory) => self.move_up(dir.as_fd(), inner),
                    Err(error) => Err(error),
                };
                match done {
                    Ok(()) => {
                        again = true;
                        self.progress = true;
                    }
                    Err(error) => self.note(inner, error),
                }
            }
        }
        rustix::fs::unlinkat(&self.top, name, AtFlags::REMOVEDIR)?;
        self.progress = true;
        Ok(())
    }

    /// Moves a directory into the top, under a name that is free there.
    fn move_up(&mut self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let mut opened = false;
        loop {
            self.serial += 1;
            let free = format!(".{}", self.serial);
            // Onto an empty directory this replaces it, which is as good as deleting that.
            match rustix::fs::renameat(dir, name, &self.top, &free) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR | Errno::ISDIR) => {}
                // Its `..` changes, so a directory must be writable to be moved.
                Err(Errno::ACCESS) if !opened => {
                    drop(open_accessible(dir, name)?);
                    opened = true;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn note(&mut self, name: &CStr, error: io::Error) {
        if self.first_error.is_none() {
            self.first_error = Some((name.to_owned(), error));
        }
    }
}

/// What became of a name that was to be unlinked.
enum Unlinked {
    Gone,
    /// It is a directory, which is not unlinked.
    Directory,
}

fn unlink(dir: BorrowedFd<'_>, name: &CStr, kind: FileType) -> io::Result<Unlinked> {
    if kind == FileType::Directory {
        return Ok(Unlinked::Directory);
    }
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(Unlinked::Gone),
        // Some file systems do not say in a listing what a name is.
        Err(Errno::ISDIR) => Ok(Unlinked::Directory),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a directory such that it can be listed and changed. Its owner's permissions are what a
/// box left: they are given back first where they are missing.
fn open_accessible(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(parent, name, flags | OFlags::PATH, rustix::fs::Mode::empty())?;
    let mode = rustix::fs::fstat(&handle)?.st_mode;
    let itself = format!("/proc/self/fd/{}", handle.as_raw_fd());
    if mode & 0o700 != 0o700 {
        // By way of the descriptor, since fchmodat(2) would follow a link put in its place. A
        // refusal is left to show where the permission is needed: root needs none.
        let _refused = rustix::fs::chmodat(CWD, itself.as_str(), PRIVATE_DIR, AtFlags::empty());
    }
    let listing = flags | OFlags::RDONLY;
    Ok(rustix::fs::openat(&handle, c".", listing, rustix::fs::Mode::empty())?)
}

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests;
