//! Whether the host's `/etc` is another one than that which boxes have a copy of.
//!
//! The kernel tells of changes (inotify(7)), so that a start does not have to look: it only asks whether
//! anything was told.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use minimal_keeper::is_in_public_etc;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

/// The directory.
const ETC: &str = "/etc";

/// More directories are not watched; a Debian with a desktop has some 250.
const MOST_WATCHED: usize = 2000;
/// Nor deeper ones.
const MOST_LEVELS: usize = 16;

/// A watch over `/etc`, from its beginning on.
#[derive(Debug)]
pub(crate) struct EtcWatch {
    inotify: Option<OwnedFd>,
    /// What is told of names in `/etc` itself.
    top: Option<i32>,
}

impl EtcWatch {
    /// Begins to watch. What cannot be watched, for a limit of inotify's, is not, and this says so.
    pub(crate) fn begin() -> Self {
        let mut watch = Self { inotify: None, top: None };
        match inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK) {
            Ok(inotify) => {
                let mut left = MOST_WATCHED;
                match add(&inotify, Path::new(ETC), &mut left) {
                    Ok(top) => watch.top = Some(top),
                    Err(error) => tracing::warn!(%error, "changes of /etc are not seen"),
                }
                if let Err(error) = add_below(&inotify, Path::new(ETC), MOST_LEVELS, &mut left) {
                    tracing::warn!(%error, "changes of some directories of /etc are not seen");
                }
                watch.inotify = Some(inotify);
            }
            Err(error) => tracing::warn!(%error, "changes of /etc are not seen"),
        }
        watch
    }

    /// Whether something has changed that boxes have a copy of. Told once.
    pub(crate) fn has_changed(&self) -> bool {
        let Some(inotify) = &self.inotify else { return false };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(inotify, &mut buffer);
        let mut changed = false;
        // Until there is nothing more to be told.
        while let Ok(event) = reader.next() {
            let of_top = Some(event.wd()) == self.top;
            changed |= match event.file_name() {
                Some(name) if of_top => is_in_public_etc(name.to_bytes()),
                Some(_) => true,
                // Of a directory itself; or more happened than was kept.
                None => !event.events().contains(ReadFlags::IGNORED),
            };
        }
        changed
    }
}

fn add(inotify: &OwnedFd, directory: &Path, left: &mut usize) -> rustix::io::Result<i32> {
    *left = left.checked_sub(1).ok_or(rustix::io::Errno::NOSPC)?;
    let changes = WatchFlags::MODIFY
        | WatchFlags::ATTRIB
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVE;
    inotify::add_watch(inotify, directory, changes | WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW)
}

fn add_below(
    inotify: &OwnedFd,
    directory: &Path,
    levels: usize,
    left: &mut usize,
) -> rustix::io::Result<()> {
    // What may not be listed is in no copy either.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if levels == 0 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match add(inotify, &entry.path(), left) {
            // It is gone, or not for us to look into.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS) => {}
            Err(error) => return Err(error),
            Ok(_) => add_below(inotify, &entry.path(), levels - 1, left)?,
        }
    }
    Ok(())
}
