//! Opening the state directory, and what to tell a person when that fails.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::blank::Leftovers;
use super::{BOXES, FORMAT, NEW, REAPING, StateDir, names, open_dir};
use crate::regular::{self, PRIVATE_DIR};

/// The version of everything in the state directory.
const VERSION: &str = "1";

/// How much is written to find out whether anything can be.
const TRIED: usize = 32 << 10;

/// The longest `format` we look at: a number of any later version.
const MAX_FORMAT: u64 = 64;

/// The state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// It, or a directory above it, is not there and cannot be made.
    #[error("make the directory `{}` for the state directory `{}`", path.display(), state.display())]
    Make {
        /// The state directory.
        state: PathBuf,
        /// The directory that could not be made.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It is there and is not a directory, or one above it is not.
    #[error("`{}` is not a directory", path.display())]
    NotADirectory {
        /// What was to be a directory.
        path: PathBuf,
    },
    /// It is another user's.
    #[error("the state directory `{}` belongs to uid {owner}, not to uid {uid}", path.display())]
    OtherOwner {
        /// The state directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        uid: u32,
    },
    /// Others can read or write it.
    #[error("the state directory `{}` is open to others: its mode is {mode:04o}", path.display())]
    Exposed {
        /// The state directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is of a format that this build does not know.
    #[error("the state directory `{}` has format `{found}`; this build knows {VERSION}", path.display())]
    Format {
        /// The state directory.
        path: PathBuf,
        /// What `format` holds.
        found: String,
    },
    /// Its file system is mounted read-only.
    #[error("write to `{}`: its file system is read-only", path.display())]
    ReadOnly {
        /// What could not be written.
        path: PathBuf,
    },
    /// Its file system is full, or the quota used up.
    #[error("write to `{}`: its file system is full", path.display())]
    Full {
        /// What could not be written.
        path: PathBuf,
        /// The kernel's answer, which tells a full disk from a quota.
        source: io::Error,
    },
    /// Anything else.
    #[error("open `{}` of the state directory", path.display())]
    Open {
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl StateDirError {
    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Make { path, .. } => format!(
                "make `{}` yourself, or name another place in MINIMAL_STATE_DIR",
                path.display()
            ),
            Self::NotADirectory { path } => format!(
                "move `{}` away, or name another place in MINIMAL_STATE_DIR",
                path.display()
            ),
            Self::OtherOwner { .. } => {
                "name a directory of your own in MINIMAL_STATE_DIR, or run as its owner".to_owned()
            }
            Self::Exposed { path, .. } => format!(
                "`chmod 700 {}` if you trust what is in it: whoever could write there could have \
                 put anything into it",
                path.display()
            ),
            Self::Format { .. } => {
                "use the build that wrote it, or name another place in MINIMAL_STATE_DIR".to_owned()
            }
            Self::ReadOnly { .. } => {
                "mount it writable, or name another place in MINIMAL_STATE_DIR".to_owned()
            }
            Self::Full { path, .. } => format!(
                "free some space (`df {}` shows how it is used), or name another place in \
                 MINIMAL_STATE_DIR",
                path.display()
            ),
            Self::Open { .. } => {
                "make it accessible to you, or name another place in MINIMAL_STATE_DIR".to_owned()
            }
        }
    }

    /// Tells the faults apart that have a remedy of their own.
    fn io(path: PathBuf, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::ROFS) => Self::ReadOnly { path },
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Full { path, source },
            // A symbolic link where we never put one is answered by ELOOP.
            Some(Errno::NOTDIR | Errno::LOOP) => Self::NotADirectory { path },
            _ => Self::Open { path, source },
        }
    }
}

impl StateDir {
    /// Opens the state directory and makes what is missing of it, and of the directories above it.
    ///
    /// # Errors
    /// It cannot be made, is not ours alone, or is of a format of another version.
    pub fn open(path: &Path) -> Result<Self, StateDirError> {
        // Absolute, because the daemon changes its working directory.
        let path = std::path::absolute(path)
            .map_err(|source| StateDirError::Open { path: path.to_owned(), source })?;
        let fd = open_or_make(&path)?;
        check_owner(&path, &fd)?;
        check_mode(&path, &fd)?;
        check_format(&path, fd.as_fd())?;
        let boxes = subdirectory(&path, fd.as_fd(), BOXES)?;
        let new = subdirectory(&path, fd.as_fd(), NEW)?;
        let reaping = subdirectory(&path, fd.as_fd(), REAPING)?;
        Ok(Self { path, fd, boxes, new, reaping, leftovers: Leftovers::default() })
    }
}

impl StateDir {
    /// Tries what a daemon needs of a state directory that is there: that it can be opened, is of our
    /// format, and takes a new file with something in it. Changes nothing.
    ///
    /// # Errors
    /// Why a daemon could not use it.
    pub fn try_use(path: &Path) -> Result<(), StateDirError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| not_a_directory_or(path, errno))?;
        check_owner(path, &fd)?;
        if let Some(found) = read_format(path, fd.as_fd())?.filter(|found| found != VERSION) {
            return Err(StateDirError::Format { path: path.to_owned(), found });
        }
        let name = format!(".tried-{}", std::process::id());
        let tried = regular::create(fd.as_fd(), &name).and_then(|mut file| {
            // More than a file system keeps beside its blocks, so that a full one shows.
            let written = file.write_all(&[b'x'; TRIED]).and_then(|()| file.sync_data());
            rustix::fs::unlinkat(&fd, &name, rustix::fs::AtFlags::empty())?;
            written
        });
        tried.map_err(|source| StateDirError::io(path.to_owned(), source))
    }
}

