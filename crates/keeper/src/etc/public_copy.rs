//! Copying what everybody may read of a directory.

use std::ffi::CStr;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::walls::Wall;

/// How many names are copied at most: some ten times of what a full desktop's `/etc` has.
const MOST_NAMES: usize = 20_000;
/// How many bytes: likewise. They are kept in memory.
const MOST_BYTES: u64 = 64 << 20;
/// How deep: each level holds two descriptors.
const MOST_LEVELS: usize = 32;

/// Copies into `to` what everybody may read in `from`: files that others may read, in directories
/// that others may list and enter all the way, and links as they are. Nothing else, whoever we are.
/// `omitted` names are left out at the top. What is made belongs to `owner`, or to us.
///
/// The answer says in words what was left out although everybody may read it, if anything was. The
/// directory may change while it is read: what is gone by then is not there.
///
/// # Errors
/// `from` cannot be read at all.
pub(crate) fn public_copy(
    from: &OwnedFd,
    to: BorrowedFd<'_>,
    omitted: &[&str],
    owner: Option<u32>,
) -> io::Result<Option<String>> {
    let stat = rustix::fs::fstat(from)?;
    let mut copying = Copying {
        file_system: stat.st_dev,
        owner: owner.map(|owner| (Uid::from_raw(owner), Gid::from_raw(owner))),
        names: 0,
        bytes: 0,
        buffer: vec![0; 64 << 10],
        beyond: 0,
        mounted: 0,
        failed: 0,
        first_failure: None,
    };
    if may_enter(&stat) {
        copying.directory(from, to, omitted, 0);
    }
    Ok(copying.in_words())
}

struct Copying {
    /// Of the top: what is mounted below is not followed, for it may not answer.
    file_system: u64,
    owner: Option<(Uid, Gid)>,
    names: usize,
    bytes: u64,
    buffer: Vec<u8>,
    beyond: u64,
    mounted: u64,
    failed: u64,
    first_failure: Option<io::Error>,
}

/// Why a name was not copied.
enum LeftOut {
    /// Not everybody may read it, it is gone, or it is of no kind that is copied.
    Rightly,
    Beyond,
    Mounted,
    Failed(io::Error),
}

impl From<Errno> for LeftOut {
    fn from(errno: Errno) -> Self {
        match errno {
            // It was removed, replaced, or closed to us since it was listed.
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::ACCESS | Errno::PERM => {
                Self::Rightly
            }
            Errno::NOSPC | Errno::DQUOT => Self::Beyond,
            other => Self::Failed(other.into()),
        }
    }
}

impl From<io::Error> for LeftOut {
    fn from(error: io::Error) -> Self {
        Errno::from_io_error(&error).map_or_else(|| Self::Failed(error), Self::from)
    }
}

