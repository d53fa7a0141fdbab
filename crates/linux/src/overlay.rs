//! Overlays made from descriptors, so that no path is quoted, limited in length, or told to who
//! looks at the mount's options.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};

/// The directories of an overlay.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'a> {
    /// What lies below and is never written, the topmost first.
    pub lowers: &'a [BorrowedFd<'a>],
    /// Where changes go. From the same mount as `work`.
    pub upper: BorrowedFd<'a>,
    /// The file system's own scratch directory.
    pub work: BorrowedFd<'a>,
}

/// Under which names the overlay keeps its marks in extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// `trusted.overlay.*`: out of reach of everyone but the host's root. Only the host's root can
    /// write them.
    Trusted,
    /// `user.overlay.*`: for a mount made in a user namespace.
    User,
}

/// A detached overlay, without set-uid and devices.
///
/// # Errors
/// What fsopen(2) and its kin say, with the kernel's own words where it gave any: `EINVAL` for an
/// upper on an overlay, or a lower with mounts below it in a user namespace.
pub fn new(layers: Layers<'_>, marks: Marks) -> Result<OwnedFd, OverlayError> {
    // Since Linux 6.13 layers are taken by descriptor; before, by a path that leads to one.
    by_descriptor(layers, marks).or_else(|error| {
        if error.errno == libc::EINVAL { by_path(layers, marks) } else { Err(error) }
    })
}

/// An overlay that was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{words}", io::Error::from_raw_os_error(*errno))]
pub struct OverlayError {
    /// The kernel's answer.
    pub errno: i32,
    /// In brackets, what it had to say to it.
    words: String,
}

fn by_descriptor(layers: Layers<'_>, marks: Marks) -> Result<OwnedFd, OverlayError> {
    make(marks, |context| {
        for lower in layers.lowers {
            fsconfig_set_fd(context, "lowerdir+", *lower)?;
        }
        fsconfig_set_fd(context, "upperdir", layers.upper)?;
        fsconfig_set_fd(context, "workdir", layers.work)
    })
}

fn by_path(layers: Layers<'_>, marks: Marks) -> Result<OwnedFd, OverlayError> {
    let path = |fd: BorrowedFd<'_>| format!("/proc/self/fd/{}", fd.as_raw_fd());
    make(marks, |context| {
        let lowers: Vec<String> = layers.lowers.iter().map(|lower| path(*lower)).collect();
        fsconfig_set_string(context, "lowerdir", lowers.join(":"))?;
        fsconfig_set_string(context, "upperdir", path(layers.upper))?;
        fsconfig_set_string(context, "workdir", path(layers.work))
    })
}

fn make(
    marks: Marks,
    set_layers: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<()>,
) -> Result<OwnedFd, OverlayError> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)
        .map_err(|error| OverlayError { errno: error.raw_os_error(), words: String::new() })?;
    let configured = (|| {
        set_layers(context.as_fd())?;
        if marks == Marks::User {
            // Without it the mount succeeds, and renames and replaced directories then go wrong.
            fsconfig_set_flag(context.as_fd(), "userxattr")?;
        }
        // One write of an attribute less for each mount; nothing here is exported by NFS.
        fsconfig_set_string(context.as_fd(), "uuid", "null").or_else(|error| match error {
            // Older kernels do not know it.
            rustix::io::Errno::INVAL => Ok(()),
            other => Err(other),
        })?;
        fsconfig_create(context.as_fd())?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, flags)
    })();
    configured.map_err(|error| in_the_kernels_words(&context, error))
}

/// The context's messages say what was wrong where the errno only says that something was.
fn in_the_kernels_words(context: &OwnedFd, error: rustix::io::Errno) -> OverlayError {
    let mut buffer = [0; 512];
    let length = rustix::io::read(context, &mut buffer).unwrap_or(0);
    // "e overlay: message\n": a letter for the kind first (fsopen(2)).
    let said = String::from_utf8_lossy(&buffer[..length]);
    let said = said.trim().trim_start_matches("e ");
    let words = if said.is_empty() { String::new() } else { format!(" ({said})") };
    OverlayError { errno: error.raw_os_error(), words }
}
