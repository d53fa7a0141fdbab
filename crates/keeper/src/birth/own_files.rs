//! A box's own directories on the host's disk: `fs/` of the box directory.
//!
//! For a blank box there is no box directory yet: they are made in a place of their own, which
//! becomes the `fs/` of whatever box it is.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use minimal_linux::mount::{Reach, Restrictions, clone_tree, restrict};
use minimal_store::BoxDir;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid};

use crate::assemble::GivenMounts;
use crate::plan::Given;
use crate::users::Users;

/// Where blank boxes have their directories, in the state directory.
const BLANKS: &str = "blank";
/// What they are called in a box directory.
const FILES: &str = "fs";

/// What the home of the box's root is called, if it has been one's.
const ROOT_HOME: &str = "root";

/// What each is called, and its mode.
const DIRECTORIES: [(Given, &str, u32); 3] = [
    (Given::Home, "home", 0o700),
    (Given::Tmp, "tmp", 0o1777),
    (Given::Workbench, "workbench", 0o755),
];

/// The directories of one box. Dropped while they are nobody's, they are removed.
#[derive(Debug)]
pub(super) struct OwnFiles {
    directory: OwnedFd,
    /// Where they are while they are nobody's.
    place: Option<PathBuf>,
}

impl OwnFiles {
    /// For a box that is nobody's yet. One process makes one at a time.
    pub(super) fn of_nobody(state_dir: &Path) -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero();
        let blanks = state_dir.join(BLANKS);
        let place = blanks.join(pid.to_string());
        // Not what is above them: a state directory that was deleted stays so.
        for directory in [&blanks, &place] {
            match std::fs::DirBuilder::new().mode(0o700).create(directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        let directory = open(CWD, &place)?;
        Ok(Self { directory, place: Some(place) })
    }

    /// Those of a box. A further life finds them as the last one left them.
    pub(super) fn of_box(box_dir: &BoxDir) -> io::Result<Self> {
        Ok(Self { directory: open(box_dir.dir_fd(), Path::new(FILES))?, place: None })
    }

    /// Makes them, and a mount of each.
    pub(super) fn prepare(&self, users: Users) -> io::Result<GivenMounts> {
        let dir = self.directory.as_fd();
        DIRECTORIES
            .iter()
            .map(|(given, name, mode)| {
                make_directory(dir, name, *mode, users)?;
                let mount = clone_tree(dir, Path::new(name), Reach::One)?;
                restrict(mount.as_fd(), Restrictions::OWN, Reach::One)?;
                Ok((*given, mount))
            })
            .collect()
    }

    /// Moves them into the directory of a box in its first life, which has none of its own.
    pub(super) fn move_into(&mut self, box_dir: &BoxDir) -> io::Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        // Over the empty directory that is there: any other is not replaced (rename(2)).
        rustix::fs::renameat(CWD, place, box_dir.dir_fd(), FILES)?;
        self.place = None;
        Ok(())
    }
}

impl Drop for OwnFiles {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            // The next nursery sweeps what remains.
            std::fs::remove_dir_all(place).ok();
        }
    }
}

pub(super) fn open(at: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, path, flags, Mode::empty())?)
}

/// One of the directories that every box has, made if it is not there yet.
pub(super) fn directory(box_dir: &BoxDir, which: Given, users: Users) -> io::Result<OwnedFd> {
    let known = DIRECTORIES.iter().find(|(given, ..)| *given == which);
    let (_, name, mode) = known.ok_or_else(|| io::Error::other("no box has that of its own"))?;
    let files = open(box_dir.dir_fd(), Path::new(FILES))?;
    make_directory(files.as_fd(), name, *mode, users)?;
    open(files.as_fd(), Path::new(name))
}

/// The home of the box's root, made where it is needed: its directory and a mount of it.
pub(super) fn root_home(box_dir: &BoxDir, users: Users) -> io::Result<OwnedFd> {
    let files = open(box_dir.dir_fd(), Path::new(FILES))?;
    make_directory(files.as_fd(), ROOT_HOME, 0o700, users)?;
    if let Some(root) = users.root() {
        let (uid, gid) = (Some(Uid::from_raw(root)), Some(Gid::from_raw(root)));
        rustix::fs::chownat(&files, ROOT_HOME, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let mount = clone_tree(files.as_fd(), Path::new(ROOT_HOME), Reach::One)?;
    restrict(mount.as_fd(), Restrictions::OWN, Reach::One)?;
    Ok(mount)
}

/// Makes a directory that belongs to the box's user, unless it is there. Whether it is new.
pub(super) fn make_directory(
    dir: BorrowedFd<'_>,
    path: &str,
    mode: u32,
    users: Users,
) -> io::Result<bool> {
    match rustix::fs::mkdirat(dir, path, Mode::from_raw_mode(0o700)) {
        Ok(()) => {}
        Err(rustix::io::Errno::EXIST) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    // chown(2) takes set-gid bits away, so the mode comes after it; mkdir's is cut by the umask.
    if let Users::Range { .. } = users {
        let (uid, gid) = (Uid::from_raw(users.owner()), Gid::from_raw(users.owner()));
        rustix::fs::chownat(dir, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    rustix::fs::chmodat(dir, path, Mode::from_raw_mode(mode), AtFlags::empty())?;
    Ok(true)
}

/// Removes what blank boxes of an earlier nursery left. One that is being handed to a box at this
/// moment loses its directories, and that box makes its own.
pub(crate) fn sweep(state_dir: &Path) {
    std::fs::remove_dir_all(state_dir.join(BLANKS)).ok();
}
