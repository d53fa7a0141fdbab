//! Copying a tree that may hold anything, and change meanwhile.
//!
//! No path is resolved: everything is done by one name in an open directory. No link is followed, no
//! mount is entered, and nothing but regular files is opened.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use minimal_proto::pattern;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, XattrFlags,
};
use rustix::io::Errno;

use super::project::Project;
use super::report::{Report, Summary};
use crate::users::Users;

/// How many hard links are remembered to be linked again; the rest become files of their own.
const LINKS: usize = 100_000;

/// Bytes copied at a time where the kernel cannot do it by itself.
const BLOCK: usize = 256 << 10;

/// The longest list of names, and the longest value, of extended attributes (xattr(7)).
const XATTR: usize = 64 << 10;

/// Who copies.
pub(super) struct Copier<'a> {
    /// Who owns the copy; nobody else than us if none.
    owner: Option<u32>,
    /// What is left out: names at any depth, or paths from the top, with patterns in them.
    exclude: &'a [String],
    /// Whether something of the same name makes way, or takes in what a directory has.
    replaces: bool,
    summary: Summary,
    links: BTreeMap<(u64, u64), Vec<u8>>,
}

/// A directory that is being copied.
struct Level {
    from: OwnedFd,
    to: OwnedFd,
    stat: Stat,
    name: CString,
    left: Vec<(CString, FileType)>,
}

/// What stops a copy: anything but the state of one file.
struct Fatal {
    what: String,
    error: io::Error,
}

impl<'a> Copier<'a> {
    /// Of a whole project.
    pub(super) fn new(users: Users, exclude: &'a [String]) -> Self {
        let owner = match users {
            Users::Range { .. } => Some(users.owner()),
            Users::Subordinate | Users::Single => None,
        };
        let (summary, links) = (Summary::default(), BTreeMap::new());
        Self { owner, exclude, replaces: false, summary, links }
    }

    /// Of single files and directories, one after the other, for this owner.
    pub(super) fn onto(owner: Option<u32>) -> Self {
        let (summary, links) = (Summary::default(), BTreeMap::new());
        Self { owner, exclude: &[], replaces: true, summary, links }
    }

