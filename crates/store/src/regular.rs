//! Opening files of a directory that may hold anything.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, Mode, OFlags};

/// The mode of every file we make: nobody else's.
pub(crate) const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// The mode of every directory we make.
pub(crate) const PRIVATE_DIR: Mode = Mode::RWXU;

/// Opens `name` in `dir` if it is a regular file. Never follows a symbolic link, never waits for
/// the other side of a FIFO.
pub(crate) fn open(dir: BorrowedFd<'_>, name: &str, flags: OFlags) -> io::Result<File> {
    let safe = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(dir, name, flags | safe, PRIVATE_FILE)?);
    let stat = rustix::fs::fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
    }
}

/// Reads a file of at most `limit` bytes; `None` if it is longer.
pub(crate) fn read_bounded(file: &File, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > limit { None } else { Some(bytes) })
}

/// Makes a file that is not there yet and opens it for writing.
pub(crate) fn create(dir: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(dir, name, flags, PRIVATE_FILE)?))
}
