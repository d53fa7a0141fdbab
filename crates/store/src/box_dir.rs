//! One box's directory.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use minimal_proto::Spec;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::log::LogHome;
use crate::{disk_usage, regular};

pub(crate) const SPEC: &str = "spec.json";
pub(crate) const GENERATION: &str = "generation";
pub(crate) const JOURNAL: &str = "journal.ndjson";
pub(crate) const LIFE_LOCK: &str = "life.lock";
pub(crate) const LOG: &str = "log";
pub(crate) const EXECS: &str = "execs";
pub(crate) const FILES: &str = "fs";

/// The longest `spec.json`, in bytes. Arguments and environment are at most 6 MiB (execve(2)), and
/// JSON may double them.
pub const MAX_SPEC: u64 = 16 << 20;

/// The longest `generation`: ten digits and a newline.
const MAX_GENERATION: u64 = 11;

/// A box's directory, held open, so that it is the same one whatever its path means later.
#[derive(Debug)]
pub struct BoxDir {
    path: PathBuf,
    fd: OwnedFd,
}

/// A box's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BoxDirError {
    /// There is no such directory.
    #[error("there is no box directory `{}`", path.display())]
    Missing {
        /// Where it would be.
        path: PathBuf,
    },
    /// It is there and cannot be opened as a directory.
    #[error("open the box directory `{}`", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file in it cannot be read.
    #[error("read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A file in it cannot be written.
    #[error("write `{}`", path.display())]
    Write {
        /// The file.
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
    /// The spec is not a spec.
    #[error("read the spec `{}`", path.display())]
    Spec {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The generation is not a number.
    #[error("read `{}`: it does not hold a number", path.display())]
    Generation {
        /// The file.
        path: PathBuf,
    },
    /// It, or something below it, cannot be looked at.
    #[error("look at `{}`", path.display())]
    Inspect {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl BoxDir {
    /// Opens a directory that exists.
    ///
    /// # Errors
    /// It is missing, or is not a directory that can be opened.
    pub fn open(path: &Path) -> Result<Self, BoxDirError> {
        Self::open_at(rustix::fs::CWD, path, path)
    }

    /// Opens `name` in `parent`; `path` is what errors call it.
    pub(crate) fn open_at(
        parent: BorrowedFd<'_>,
        name: &Path,
        path: &Path,
    ) -> Result<Self, BoxDirError> {
        // For reading, not O_PATH: the directory is fsynced and listed through this descriptor.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { path: path.to_owned(), fd }),
            Err(rustix::io::Errno::NOENT) => Err(BoxDirError::Missing { path: path.to_owned() }),
            Err(errno) => Err(BoxDirError::Open { path: path.to_owned(), source: errno.into() }),
        }
    }

    /// Notes that the directory was moved.
    pub(crate) fn rename_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Where it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open directory.
    #[must_use]
    pub fn dir_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The frozen spec.
    ///
    /// # Errors
    /// The file is missing, unreadable, longer than [`MAX_SPEC`], or not a spec.
    pub fn read_spec(&self) -> Result<Spec, BoxDirError> {
        let bytes = self.read(SPEC, MAX_SPEC)?;
        serde_json::from_slice(&bytes)
            .map_err(|source| BoxDirError::Spec { path: self.path.join(SPEC), source })
    }

    /// Which try to begin a life of the box this is; 1 for a new box.
    ///
    /// A box in its first life needs no file: none, an empty one, and one whose content a crash of
    /// the host turned to NULs all say 1.
    ///
    /// # Errors
    /// The file is unreadable, or holds something else than a number.
    pub fn read_generation(&self) -> Result<u32, BoxDirError> {
        let bytes = match self.read(GENERATION, MAX_GENERATION) {
            Ok(bytes) => bytes,
            Err(BoxDirError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(1);
            }
            Err(error) => return Err(error),
        };
        let text = String::from_utf8_lossy(&bytes);
        match text.trim_end_matches(['\0', '\n']) {
            "" => Ok(1),
            number => number
                .parse()
                .map_err(|_text| BoxDirError::Generation { path: self.path.join(GENERATION) }),
        }
    }

    /// Writes which try to begin a life comes next. Whoever does holds both locks of the box. In one
    /// step: a crash leaves the number before or this one.
    ///
    /// # Errors
    /// It cannot be written, and is as it was.
    pub fn write_generation(&self, generation: u32) -> Result<(), BoxDirError> {
        const BESIDE: &str = "generation.new";
        let failed = |source| BoxDirError::Write { path: self.path.join(GENERATION), source };
        // One that a crash has left.
        match rustix::fs::unlinkat(self.dir_fd(), BESIDE, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(errno.into())),
        }
        regular::create(self.dir_fd(), BESIDE)
            .and_then(|mut file| file.write_all(format!("{generation}\n").as_bytes()))
            .and_then(|()| {
                let dir = self.dir_fd();
                Ok(rustix::fs::renameat(dir, BESIDE, dir, GENERATION)?)
            })
            .map_err(failed)
    }

    /// Whether the directory still exists and is what its path names. A keeper asks after it has
    /// locked: the box may have been reaped in between.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        let (Ok(held), Ok(named)) = (rustix::fs::fstat(&self.fd), rustix::fs::lstat(&self.path))
        else {
            return false;
        };
        held.st_nlink > 0 && (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
    }

    /// How many bytes of disk the directory and everything below it take. What vanishes or cannot
    /// be entered while counting counts as nothing.
    ///
    /// # Errors
    /// The directory itself cannot be listed.
    pub fn disk_bytes(&self) -> Result<u64, BoxDirError> {
        disk_usage::bytes(self.dir_fd())
            .map_err(|source| BoxDirError::Inspect { path: self.path.clone(), source })
    }

    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, BoxDirError> {
        let path = || self.path.join(name);
        let bytes = regular::open(self.dir_fd(), name, OFlags::RDONLY)
            .and_then(|file| regular::read_bounded(&file, limit))
            .map_err(|source| BoxDirError::Read { path: path(), source })?;
        bytes.ok_or_else(|| BoxDirError::TooLong { path: path(), limit })
    }
}

impl LogHome for BoxDir {
    fn path(&self) -> &Path {
        &self.path
    }

    fn dir_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
