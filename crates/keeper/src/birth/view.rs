//! The view: the directories of the host's system once more, with nothing in them, owned by the root of
//! boxes.
//!
//! To an ordinary user's boxes the host's root is nobody, so their root could make no name in `/usr`. Who
//! owns the topmost of several layers owns the directory that is seen (overlayfs), so this one lies
//! between the host's directories and the box's layer: new names can then be made anywhere, and names that
//! are there taken away. What is in the host's files stays nobody's, and unchanged.
//!
//! It is made in memory, some 15 MB on a Debian with a desktop, for the first box of a nursery that needs
//! it, and anew when the host's system has changed. It hangs in the mount namespace of the nursery and its
//! keepers, for each of them to lay layers over, and goes with them.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_linux::mount::{self, Reach, Restrictions};
use minimal_linux::{creds, title};
use minimal_proto::Signal;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, Stat, Uid, flock,
};
use rustix::io::Errno;

use super::system_layers::{directory_of, open};
use super::workspace::Meanwhile;
use crate::peers::Waited;
use crate::system_lowers::Lower;

/// Where they hang, in the state directory: each is called by what it is a view of.
const VIEWS: &str = "view";

/// Far beyond what it takes.
const OPTIONS: [(&str, &str); 3] = [("mode", "755"), ("size", "300m"), ("nr_inodes", "250k")];

/// That it is made, as its maker says it.
const DONE: &str = "done";

/// More is no system's: some 15,000 is what a Debian with a desktop has.
const MOST_DIRECTORIES: usize = 200_000;
/// Deeper is no system's either; and each level holds three descriptors.
const MOST_LEVELS: usize = 64;

/// How much of the files of a database is copied, in bytes. `/var/lib/dpkg/status` has 6 MB where 4000
/// packages are installed.
const MOST_COPIED: u64 = 256 << 20;

/// What package managers write to in place, as directories below their database: the rest they replace.
const WRITTEN: [&str; 2] = ["", "triggers"];

