//! Room for a mount where the root that all boxes share has none.
//!
//! That root is sealed, so a directory of it in which something is to be is covered by one in memory
//! that holds the same: each thing in it is mounted again at its name.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_linux::mount::{self, Reach, Restrictions};
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};

use crate::plan;

/// What a box may write to itself, by its names and those of the links to it.
const OWN: [&str; 5] = ["/dev/shm", "/run", "/tmp", "/var/run", "/var/tmp"];

/// What is to be at the end of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A link to there. Nothing, if something else is in its place.
    Link(&'static str),
}

/// Whether a path (with the leading slash) is in something of the box's own.
fn is_own(path: &Path) -> bool {
    OWN.iter().any(|own| path.starts_with(own))
}

/// Makes what is wanted at `path` (without the leading slash). What is returned has to become the
/// root.
pub(crate) fn make(root: BorrowedFd<'_>, path: &Path, end: End) -> io::Result<Option<OwnedFd>> {
    let is_own = is_own(&Path::new("/").join(path));
    let (directories, last) = match (end, path.parent().zip(path.file_name())) {
        // Before the box's own is mounted; whoever mounts something there makes it.
        (End::Directory | End::File, _) if is_own => return Ok(None),
        (End::Directory, _) => (path, None),
        (End::File, Some((parent, name))) => (parent, Some((name, None))),
        (End::Link(target), Some((parent, name))) => (parent, Some((name, Some(target)))),
        (End::File | End::Link(_), None) => return Ok(None),
    };
    let existing = existing(root, directories)?;
    let is_there = existing == directories
        && match last {
            None => true,
            Some((name, _)) => {
                let parent = open(root, directories)?;
                rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
            }
        };
    if is_there {
        return Ok(None);
    }
    let fill = |at: BorrowedFd<'_>, from: &Path| -> io::Result<()> {
        let rest = directories.strip_prefix(from).map_err(io::Error::other)?;
        let directory = make_below(at, rest)?;
        match last {
            Some((name, Some(target))) => rustix::fs::symlinkat(target, directory, name)?,
            Some((name, None)) => drop(make_file(directory.as_fd(), name)?),
            None => {}
        }
        Ok(())
    };
    if is_own {
        fill(root, Path::new(""))?;
        return Ok(None);
    }
    let covered = open(root, &existing)?;
    let things = things(covered.as_fd())?;
    let cover = mount::new_file_system("tmpfs", &[("mode", "755")], Restrictions::OWN)?;
    // First of all things, since from then on they are covered. And mounts can be attached to it
    // only once it is attached itself.
    mount::attach_over(cover.as_fd(), covered.as_fd())?;
    for thing in things {
        thing.put_into(cover.as_fd())?;
    }
    fill(cover.as_fd(), &existing)?;
    let sealed = Restrictions { read_only: true, ..Restrictions::OWN };
    mount::restrict(cover.as_fd(), sealed, Reach::One)?;
    Ok(existing.as_os_str().is_empty().then_some(cover))
}

/// Makes the directories of `path` that are missing below `root`, and opens the last.
pub(crate) fn make_below(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let existing = existing(root, path)?;
    let rest = path.strip_prefix(&existing).map_err(io::Error::other)?;
    let mut at = open(root, &existing)?;
    for name in rest {
        rustix::fs::mkdirat(&at, name, Mode::from_raw_mode(0o755))?;
        at = open(at.as_fd(), Path::new(name))?;
    }
    Ok(at)
}

/// The same, where what is made is whose the directory is in which it is made: in a home of the box's
/// user it is that user's.
pub(crate) fn make_owned_below(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let existing = existing(root, path)?;
    let rest = path.strip_prefix(&existing).map_err(io::Error::other)?;
    let mut at = open(root, &existing)?;
    for name in rest {
        let made = make_below(at.as_fd(), Path::new(name))?;
        own_as(at.as_fd(), name);
        at = made;
    }
    Ok(at)
}

/// The same for a file, which is made empty if it is missing.
pub(crate) fn make_file_below(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Ok(found) => return Ok(found),
        Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let (parent, name) = path.parent().zip(path.file_name()).ok_or(io::ErrorKind::InvalidInput)?;
    let parent = make_owned_below(root, parent)?;
    let file = make_file(parent.as_fd(), name)?;
    own_as(parent.as_fd(), name);
    Ok(file)
}

fn make_file(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(rustix::fs::openat(directory, name, flags, Mode::RUSR)?);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

/// Gives what was made to whoever has the directory. Nothing depends on it where the owner is nobody in the box.
fn own_as(directory: BorrowedFd<'_>, name: &OsStr) {
    let Ok(stat) = rustix::fs::fstat(directory) else { return };
    let (uid, gid) = (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)));
    rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW).ok();
}

/// Whether something is there, whatever it is.
pub(crate) fn find(root: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    Ok(())
}

