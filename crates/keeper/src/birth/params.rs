//! The params of a box: a file in memory that its user can read, and nobody can change.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use minimal_linux::mount::{Reach, Restrictions, new_file_system, restrict};
use rustix::fs::{Mode, OFlags};

use super::identity::Identity;
use crate::plan::PARAMS_NAME;

/// Makes a directory with the file in it, as a detached mount.
pub(super) fn make(text: &str, identity: &Identity) -> io::Result<OwnedFd> {
    let mount = new_file_system("tmpfs", &[("mode", "755")], Restrictions::OWN)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(&mount, PARAMS_NAME, flags, Mode::RUSR)?);
    (&file).write_all(text.as_bytes())?;
    identity.own(file.as_fd())?;
    // A file that is open for writing keeps its mount from becoming read-only.
    drop(file);
    restrict(mount.as_fd(), Restrictions::HOST, Reach::One)?;
    Ok(mount)
}
