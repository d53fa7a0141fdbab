//! How much disk a tree takes.

use std::ffi::CStr;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};

/// How deep a tree is looked into. Each level holds a descriptor, and a box could make its tree
/// as deep as it likes; what is deeper counts as nothing.
const MAX_DEPTH: usize = 128;

/// The unit of `st_blocks` (stat(2)).
const BLOCK: u64 = 512;

/// Bytes of disk that `top` and everything below it take, on its file system. What vanishes or
/// cannot be entered while counting counts as nothing.
pub(crate) fn bytes(top: BorrowedFd<'_>) -> io::Result<u64> {
    let stat = rustix::fs::fstat(top)?;
    let device = stat.st_dev;
    let mut total = share(&stat);
    let mut open = vec![Dir::read_from(top)?];
    while let Some(dir) = open.last_mut() {
        match next_below(dir, device, &mut total) {
            Some(below) if open.len() < MAX_DEPTH => open.push(below),
            Some(_) => {}
            None => drop(open.pop()),
        }
    }
    Ok(total)
}

/// Counts what a listing gives up to the next directory that can be listed, and that itself.
fn next_below(dir: &mut Dir, device: u64, total: &mut u64) -> Option<Dir> {
    // A listing that fails ends there.
    while let Some(Ok(entry)) = dir.next() {
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(fd) = dir.fd() else { continue };
        let Ok(stat) = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        if stat.st_dev != device {
            continue;
        }
        *total = total.saturating_add(share(&stat));
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            && let Ok(below) = list(fd, name)
        {
            return Some(below);
        }
    }
    None
}

fn list(dir: BorrowedFd<'_>, name: &CStr) -> io::Result<Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(Dir::new(rustix::fs::openat(dir, name, flags, Mode::empty())?)?)
}

/// A file's bytes of disk. One with several names counts in equal parts at each, so that nothing
/// needs to be remembered.
fn share(stat: &Stat) -> u64 {
    let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(BLOCK);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => bytes,
        _ => bytes / stat.st_nlink.max(1),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_file_counts_once_whatever_its_names_and_links_are_not_followed() {
        let tree = tempfile::tempdir().unwrap();
        let below = tree.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let open = || fs::File::open(tree.path()).unwrap();
        let empty = bytes(open().as_fd()).unwrap();
        fs::write(below.join("file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(below.join("file"), tree.path().join("again")).unwrap();
        std::os::unix::fs::symlink("/usr", below.join("link")).unwrap();
        let full = bytes(open().as_fd()).unwrap();
        assert!((1 << 20..(1 << 20) + 8192).contains(&(full - empty)), "{empty} {full}");
    }
}