/// A view of these, made if there is none. While it is made the daemon is answered.
///
/// # Errors
/// `Interrupted` if the box was stopped meanwhile; else why there is no view.
pub(super) fn of(
    lowers: &[Lower],
    state_dir: &Path,
    owner: u32,
    meanwhile: &mut Meanwhile<'_>,
) -> io::Result<OwnedFd> {
    let name = signature(lowers)?;
    let views = state_dir.join(VIEWS);
    match rustix::fs::mkdir(&views, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    if let Some(view) = find(&views, &name)? {
        return Ok(view);
    }
    in_a_process(meanwhile, || make_whole(lowers, &views, &name, owner))?;
    find(&views, &name)?.ok_or_else(|| io::Error::other("it was replaced at once"))
}

/// Has a child of ours do something that takes seconds, and answers the daemon until it is done.
fn in_a_process(
    meanwhile: &mut Meanwhile<'_>,
    work: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let (mut said, mut say) = io::pipe()?;
    let keeper = rustix::process::getpid();
    let mut child = match fork()? {
        Forked::Child => {
            let with_us = Some(rustix::process::Signal::KILL);
            let prepared = rustix::process::set_parent_process_death_signal(with_us).is_ok()
                // It may have died before we had asked to be told.
                && rustix::process::getppid() == Some(keeper);
            if prepared {
                title::set("min-view").ok();
                // What it writes stays in memory for a while, and would count as the box's.
                meanwhile.cgroups.step_out().ok();
                let answer = work().map_or_else(|error| format!("{error}"), |()| DONE.to_owned());
                // A keeper that is gone needs no answer.
                say.write_all(answer.as_bytes()).ok();
            }
            exit_now(0)
        }
        Forked::Parent(child) => child,
    };
    drop(say);
    let waited = meanwhile.peers.wait_for(child.as_fd());
    if !matches!(waited, Ok(Waited::Ended)) {
        child.signal(Signal::KILL)?;
    }
    child.reap()?;
    if waited? == Waited::Stopped {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let mut answer = String::new();
    said.read_to_string(&mut answer)?;
    match answer.as_str() {
        DONE => Ok(()),
        "" => Err(io::Error::other("the process that makes them was killed")),
        why => Err(io::Error::other(why.to_owned())),
    }
}

/// Makes a view and hangs it where it is found, unless another box's keeper has just done so.
fn make_whole(lowers: &[Lower], views: &Path, name: &str, owner: u32) -> io::Result<()> {
    let directory = open(CWD, views)?;
    // One at a time; the others then find it.
    flock(&directory, FlockOperation::LockExclusive)?;
    if find(views, name)?.is_some() {
        return Ok(());
    }
    let view = mount::new_file_system("tmpfs", &OPTIONS, Restrictions::OWN)?;
    make(lowers, view.as_fd(), owner)?;
    let sealed = Restrictions { read_only: true, ..Restrictions::OWN };
    mount::restrict(view.as_fd(), sealed, Reach::One)?;
    // What boxes have laid their layers over stays until the last of them is gone.
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let other = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
        if !matches!(other.as_os_str().as_bytes(), b"." | b"..") {
            mount::detach(&views.join(other)).ok();
            rustix::fs::unlinkat(&directory, other, AtFlags::REMOVEDIR).ok();
        }
    }
    match rustix::fs::mkdirat(&directory, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    mount::attach(view.as_fd(), directory.as_fd(), Path::new(name))
}

/// A view that is there. Without one there may be its directory, from an earlier nursery.
fn find(views: &Path, name: &str) -> io::Result<Option<OwnedFd>> {
    let directory = open(CWD, views)?;
    let view = match open(CWD, views.join(name)) {
        Ok(view) => view,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_mounted = rustix::fs::fstat(&view)?.st_dev != rustix::fs::fstat(&directory)?.st_dev;
    Ok(is_mounted.then_some(view))
}

/// What tells one state of the host's system from another: when its directories down to the second level
/// and the files of its databases were changed last.
fn signature(lowers: &[Lower]) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for lower in lowers.iter().filter(|lower| lower.needs_view()) {
        lower.path.hash(&mut hasher);
        note(lower.mount.as_fd(), 2, lower.is_database, &mut hasher)?;
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn note(
    directory: BorrowedFd<'_>,
    levels: usize,
    with_files: bool,
    hasher: &mut DefaultHasher,
) -> io::Result<()> {
    let listed = open(directory, Path::new("."))?;
    let mut names: Vec<_> = Vec::new();
    hash(&rustix::fs::fstat(&listed)?, hasher);
    for entry in Dir::read_from(&listed)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..")
            && (with_files || entry.file_type() == FileType::Directory)
        {
            names.push(entry.file_name().to_owned());
        }
    }
    // In the order in which they happen to be listed they would make another sum.
    names.sort();
    for name in names {
        let Ok(stat) = rustix::fs::statat(&listed, &name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        name.hash(hasher);
        hash(&stat, hasher);
        if levels > 1 && FileType::from_raw_mode(stat.st_mode).is_dir() {
            let path = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
            // What nobody may list is no part of a view.
            if let Ok(inner) = open(listed.as_fd(), path) {
                note(inner.as_fd(), levels - 1, false, hasher)?;
            }
        }
    }
    Ok(())
}

fn hash(stat: &Stat, hasher: &mut DefaultHasher) {
    (stat.st_dev, stat.st_ino, stat.st_mode).hash(hasher);
    (stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec).hash(hasher);
}

/// Fills a view.
fn make(lowers: &[Lower], view: BorrowedFd<'_>, owner: u32) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
    rustix::fs::chownat(view, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    rustix::process::umask(Mode::empty());
    // As the owner of all of it, which saves handing over each of thousands; what others may not look
    // into stays out.
    creds::make_files_as(owner, owner)?;
    let mut left = MOST_DIRECTORIES;
    for lower in lowers.iter().filter(|lower| lower.needs_view()) {
        let top = directory_of(lower);
        rustix::fs::mkdirat(view, &top, Mode::from_raw_mode(0o755))?;
        let top = open(view, Path::new(&top))?;
        directories(&open(lower.mount.as_fd(), Path::new("."))?, &top, MOST_LEVELS, &mut left)?;
        if lower.is_database {
            for part in WRITTEN {
                files(lower.mount.as_fd(), &top, part)?;
            }
        }
    }
    // Back to what may hang it up.
    creds::make_files_as(0, 0)
}

/// Makes the directories that are in one in another.
fn directories(from: &OwnedFd, to: &OwnedFd, levels: usize, left: &mut usize) -> io::Result<()> {
    let too_many = || io::Error::other("there are too many directories, or too deep ones");
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = Path::new(std::ffi::OsStr::from_bytes(entry.file_name().to_bytes()));
        // Some file systems do not say; what is none is refused below.
        let is_other = !matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if is_other || matches!(name.as_os_str().as_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(inner) = open(from.as_fd(), name) else { continue };
        *left = left.checked_sub(1).ok_or_else(too_many)?;
        let levels = levels.checked_sub(1).ok_or_else(too_many)?;
        let mode = rustix::fs::fstat(&inner)?.st_mode & 0o1777;
        rustix::fs::mkdirat(to, name, Mode::from_raw_mode(mode | 0o700))?;
        directories(&inner, &open(to.as_fd(), name)?, levels, left)?;
    }
    Ok(())
}

/// Copies the files in one directory of a database that everybody may read.
fn files(lower: BorrowedFd<'_>, top: &OwnedFd, part: &str) -> io::Result<()> {
    let part = if part.is_empty() { "." } else { part };
    let (Ok(from), Ok(to)) = (open(lower, Path::new(part)), open(top.as_fd(), Path::new(part)))
    else {
        return Ok(());
    };
    let mut left = MOST_COPIED;
    for entry in Dir::read_from(&from)? {
        let entry = entry?;
        let name = entry.file_name();
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let stat = rustix::fs::statat(&from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            continue;
        }
        let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let copy = rustix::fs::openat(&to, name, flags | create, mode | Mode::RUSR | Mode::WUSR)?;
        // A lock, say, is empty and not for everybody to read: that it is there is enough.
        if let Ok(original) = rustix::fs::openat(&from, name, flags | OFlags::RDONLY, Mode::empty())
        {
            left = left
                .checked_sub(u64::try_from(stat.st_size).unwrap_or(u64::MAX))
                .ok_or_else(|| io::Error::other("the database of packages is too large to copy"))?;
            io::copy(&mut std::fs::File::from(original), &mut std::fs::File::from(copy))?;
        }
    }
    Ok(())
}
