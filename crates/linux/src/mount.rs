//! Mounts as descriptors: open_tree(2), mount_setattr(2), fsopen(2), move_mount(2).
//!
//! Paths are given as a directory descriptor and a path below it, so that nothing is quoted and no
//! path of the host is in the way of another.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

/// `struct mount_attr` of mount_setattr(2), version 0.
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Whether an operation covers the mounts below as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This mount only.
    One,
    /// And every mount below it.
    Recursive,
}

/// What is forbidden on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restrictions {
    /// Nothing can be written.
    pub read_only: bool,
    /// Set-uid and set-gid bits have no effect.
    pub no_set_uid: bool,
    /// Device files cannot be opened.
    pub no_devices: bool,
}

impl Restrictions {
    /// Read-only, no set-uid, no devices: for the host's directories.
    pub const HOST: Self = Self { read_only: true, no_set_uid: true, no_devices: true };
    /// Writable, no set-uid, no devices: for the box's own directories.
    pub const OWN: Self = Self { read_only: false, no_set_uid: true, no_devices: true };

    fn bits(self) -> u64 {
        let mut bits = MountAttrFlags::empty();
        bits.set(MountAttrFlags::MOUNT_ATTR_RDONLY, self.read_only);
        bits.set(MountAttrFlags::MOUNT_ATTR_NOSUID, self.no_set_uid);
        bits.set(MountAttrFlags::MOUNT_ATTR_NODEV, self.no_devices);
        u64::from(bits.bits())
    }
}

/// Makes every mount of our namespace a slave of the host's: what the host mounts later appears,
/// what we mount stays ours (mount_namespaces(7)).
///
/// # Errors
/// What mount(2) says.
pub fn receive_only() -> io::Result<()> {
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", flags)?)
}

/// Cuts every mount of our namespace off from the host's.
///
/// # Errors
/// What mount(2) says.
pub fn cut_off() -> io::Result<()> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", flags)?)
}

/// A detached copy of the mount at `path` (beneath `at` if relative).
///
/// # Errors
/// What open_tree(2) says; `EINVAL` for a single copy of a tree with locked mounts below.
pub fn clone_tree(at: BorrowedFd<'_>, path: &Path, reach: Reach) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if path.as_os_str().is_empty() {
        flags |= OpenTreeFlags::AT_EMPTY_PATH;
    }
    if reach == Reach::Recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    Ok(rustix::mount::open_tree(at, path, flags)?)
}

/// Forbids things on a mount, and cuts it off from the mount it was copied from.
///
/// # Errors
/// What mount_setattr(2) says.
pub fn restrict(mount: BorrowedFd<'_>, restrictions: Restrictions, reach: Reach) -> io::Result<()> {
    // Without the cut, what the host mounts there later would appear in the copy, unrestricted.
    let propagation = u64::from(MountPropagationFlags::PRIVATE.bits());
    let attr = MountAttr { attr_set: restrictions.bits(), propagation, ..MountAttr::default() };
    mount_setattr(mount, &attr, reach)
}

/// Shows the files of a detached, not yet attached mount with the ids of a user namespace's map
/// (`inside` is the id on disk, `outside` the id shown).
///
/// # Errors
/// What mount_setattr(2) says; `EINVAL` where the file system does not support it (overlay, proc).
pub fn map_ids(
    mount: BorrowedFd<'_>,
    user_namespace: BorrowedFd<'_>,
    reach: Reach,
) -> io::Result<()> {
    let attr = MountAttr {
        attr_set: u64::from(MountAttrFlags::MOUNT_ATTR_IDMAP.bits()),
        userns_fd: u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?,
        ..MountAttr::default()
    };
    mount_setattr(mount, &attr, reach)
}

fn mount_setattr(mount: BorrowedFd<'_>, attr: &MountAttr, reach: Reach) -> io::Result<()> {
    let mut flags = libc::AT_EMPTY_PATH;
    if reach == Reach::Recursive {
        flags |= libc::AT_RECURSIVE;
    }
    let empty: &CStr = c"";
    // SAFETY: the path is a C string, `attr` has the size given, and the kernel only reads both.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            empty.as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A new file system as a detached mount.
///
/// # Errors
/// What fsopen(2), fsconfig(2) or fsmount(2) says; `EPERM` for proc outside a fresh pid namespace.
pub fn new_file_system(
    kind: &str,
    options: &[(&str, &str)],
    restrictions: Restrictions,
) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let bits = u32::try_from(restrictions.bits()).map_err(io::Error::other)?;
    let attributes = MountAttrFlags::from_bits_retain(bits);
    Ok(rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Attaches a detached mount at `path` beneath `at`. The last part of the path is not followed if
/// it is a symbolic link.
///
/// # Errors
/// What move_mount(2) says.
pub fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", at, path, flags)?)
}

/// Attaches a detached mount over an attached one, whose root `at` is.
///
/// # Errors
/// What move_mount(2) says.
pub fn attach_over(mount: BorrowedFd<'_>, at: BorrowedFd<'_>) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(mount, "", at, "", flags)?)
}

/// Detaches the mount at `path`.
///
/// # Errors
/// What umount2(2) says; `EINVAL` for one that came with our mount namespace.
pub fn detach(path: &Path) -> io::Result<()> {
    Ok(rustix::mount::unmount(path, UnmountFlags::DETACH)?)
}

/// Makes the attached mount `root` the root of our mount namespace, and lets go of the old one.
///
/// # Errors
/// What fchdir(2), pivot_root(2) or umount2(2) says.
pub fn enter_root(root: BorrowedFd<'_>) -> io::Result<()> {
    rustix::process::fchdir(root)?;
    // Both the same directory: the old root lands on top of the new one, and is then the thing
    // that "." means (pivot_root(2), "pivot_root(".", ".")").
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}
