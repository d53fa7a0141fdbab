//! What is kept of one exec: `execs/<id>/` of its box's directory.
//!
//! ```text
//! exec.json   what was asked for; there before anything is executed
//! end.new     room for the ending, so that a full disk cannot lose it; until there is one
//! end.json    the ending; synced before anyone is told
//! log/        its output, as a box's
//! ```
//!
//! Each has a directory of its own, so a million execs do not weigh on the box's journal.

mod save;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use minimal_proto::exec::{ExecEnd, ExecFile};
use minimal_proto::{Ending, ExecId, Timestamp};
use rustix::fs::{AtFlags, Dir, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use crate::box_dir::{BoxDir, EXECS};
use crate::log::LogHome;
use crate::log::{self, LogError, LogWriter};
use crate::regular::{self, PRIVATE_DIR};
use crate::{hook, remove};

pub use save::Unsaved;

const FILE: &str = "exec.json";
const FILE_BESIDE: &str = "exec.new";
const END: &str = "end.json";
const END_BESIDE: &str = "end.new";

/// The word in `exec.json`'s `schema`.
pub const FILE_SCHEMA: &str = "min/v1/exec-file";
/// The word in `end.json`'s `schema`.
pub const END_SCHEMA: &str = "min/v1/exec-end";

/// The longest `exec.json`, in bytes: arguments are at most 6 MiB (execve(2)), and JSON may double
/// them.
const MAX_FILE: u64 = 16 << 20;
/// The longest `end.json`, in bytes. An ending is some 300, and its message a path or two of at most
/// 4 KiB (`PATH_MAX`).
const MAX_END: u64 = 64 << 10;
/// Room that is kept for an ending, in bytes: a block of most file systems.
const RESERVE: u64 = 4 << 10;

/// The directory of one exec, held open.
#[derive(Debug)]
pub struct ExecDir {
    id: ExecId,
    path: PathBuf,
    fd: OwnedFd,
}

/// An exec's directory cannot be made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum ExecDirError {
    /// There is no such exec of this box.
    #[error("there is no exec directory `{}`", path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// It, or a file in it, cannot be read.
    #[error("read `{}`", path.display())]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file in it is longer than any we write.
    #[error("read `{}`: it is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most it may hold.
        limit: u64,
    },
    /// A file in it does not hold what it must.
    #[error("read `{}`: it does not hold what it must", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It holds the record of another exec.
    #[error("read `{}`: it is the record of the exec {found}", path.display())]
    OtherExec {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: ExecId,
    },
    /// It cannot be made or written.
    #[error("write `{}`", path.display())]
    Write {
        /// The directory or file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl ExecDir {
    /// Makes the directory of a new exec, with its record and its log, of which `log_max` bytes are
    /// kept. Nothing is synced.
    ///
    /// # Errors
    /// There is one of the id already, or it cannot be made; nothing of it is left then, unless that
    /// cannot be removed either.
    pub fn create(
        dir: &BoxDir,
        file: &ExecFile,
        log_max: u64,
    ) -> Result<(Self, LogWriter), ExecDirError> {
        let path = path(dir, file.id);
        let failed = |source| ExecDirError::Write { path: path.clone(), source };
        let execs = make_dir(dir.dir_fd(), EXECS).map_err(failed)?;
        let name = file.id.to_string();
        rustix::fs::mkdirat(&execs, &name, PRIVATE_DIR).map_err(|errno| failed(errno.into()))?;
        let filled = (|| {
            hook::point("store.exec.after_mkdir")?;
            let fd = open_dir(execs.as_fd(), &name)?;
            let made = Self { id: file.id, path: path.clone(), fd };
            made.write_beside(FILE_BESIDE, &serde_json::to_vec(file)?)?;
            reserve(made.fd.as_fd())?;
            log::create(made.fd.as_fd())?;
            let log = LogWriter::create_or_open(&made, log_max).map_err(from_log)?;
            rustix::fs::renameat(&made.fd, FILE_BESIDE, &made.fd, FILE)?;
            hook::point("store.exec.after_file")?;
            Ok((made, log))
        })();
        filled.map_err(|source| {
            // The record first: a directory without one is passed over by whoever lists it.
            if let Ok(fd) = open_dir(execs.as_fd(), &name) {
                rustix::fs::unlinkat(&fd, FILE, AtFlags::empty()).ok();
            }
            remove::remove_tree(execs.as_fd(), OsStr::new(&name)).ok();
            failed(source)
        })
    }

    /// Opens the directory of an exec of this box.
    ///
    /// # Errors
    /// There is none, or it cannot be opened as a directory.
    pub fn open(dir: &BoxDir, id: ExecId) -> Result<Self, ExecDirError> {
        let path = path(dir, id);
        let opened = open_dir(dir.dir_fd(), EXECS)
            .and_then(|execs| open_dir(execs.as_fd(), &id.to_string()));
        match opened {
            Ok(fd) => Ok(Self { id, path, fd }),
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                Err(ExecDirError::Missing { path })
            }
            Err(source) => Err(ExecDirError::Read { path, source }),
        }
    }

    /// The ids of all execs of a box, newest first. One whose making was cut short may be among
    /// them: its [`ExecDir::read_file`] says [`ExecDirError::Missing`].
    ///
    /// # Errors
    /// They cannot be listed. Where none ever was, there are none.
    pub fn list(dir: &BoxDir) -> Result<Vec<ExecId>, ExecDirError> {
        let error = |source| ExecDirError::Read { path: dir.path().join(EXECS), source };
        let execs = match open_dir(dir.dir_fd(), EXECS) {
            Ok(execs) => execs,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(error(source)),
        };
        let mut ids: Vec<ExecId> = Vec::new();
        for entry in Dir::read_from(&execs).map_err(|errno| error(errno.into()))? {
            let entry = entry.map_err(|errno| error(errno.into()))?;
            // Other names are none of ours.
            ids.extend(
                entry.file_name().to_str().ok().and_then(|name| name.parse::<ExecId>().ok()),
            );
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    /// Which exec it is of.
    #[must_use]
    pub fn id(&self) -> ExecId {
        self.id
    }

    /// What was asked for.
    ///
    /// # Errors
    /// There is no record, it cannot be read, or it is another's.
    pub fn read_file(&self) -> Result<ExecFile, ExecDirError> {
        let file: ExecFile = self
            .read(FILE, MAX_FILE)?
            .ok_or_else(|| ExecDirError::Missing { path: self.path.clone() })?;
        if file.id == self.id {
            Ok(file)
        } else {
            Err(ExecDirError::OtherExec { path: self.path.join(FILE), found: file.id })
        }
    }

    /// How it ended; none while it runs, and none if nobody lived to write it. Who tells it to
    /// anyone on its own account calls [`ExecDir::sync`] first.
    ///
    /// # Errors
    /// It cannot be read, or is no ending.
    pub fn read_end(&self) -> Result<Option<ExecEnd>, ExecDirError> {
        self.read(END, MAX_END)
    }

    /// Whether the directory still exists.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        rustix::fs::fstat(&self.fd).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// The end of an exec of which nobody knows how it ended.
    #[must_use]
    pub fn lost(at: Timestamp) -> ExecEnd {
        let ending = Ending::lost(at, serde_json::Map::new()).with_detail("keeper", "gone");
        ExecEnd { schema: END_SCHEMA.to_owned(), started_at: None, ending }
    }

    /// Writes [`ExecDir::lost`] for every exec of a box that has no ending. The caller holds the
    /// box's locks: nobody else writes. `started` says when their programs were executed, of those of
    /// which that is known. Returns how many there were.
    ///
    /// # Errors
    /// What could not be written, first; the others are. An exec of an ended box that has no ending
    /// is lost all the same.
    pub fn conclude_all(
        dir: &BoxDir,
        at: Timestamp,
        started: &BTreeMap<ExecId, Timestamp>,
    ) -> Result<usize, ExecDirError> {
        let mut written = 0;
        let mut failed = None;
        for id in Self::list(dir)? {
            // What cannot be opened, or holds no record, never ran or is told as broken.
            let Ok(exec) = Self::open(dir, id) else { continue };
            if !matches!(exec.read_end(), Ok(None)) || exec.read_file().is_err() {
                continue;
            }
            let mut end = ExecEnd { started_at: started.get(&id).copied(), ..Self::lost(at) };
            if let Ok(log) = crate::figures(&exec) {
                end.ending = end.ending.with_detail("log_end", log.bytes);
            }
            match Unsaved::new(&exec, &end).save() {
                Ok(()) => written += 1,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(written), Err)
    }

    fn read<T: DeserializeOwned>(&self, name: &str, limit: u64) -> Result<Option<T>, ExecDirError> {
        let path = || self.path.join(name);
        let file = match regular::open(self.fd.as_fd(), name, OFlags::RDONLY) {
            Ok(file) => file,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ExecDirError::Read { path: path(), source }),
        };
        let bytes = regular::read_bounded(&file, limit)
            .map_err(|source| ExecDirError::Read { path: path(), source })?
            .ok_or_else(|| ExecDirError::TooLong { path: path(), limit })?;
        // A host that crashed before the file was on disk may leave it empty or full of NULs.
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| ExecDirError::Form { path: path(), source })
    }

    fn write_beside(&self, name: &str, bytes: &[u8]) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE;
        let mut file = regular::open(self.fd.as_fd(), name, flags)?;
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)?;
        Ok(file)
    }
}

impl LogHome for ExecDir {
    fn path(&self) -> &Path {
        &self.path
    }

    fn dir_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the kernel said, for whoever counts by that.
fn from_log(error: LogError) -> io::Error {
    match error {
        LogError::Open { source, .. } | LogError::Read { source, .. } => source,
        LogError::PastEnd { .. } => io::Error::other(error),
    }
}

fn path(dir: &BoxDir, id: ExecId) -> PathBuf {
    dir.path().join(EXECS).join(id.to_string())
}

/// Makes the file for the ending, with its room on the disk.
fn reserve(dir: BorrowedFd<'_>) -> io::Result<()> {
    let file = regular::create(dir, END_BESIDE)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE) {
        // Where the file system cannot promise room, there is none to be had.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn make_dir(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    match open_dir(parent, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    match rustix::fs::mkdirat(parent, name, PRIVATE_DIR) {
        Ok(()) | Err(Errno::EXIST) => open_dir(parent, name),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens a directory for listing and syncing, without following a symbolic link.
fn open_dir(parent: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}