    /// Copies a file or directory to a name.
    pub(super) fn one(
        &mut self,
        source: &Project,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> io::Result<()> {
        let from = source.fd().try_clone_to_owned()?;
        if FileType::from_raw_mode(source.stat.st_mode) == FileType::Directory {
            let made = self.directory(to, name)?;
            copy_attributes(from.as_fd(), made.as_fd());
            return self.into(source, &made);
        }
        self.one_file(&from, to, name, &source.stat)?;
        self.summary.entries += 1;
        Ok(())
    }

    /// Copies what is in a directory into another.
    pub(super) fn into(&mut self, source: &Project, to: &OwnedFd) -> io::Result<()> {
        self.walk(source, to)
            .map_err(|Fatal { what, error }| io::Error::other(format!("{what}: {error}")))
    }

    /// What was copied so far.
    pub(super) fn into_summary(self) -> Summary {
        self.summary
    }

    fn directory(&self, to: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
        match rustix::fs::mkdirat(to, name, Mode::RWXU) {
            Err(Errno::EXIST) if self.replaces => {}
            made => made?,
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(to, name, flags, Mode::empty())?)
    }

    /// Makes way for something that is not a directory.
    fn make_way(&self, to: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        if !self.replaces {
            return Ok(());
        }
        match rustix::fs::unlinkat(to, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn is_excluded(&self, levels: &[Level], name: &CStr) -> bool {
        self.exclude.iter().any(|pattern| match pattern.trim_matches('/') {
            // Its parts are patterns each, and none of them goes beyond a `/`.
            path if pattern.trim_end_matches('/').contains('/') => {
                let of = path_of(levels, name);
                let parts = |path: &[u8]| path.split(|it| *it == b'/').count();
                parts(path.as_bytes()) == parts(&of)
                    && path
                        .split('/')
                        .zip(of.split(|it| *it == b'/'))
                        .all(|(pattern, part)| pattern::matches(pattern.as_bytes(), part))
            }
            anywhere => pattern::matches(anywhere.as_bytes(), name.to_bytes()),
        })
    }

    /// Copies what is in a directory into an empty one.
    pub(super) fn copy(mut self, project: &Project, to: &OwnedFd) -> Report {
        allow_many_descriptors();
        match self.walk(project, to) {
            Ok(()) => Report::Copied(self.summary),
            Err(Fatal { what, error }) => Report::failed(&what, &error, self.summary),
        }
    }

    fn walk(&mut self, project: &Project, root: &OwnedFd) -> Result<(), Fatal> {
        let whole = |error: io::Error| Fatal { what: project.path.display().to_string(), error };
        let from = project.fd().try_clone_to_owned().map_err(whole)?;
        let left = list(from.as_fd()).map_err(whole)?;
        let to = root.try_clone().map_err(whole)?;
        let mut levels =
            vec![Level { from, to, stat: project.stat, name: CString::default(), left }];
        while let Some(level) = levels.last_mut() {
            let Some((name, kind)) = level.left.pop() else {
                let level = levels.pop().expect("there is a last one");
                // Last, so that what was put in it did not change its time, and so that we could.
                self.finish(level.to.as_fd(), &level.stat)
                    .map_err(|error| fatal(&levels, &level.name, error))?;
                continue;
            };
            if self.is_excluded(&levels, &name) {
                continue;
            }
            match self.entry(&levels, root, &name, kind) {
                Ok(None) => {}
                Ok(Some(level)) => levels.push(level),
                Err(error) => {
                    let shown = shown(&levels, &name);
                    match error.raw_os_error().map(Errno::from_raw_os_error) {
                        Some(Errno::ACCESS | Errno::PERM) => self.summary.unreadable.add(&shown),
                        Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE) => {
                            self.summary.changed.add(&shown);
                        }
                        Some(Errno::MFILE | Errno::NFILE) => self.summary.deep.add(&shown),
                        _ => return Err(fatal(&levels, &name, error)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies one name of the last level. A directory is returned to be the next one.
    fn entry(
        &mut self,
        levels: &[Level],
        root: &OwnedFd,
        name: &CStr,
        listed: FileType,
    ) -> io::Result<Option<Level>> {
        let level = levels.last().expect("somebody has listed it");
        let to = level.to.as_fd();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
        let found = match rustix::fs::openat2(&level.from, name, flags, Mode::empty(), resolve) {
            Ok(found) => found,
            // Something is mounted there, and below it is none of the project's files.
            Err(Errno::XDEV) if listed == FileType::Directory => {
                self.directory(to, name)?;
                self.own(to, name)?;
                return Ok(None);
            }
            Err(Errno::XDEV) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let stat = rustix::fs::fstat(&found)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let left = list(found.as_fd())?;
                let made = self.directory(to, name)?;
                copy_attributes(found.as_fd(), made.as_fd());
                self.summary.entries += 1;
                return Ok(Some(Level {
                    from: found,
                    to: made,
                    stat,
                    name: name.to_owned(),
                    left,
                }));
            }
            FileType::RegularFile => self.file(levels, root, &found, name, &stat)?,
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&found, c"", Vec::new())?;
                self.make_way(to, name)?;
                rustix::fs::symlinkat(&target, to, name)?;
                self.own(to, name)?;
                rustix::fs::utimensat(to, name, &super::times(&stat), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => {
                self.summary.special.add(&shown(levels, name));
                return Ok(None);
            }
        }
        self.summary.entries += 1;
        Ok(None)
    }

    fn file(
        &mut self,
        levels: &[Level],
        root: &OwnedFd,
        found: &OwnedFd,
        name: &CStr,
        stat: &Stat,
    ) -> io::Result<()> {
        let to = levels.last().expect("somebody has listed it").to.as_fd();
        let inode = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1
            && let Some(first) = self.links.get(&inode)
            && rustix::fs::linkat(root, first.as_slice(), to, name, AtFlags::empty()).is_ok()
        {
            return Ok(());
        }
        self.one_file(found, to, name, stat)?;
        if stat.st_nlink > 1 && self.links.len() < LINKS {
            self.links.insert(inode, path_of(levels, name));
        }
        Ok(())
    }

    fn one_file(
        &mut self,
        found: &OwnedFd,
        to: BorrowedFd<'_>,
        name: &CStr,
        stat: &Stat,
    ) -> io::Result<()> {
        // By way of the descriptor: it is this file and of this kind, whatever the name is now.
        let path = format!("/proc/self/fd/{}", found.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let from = rustix::fs::openat(CWD, path.as_str(), flags, Mode::empty())?;
        self.make_way(to, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        self.data(&from.into(), &made.try_clone()?.into(), size)?;
        copy_attributes(found.as_fd(), made.as_fd());
        self.finish(made.as_fd(), stat)
    }

    /// Shares the blocks where the file system can, else has the kernel copy them.
    fn data(&mut self, from: &std::fs::File, to: &std::fs::File, size: u64) -> io::Result<()> {
        if rustix::fs::ioctl_ficlone(to, from).is_ok() {
            self.summary.bytes += size;
            return Ok(());
        }
        let mut at = 0;
        while at < size {
            let (start, end) = next_data(from, at, size)?;
            at = start;
            while at < end {
                let copied = copy_range(from, to, at, end - at)?;
                if copied == 0 {
                    // It is shorter than it was.
                    return to.set_len(at);
                }
                at += copied;
                self.summary.bytes += copied;
            }
        }
        // A hole at the end is a length only.
        to.set_len(size)
    }

    /// Owner, mode and times, in the order in which each leaves the others alone.
    fn finish(&self, made: BorrowedFd<'_>, stat: &Stat) -> io::Result<()> {
        if let Some(owner) = self.owner {
            rustix::fs::fchown(made, Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)))?;
        }
        // Set-uid and set-gid bits spoke of owners that are not the copy's.
        rustix::fs::fchmod(made, Mode::from_raw_mode(stat.st_mode & 0o1777))?;
        Ok(rustix::fs::futimens(made, &super::times(stat))?)
    }

    fn own(&self, dir: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        let Some(owner) = self.owner else { return Ok(()) };
        let (uid, gid) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
        Ok(rustix::fs::chownat(dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }
}

/// Where there is data next, and where it ends. A file system that knows no holes says that it is
/// all data.
fn next_data(file: &std::fs::File, at: u64, size: u64) -> io::Result<(u64, u64)> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => {
            let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start)).unwrap_or(size);
            Ok((start.min(size), end.min(size)))
        }
        // Nothing but a hole up to the end.
        Err(Errno::NXIO) => Ok((size, size)),
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOTTY) => Ok((at, size)),
        Err(errno) => Err(errno.into()),
    }
}

fn copy_range(from: &std::fs::File, to: &std::fs::File, at: u64, length: u64) -> io::Result<u64> {
    let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(1 << 30);
    let (mut read_at, mut write_at) = (at, at);
    match rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), wanted) {
        // Nothing from a file that is not at its end: some file systems say so of what they make up.
        Ok(0) | Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => {
            let mut block = vec![0; BLOCK.min(wanted)];
            let (mut from, mut to) = (from, to);
            from.seek(SeekFrom::Start(at))?;
            let read = from.read(&mut block)?;
            to.seek(SeekFrom::Start(at))?;
            to.write_all(&block[..read])?;
            Ok(read as u64)
        }
        Ok(copied) => Ok(copied as u64),
        Err(errno) => Err(errno.into()),
    }
}

/// The names in a directory and what each is, as far as it says.
fn list(directory: BorrowedFd<'_>) -> io::Result<Vec<(CString, FileType)>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(listed)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

/// The `user.` attributes, as far as the target takes them: those are a convenience of the caller's,
/// and all others speak of the host.
fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    // An O_PATH descriptor has no attributes itself.
    let from = format!("/proc/self/fd/{}", from.as_raw_fd());
    let mut names = vec![0; XATTR];
    let Ok(length) = rustix::fs::listxattr(from.as_str(), &mut names) else { return };
    for name in names[..length].split(|byte| *byte == 0) {
        if !name.starts_with(b"user.") {
            continue;
        }
        let mut value = vec![0; XATTR];
        if let Ok(length) = rustix::fs::getxattr(from.as_str(), name, &mut value) {
            rustix::fs::fsetxattr(to, name, &value[..length], XattrFlags::empty()).ok();
        }
    }
}

/// A level of the tree is two open descriptors.
fn allow_many_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).ok();
}

fn path_of(levels: &[Level], name: &CStr) -> Vec<u8> {
    let mut path = Vec::new();
    for level in levels.iter().skip(1) {
        path.extend_from_slice(level.name.to_bytes());
        path.push(b'/');
    }
    path.extend_from_slice(name.to_bytes());
    path
}

fn shown(levels: &[Level], name: &CStr) -> String {
    String::from_utf8_lossy(&path_of(levels, name)).into_owned()
}

fn fatal(levels: &[Level], name: &CStr, error: io::Error) -> Fatal {
    let path = shown(levels, name);
    let path = Path::new(if path.is_empty() { "." } else { &path });
    Fatal { what: path.display().to_string(), error }
}
