//! The directory of a box that is nobody's yet.
//!
//! To make a file costs microseconds on most disks and a hundred times as much on some, and a box
//! has several. So they are made ahead, and what a start still costs is writing to them, and a
//! rename.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::create::CreateError;
use super::{NEW, StateDir};
use crate::box_dir::{BoxDir, BoxDirError, FILES, JOURNAL, LIFE_LOCK, LOG, SPEC};
use crate::regular::{self, PRIVATE_DIR};
use crate::{hook, journal, log, remove};

/// A directory with everything a box has, empty, in `new/` of the state directory. Dropped, it is
/// removed; one that a crash leaves is removed by [`StateDir::finish_reaping`].
///
/// `generation` and `execs/` are left to the second life and the first exec.
#[derive(Debug)]
pub struct BlankDir {
    pub(super) place: OwnedFd,
    pub(super) name: String,
    /// Until it is a box's.
    dir: Option<BoxDir>,
    leftovers: Leftovers,
}

/// Names in `new/` that could not be removed, say for want of a descriptor: tried again when there is
/// one for the next.
pub(super) type Leftovers = Arc<Mutex<Vec<String>>>;

impl BlankDir {
    pub(super) fn dir(&self) -> &BoxDir {
        self.dir.as_ref().expect("it is taken only with the value itself")
    }

    /// It is a box's, and was given its name.
    pub(super) fn named(mut self, path: PathBuf) -> BoxDir {
        let mut dir = self.dir.take().expect("nobody has taken it");
        dir.rename_to(path);
        dir
    }
}

impl Drop for BlankDir {
    fn drop(&mut self) {
        if self.dir.is_some() {
            remove_or_note(self.place.as_fd(), &self.name, &self.leftovers);
        }
    }
}

fn remove_or_note(place: BorrowedFd<'_>, name: &str, leftovers: &Leftovers) {
    if remove::remove_tree(place, OsStr::new(name)).is_err() {
        leftovers.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
    }
}

/// What sets the directories of one process apart.
static MADE: AtomicU64 = AtomicU64::new(0);

impl StateDir {
    fn new_again(&self) -> io::Result<OwnedFd> {
        match rustix::fs::mkdirat(&self.fd, NEW, PRIVATE_DIR) {
            Ok(()) | Err(Errno::EXIST) => super::open_dir(self.fd.as_fd(), NEW),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Makes a directory for a box to come.
    ///
    /// # Errors
    /// It cannot be made; what was made of it is removed.
    pub fn blank_dir(&self) -> Result<BlankDir, CreateError> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", std::process::id());
        let path = self.path.join(NEW).join(&name);
        let failed = |attempt| {
            let path = path.clone();
            move |source| CreateError::io(attempt, path, source)
        };
        let mut place = self.new.try_clone().map_err(failed("open the directory of"))?;
        // One of a process of the same pid that was killed is in the way only until the sweep at a
        // daemon's start, which is over before boxes are made.
        let mut made = rustix::fs::mkdirat(&place, &name, PRIVATE_DIR);
        if made == Err(Errno::NOENT) {
            // Somebody has deleted `new/` itself.
            place = self.new_again().map_err(failed("make the directory of"))?;
            made = rustix::fs::mkdirat(&place, &name, PRIVATE_DIR);
        }
        made.map_err(|errno: Errno| failed("make the directory")(errno.into()))?;
        let opened = BoxDir::open_at(place.as_fd(), Path::new(&name), &path);
        let leftovers = Arc::clone(&self.leftovers);
        let mut blank = BlankDir { place, name, dir: None, leftovers };
        match opened {
            Ok(dir) => blank.dir = Some(dir),
            Err(error) => {
                remove_or_note(blank.place.as_fd(), &blank.name, &blank.leftovers);
                let source = match error {
                    BoxDirError::Open { source, .. } => source,
                    other => io::Error::other(other),
                };
                return Err(failed("open the directory")(source));
            }
        }
        hook::point("store.create.after_mkdir").map_err(failed("make the box directory"))?;
        let fd = blank.dir().dir_fd();
        let made = |name: &str, result: io::Result<()>| {
            result.map_err(|source| CreateError::io("make", path.join(name), source))
        };
        made(SPEC, regular::create(fd, SPEC).map(drop))?;
        made(LIFE_LOCK, regular::create(fd, LIFE_LOCK).map(drop))?;
        made(JOURNAL, journal::create(fd))?;
        made(LOG, log::create(fd))?;
        made(FILES, rustix::fs::mkdirat(fd, FILES, PRIVATE_DIR).map_err(Into::into))?;
        let left =
            std::mem::take(&mut *self.leftovers.lock().unwrap_or_else(PoisonError::into_inner));
        for name in left {
            remove_or_note(self.new.as_fd(), &name, &self.leftovers);
        }
        Ok(blank)
    }
}