impl Copying {
    fn directory(&mut self, from: &OwnedFd, to: BorrowedFd<'_>, omitted: &[&str], level: usize) {
        let listing = match Dir::read_from(from) {
            Ok(listing) => listing,
            Err(errno) => return self.note(errno.into()),
        };
        for entry in listing {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return self.note(errno.into()),
            };
            let name = entry.file_name();
            let is_omitted = omitted.iter().any(|omitted| omitted.as_bytes() == name.to_bytes());
            if matches!(name.to_bytes(), b"." | b"..") || is_omitted {
                continue;
            }
            if let Err(left_out) = self.name(from.as_fd(), to, name, level) {
                self.note(left_out);
            }
        }
    }

    fn name(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        level: usize,
    ) -> Result<(), LeftOut> {
        let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        let wanted = match kind {
            FileType::RegularFile => may_read(&stat),
            FileType::Directory => may_enter(&stat),
            FileType::Symlink => true,
            // They lead to processes and devices of the host.
            _ => false,
        };
        if !wanted {
            return Err(LeftOut::Rightly);
        }
        if self.names == MOST_NAMES {
            return Err(LeftOut::Beyond);
        }
        self.names += 1;
        match kind {
            FileType::RegularFile => self.file(from, to, name),
            FileType::Directory => {
                if stat.st_dev != self.file_system {
                    return Err(LeftOut::Mounted);
                }
                if level == MOST_LEVELS {
                    return Err(LeftOut::Beyond);
                }
                self.subdirectory(from, to, name, level)
            }
            _ => {
                let target = rustix::fs::readlinkat(from, name, Vec::new())?;
                rustix::fs::symlinkat(&target, to, name)?;
                if let Some((uid, gid)) = self.owner {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    rustix::fs::chownat(to, name, Some(uid), Some(gid), flags)?;
                }
                Ok(())
            }
        }
    }

    fn subdirectory(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
        level: usize,
    ) -> Result<(), LeftOut> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = rustix::fs::openat(from, name, flags, Mode::empty())?;
        // What was opened may be another directory than what was looked at.
        let stat = rustix::fs::fstat(&inner)?;
        if !may_enter(&stat) {
            return Err(LeftOut::Rightly);
        }
        rustix::fs::mkdirat(to, name, Mode::RWXU)?;
        let made = rustix::fs::openat(to, name, flags, Mode::empty())?;
        self.directory(&inner, made.as_fd(), &[], level + 1);
        self.finish(&made, &stat)
    }

    fn file(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        name: &CStr,
    ) -> Result<(), LeftOut> {
        // Not to wait for a FIFO that is there by now, nor to take a terminal for ours.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let source = rustix::fs::openat(from, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&source)?;
        if !FileType::from_raw_mode(stat.st_mode).is_file() || !may_read(&stat) {
            return Err(LeftOut::Rightly);
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let made = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
        let copied = self.contents(source, &made).and_then(|()| self.finish(&made, &stat));
        if copied.is_err() {
            // Half a file is worse than none.
            rustix::fs::unlinkat(to, name, AtFlags::empty())?;
        }
        copied
    }

    fn contents(&mut self, source: OwnedFd, made: &OwnedFd) -> Result<(), LeftOut> {
        let (mut source, mut made) =
            (std::fs::File::from(source), std::fs::File::from(made.try_clone()?));
        loop {
            let length = source.read(&mut self.buffer)?;
            if length == 0 {
                return Ok(());
            }
            // Counted as it is read: a file may grow meanwhile, even without end.
            self.bytes += length as u64;
            if self.bytes > MOST_BYTES {
                self.bytes -= length as u64;
                return Err(LeftOut::Beyond);
            }
            made.write_all(&self.buffer[..length])?;
        }
    }

    /// Gives what was made the owner, the mode and the time it is to have.
    fn finish(&self, made: &OwnedFd, stat: &Stat) -> Result<(), LeftOut> {
        if let Some((uid, gid)) = self.owner {
            rustix::fs::fchown(made, Some(uid), Some(gid))?;
        }
        // After the change of owner, which takes bits away. Set-uid means nothing in a box.
        rustix::fs::fchmod(made, Mode::from_raw_mode(stat.st_mode & 0o1777))?;
        let nanoseconds = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
        let time = Timespec { tv_sec: stat.st_mtime, tv_nsec: nanoseconds };
        rustix::fs::futimens(made, &Timestamps { last_access: time, last_modification: time })?;
        Ok(())
    }

    fn note(&mut self, left_out: LeftOut) {
        match left_out {
            LeftOut::Rightly => {}
            LeftOut::Beyond => self.beyond += 1,
            LeftOut::Mounted => self.mounted += 1,
            LeftOut::Failed(error) => {
                self.failed += 1;
                self.first_failure.get_or_insert(error);
            }
        }
    }

    fn in_words(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.beyond > 0 {
            let (names, bytes) = (MOST_NAMES, MOST_BYTES >> 20);
            parts.push(format!(
                "{} names beyond what is copied ({names} names, {bytes} MiB, {MOST_LEVELS} levels)",
                self.beyond
            ));
        }
        if self.mounted > 0 {
            parts.push(format!("{} directories that something is mounted on", self.mounted));
        }
        if let Some(error) = &self.first_failure {
            parts.push(format!("{} that cannot be read ({error})", self.failed));
        }
        (!parts.is_empty()).then(|| format!("left out: {}", parts.join("; ")))
    }
}