fn open_or_make(path: &Path) -> Result<OwnedFd, StateDirError> {
    // A symbolic link is followed here, and only here: the owner may keep the state elsewhere.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || rustix::fs::open(path, flags, Mode::empty());
    match open() {
        Ok(fd) => return Ok(fd),
        Err(Errno::NOENT) => make(path, path)?,
        Err(errno) => return Err(not_a_directory_or(path, errno)),
    }
    open().map_err(|errno| not_a_directory_or(path, errno))
}

/// Makes a directory and those above it that are missing, topmost first.
fn make(state: &Path, path: &Path) -> Result<(), StateDirError> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|ancestor| {
            matches!(rustix::fs::stat(*ancestor), Err(Errno::NOENT | Errno::NOTDIR))
        })
        .collect();
    for directory in missing.into_iter().rev() {
        match rustix::fs::mkdir(directory, PRIVATE_DIR) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno @ (Errno::ROFS | Errno::NOSPC | Errno::DQUOT)) => {
                return Err(StateDirError::io(directory.to_owned(), errno.into()));
            }
            Err(Errno::NOTDIR) => return Err(not_a_directory_or(directory, Errno::NOTDIR)),
            Err(errno) => {
                return Err(StateDirError::Make {
                    state: state.to_owned(),
                    path: directory.to_owned(),
                    source: errno.into(),
                });
            }
        }
    }
    Ok(())
}

/// Names the part of the path that is not a directory, rather than the whole.
fn not_a_directory_or(path: &Path, errno: Errno) -> StateDirError {
    if errno == Errno::NOTDIR
        && let Some(wrong) = path.ancestors().find(|ancestor| {
            rustix::fs::stat(*ancestor).is_ok_and(|stat| {
                rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Directory
            })
        })
    {
        return StateDirError::NotADirectory { path: wrong.to_owned() };
    }
    StateDirError::io(path.to_owned(), errno.into())
}

fn check_owner(path: &Path, fd: &OwnedFd) -> Result<(), StateDirError> {
    let stat =
        rustix::fs::fstat(fd).map_err(|errno| StateDirError::io(path.to_owned(), errno.into()))?;
    let uid = rustix::process::geteuid().as_raw();
    if stat.st_uid == uid {
        Ok(())
    } else {
        Err(StateDirError::OtherOwner { path: path.to_owned(), owner: stat.st_uid, uid })
    }
}

/// Refuses a directory that others can read or write, since what is in it is private and trusted
/// by path. One that is empty, as `mkdir` makes it, is closed to others instead.
fn check_mode(path: &Path, fd: &OwnedFd) -> Result<(), StateDirError> {
    let error = |source| StateDirError::io(path.to_owned(), source);
    let mode = rustix::fs::fstat(fd).map_err(|errno| error(errno.into()))?.st_mode & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let exposed = || StateDirError::Exposed { path: path.to_owned(), mode };
    if !names(fd.as_fd()).map_err(error)?.is_empty() {
        return Err(exposed());
    }
    rustix::fs::fchmod(fd, PRIVATE_DIR).map_err(|errno| error(errno.into()))?;
    // Looked at again now that nobody else can add to it.
    if names(fd.as_fd()).map_err(error)?.is_empty() { Ok(()) } else { Err(exposed()) }
}

fn check_format(path: &Path, dir: BorrowedFd<'_>) -> Result<(), StateDirError> {
    match read_format(path, dir)? {
        None => write_format(dir).map_err(|error| StateDirError::io(path.join(FORMAT), error)),
        Some(found) if found == VERSION => Ok(()),
        Some(found) => Err(StateDirError::Format { path: path.to_owned(), found }),
    }
}

/// What `format` holds, made harmless; `None` if it is to be written.
fn read_format(path: &Path, dir: BorrowedFd<'_>) -> Result<Option<String>, StateDirError> {
    let file = path.join(FORMAT);
    let error = |source| StateDirError::io(file.clone(), source);
    let bytes = match regular::open(dir, FORMAT, OFlags::RDONLY) {
        Ok(opened) => regular::read_bounded(&opened, MAX_FORMAT)
            .map_err(error)?
            .unwrap_or_else(|| b"something long".to_vec()),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(error(source)),
    };
    let text = String::from_utf8_lossy(&bytes);
    // A host that crashed before the file reached the disk may leave it empty or full of NULs.
    match text.trim_matches(['\0', '\n', ' ']) {
        "" => Ok(None),
        found => Ok(Some(found.escape_debug().to_string())),
    }
}

/// Not synced: a file that a crash empties is written again.
fn write_format(dir: BorrowedFd<'_>) -> io::Result<()> {
    const BESIDE: &str = ".format.new";
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let mut file: File = regular::open(dir, BESIDE, flags)?;
    file.write_all(format!("{VERSION}\n").as_bytes())?;
    match rustix::fs::renameat(dir, BESIDE, dir, FORMAT) {
        // Two daemons at their first start: the other has renamed the one file both were writing.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn subdirectory(state: &Path, dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, StateDirError> {
    let error = |source| StateDirError::io(state.join(name), source);
    match rustix::fs::mkdirat(dir, name, PRIVATE_DIR) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(error(errno.into())),
    }
    open_dir(dir, name).map_err(error)
}
