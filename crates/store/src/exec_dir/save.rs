//! Bringing endings of execs to disk, several in one go.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;

use minimal_proto::exec::ExecEnd;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{END, END_BESIDE, ExecDir, ExecDirError, FILE, open_dir};
use crate::log::LogHome as _;
use crate::{hook, regular};

/// An ending that is to be brought to disk.
#[derive(Clone, Copy, Debug)]
pub struct Unsaved<'a> {
    dir: &'a ExecDir,
    end: &'a ExecEnd,
}

impl<'a> Unsaved<'a> {
    /// The ending of the exec of this directory.
    #[must_use]
    pub const fn new(dir: &'a ExecDir, end: &'a ExecEnd) -> Self {
        Self { dir, end }
    }

    /// Writes it, durable with the exec's record. It can be repeated.
    ///
    /// # Errors
    /// It may not be on disk.
    pub fn save(self) -> Result<(), ExecDirError> {
        self.write().and_then(|file| self.name(&file)).and_then(|()| self.dir.sync())
    }

    /// Saves several: all are written before the first is synced, so that a file system with a
    /// journal brings most of them to disk at once. One result for each.
    #[must_use]
    pub fn save_all(several: &[Self]) -> Vec<Result<(), ExecDirError>> {
        let written: Vec<_> = several.iter().map(|one| one.write()).collect();
        let named: Vec<_> = several
            .iter()
            .zip(written)
            .map(|(one, file)| file.and_then(|file| one.name(&file)))
            .collect();
        several.iter().zip(named).map(|(one, named)| named.and_then(|()| one.dir.sync())).collect()
    }

    fn write(self) -> Result<File, ExecDirError> {
        let json = serde_json::to_vec(self.end).expect("an ending has string keys only");
        hook::point("store.exec.before_end")
            .and_then(|()| self.dir.write_beside(END_BESIDE, &json))
            .map_err(|source| self.error(source))
    }

    /// Gives it its name: nobody reads an ending before it is on disk.
    fn name(self, file: &File) -> Result<(), ExecDirError> {
        let fd = self.dir.dir_fd();
        file.sync_data()
            .and_then(|()| Ok(rustix::fs::renameat(fd, END_BESIDE, fd, END)?))
            .and_then(|()| hook::point("store.exec.after_end"))
            .map_err(|source| self.error(source))
    }

    fn error(self, source: io::Error) -> ExecDirError {
        ExecDirError::Write { path: self.dir.path().join(END), source }
    }
}

impl ExecDir {
    /// Makes what is in the directory durable, and its name.
    ///
    /// # Errors
    /// It may not be durable; the call can be repeated.
    pub fn sync(&self) -> Result<(), ExecDirError> {
        let done = (|| -> io::Result<()> {
            regular::open(self.dir_fd(), FILE, OFlags::RDONLY)?.sync_data()?;
            // From the inside out: a name is worth nothing without what it names. The exec's
            // directory, `execs/`, and the box's.
            let execs = open_dir(self.dir_fd(), "..")?;
            sync_dir(self.dir_fd())?;
            sync_dir(execs.as_fd())?;
            sync_dir(open_dir(execs.as_fd(), "..")?.as_fd())
        })();
        done.map_err(|source| ExecDirError::Write { path: self.path().to_owned(), source })
    }
}

fn sync_dir(dir: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    match rustix::fs::fsync(dir) {
        // Some network file systems cannot sync a directory, and do not need it.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