fn may_read(stat: &Stat) -> bool {
    Mode::from_raw_mode(stat.st_mode).contains(Mode::ROTH) || !Wall::PublicEtc.stands()
}

fn may_enter(stat: &Stat) -> bool {
    Mode::from_raw_mode(stat.st_mode).contains(Mode::ROTH | Mode::XOTH) || !Wall::PublicEtc.stands()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::path::Path;

    use super::*;

    fn open(path: &Path) -> OwnedFd {
        fs::File::open(path).unwrap().into()
    }

    fn copied(from: &Path, omitted: &[&str]) -> (tempfile::TempDir, Option<String>) {
        let to = tempfile::tempdir().unwrap();
        let words = public_copy(&open(from), open(to.path()).as_fd(), omitted, None).unwrap();
        (to, words)
    }

    fn file(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, path.file_name().unwrap().as_encoded_bytes()).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn world_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        dir
    }

    #[test]
    fn only_what_everybody_may_read_all_the_way_is_copied() {
        let from = world_dir();
        let at = |name: &str| from.path().join(name);
        file(&at("open"), 0o644);
        file(&at("mine"), 0o600);
        file(&at("groups"), 0o640);
        // Others may read it, and the owner may not: the first is what counts.
        file(&at("odd"), 0o004);
        file(&at("tool"), 0o4755);
        file(&at("closed/open"), 0o644);
        file(&at("by-name-only/open"), 0o644);
        file(&at("sub/deep/open"), 0o444);
        file(&at("left/open"), 0o644);
        fs::set_permissions(at("closed"), Permissions::from_mode(0o750)).unwrap();
        fs::set_permissions(at("by-name-only"), Permissions::from_mode(0o711)).unwrap();
        symlink("/nowhere", at("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("fifo"),
            FileType::Fifo,
            Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let (to, words) = copied(from.path(), &["left"]);
        assert_eq!(words, None);
        let mut names: Vec<_> =
            fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let mut expected = vec!["link", "open", "sub", "tool"];
        // Only root can read what its owner may not.
        if rustix::process::geteuid().is_root() {
            expected.insert(1, "odd");
        }
        assert_eq!(names, expected);
        assert_eq!(fs::read(to.path().join("sub/deep/open")).unwrap(), b"open");
        assert_eq!(fs::read_link(to.path().join("link")).unwrap(), Path::new("/nowhere"));
        let (before, after) =
            (at("tool").metadata().unwrap(), to.path().join("tool").metadata().unwrap());
        assert_eq!(after.mode() & 0o7777, 0o755, "set-uid is not taken over");
        assert_eq!((before.mtime(), before.mtime_nsec()), (after.mtime(), after.mtime_nsec()));
    }

    #[test]
    fn a_directory_that_is_not_for_everybody_has_nothing_to_copy() {
        let from = tempfile::tempdir().unwrap();
        fs::set_permissions(from.path(), Permissions::from_mode(0o700)).unwrap();
        file(&from.path().join("open"), 0o644);
        let (to, words) = copied(from.path(), &[]);
        assert_eq!((fs::read_dir(to.path()).unwrap().count(), words), (0, None));
    }

    #[test]
    fn bounds_are_told_once_with_a_count() {
        let from = world_dir();
        let mut path = from.path().to_owned();
        for _ in 0..MOST_LEVELS + 2 {
            path.push("d");
        }
        file(&path.join("deep"), 0o644);
        let large = fs::File::create(from.path().join("large")).unwrap();
        large.set_len(MOST_BYTES + 1).unwrap();
        fs::set_permissions(from.path().join("large"), Permissions::from_mode(0o644)).unwrap();
        file(&from.path().join("small"), 0o644);
        let (to, words) = copied(from.path(), &[]);
        let words = words.unwrap();
        assert!(words.starts_with("left out: 2 names beyond what is copied"), "{words}");
        // What does not fit takes nothing from the rest.
        assert!(to.path().join("small").exists() && !to.path().join("large").exists());
    }
}