/// How much of the path there is.
fn existing(root: BorrowedFd<'_>, path: &Path) -> io::Result<PathBuf> {
    let mut existing = PathBuf::new();
    for name in path {
        let next = existing.join(name);
        match open(root, &next) {
            Ok(_) => existing = next,
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(error),
        }
    }
    Ok(existing)
}

/// Opens a directory of the box. Links lead to where they would lead inside.
fn open(root: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?)
}

/// What another root takes over from the one there is.
#[derive(Debug)]
pub(crate) struct Carried {
    links: Vec<(Vec<u8>, Vec<u8>)>,
    trees: Vec<(PathBuf, OwnedFd)>,
}

/// What a box has of its own whatever its root is.
pub(crate) fn carry_own(root: BorrowedFd<'_>) -> io::Result<Carried> {
    let tree = |path: &&str| {
        let path = PathBuf::from(path);
        mount::clone_tree(root, &path, Reach::Recursive).map(|tree| (path, tree))
    };
    let trees = plan::OWN.iter().map(tree).collect::<io::Result<_>>()?;
    Ok(Carried { links: Vec::new(), trees })
}

/// Everything.
pub(crate) fn carry_all(root: BorrowedFd<'_>) -> io::Result<Carried> {
    let mut carried = Carried { links: Vec::new(), trees: Vec::new() };
    for thing in things(root)? {
        match thing {
            Thing::Link { name, target } => carried.links.push((name, target)),
            Thing::Directory { name, tree } | Thing::File { name, tree } => {
                carried.trees.push((PathBuf::from(OsStr::from_bytes(&name)), tree));
            }
            // There are such in /etc only.
            Thing::Text { .. } => {}
        }
    }
    Ok(carried)
}

impl Carried {
    /// Puts it into a root that is attached.
    pub(crate) fn put_into(self, root: BorrowedFd<'_>) -> io::Result<()> {
        for (name, target) in self.links {
            match rustix::fs::symlinkat(target.as_slice(), root, name.as_slice()) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        for (path, tree) in self.trees {
            let at = make_below(root, &path)?;
            mount::attach_over(tree.as_fd(), at.as_fd())?;
        }
        Ok(())
    }
}

/// Something in a directory that is to be covered.
enum Thing {
    Link {
        name: Vec<u8>,
        target: Vec<u8>,
    },
    Directory {
        name: Vec<u8>,
        tree: OwnedFd,
    },
    File {
        name: Vec<u8>,
        tree: OwnedFd,
    },
    /// A file that has no name any more but the mount's: it cannot be mounted once more.
    Text {
        name: Vec<u8>,
        contents: Vec<u8>,
    },
}

fn things(directory: BorrowedFd<'_>) -> io::Result<Vec<Thing>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    let mut things = Vec::new();
    for entry in Dir::new(listed)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes().to_vec();
        if matches!(name.as_slice(), b"." | b"..") {
            continue;
        }
        let path = Path::new(OsStr::from_bytes(&name));
        things.push(match entry.file_type() {
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, path, Vec::new())?.into_bytes();
                Thing::Link { name, target }
            }
            FileType::Directory => {
                let tree = mount::clone_tree(directory, path, Reach::Recursive)?;
                Thing::Directory { name, tree }
            }
            _ if is_nameless(directory, path)? => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(directory, path, flags, Mode::empty())?;
                let mut contents = Vec::new();
                std::fs::File::from(file).read_to_end(&mut contents)?;
                Thing::Text { name, contents }
            }
            _ => {
                let tree = mount::clone_tree(directory, path, Reach::Recursive)?;
                Thing::File { name, tree }
            }
        });
    }
    Ok(things)
}

/// Whether it is one of the files that were put over others and lost the name they had for it
/// (`Step::FileHeld`): they are ours, and small.
fn is_nameless(directory: BorrowedFd<'_>, path: &Path) -> io::Result<bool> {
    let stat = rustix::fs::statat(directory, path, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    Ok(stat.st_nlink == 0 && kind == FileType::RegularFile)
}

impl Thing {
    fn put_into(self, cover: BorrowedFd<'_>) -> io::Result<()> {
        let (name, tree) = match self {
            Self::Link { name, target } => {
                return Ok(rustix::fs::symlinkat(target.as_slice(), cover, name.as_slice())?);
            }
            Self::Text { name, contents } => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o644);
                let file = rustix::fs::openat(cover, name.as_slice(), flags, mode)?;
                return std::fs::File::from(file).write_all(&contents);
            }
            Self::Directory { name, tree } => {
                rustix::fs::mkdirat(cover, name.as_slice(), Mode::from_raw_mode(0o755))?;
                (name, tree)
            }
            Self::File { name, tree } => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                drop(rustix::fs::openat(cover, name.as_slice(), flags, Mode::RUSR)?);
                (name, tree)
            }
        };
        mount::attach(tree.as_fd(), cover, Path::new(OsStr::from_bytes(&name)))
    }
}
