//! A small file system that can be filled.

use std::ffi::CString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::Account;

/// A mounted tmpfs of a fixed size; unmounted when dropped.
#[derive(Debug)]
pub struct Tmpfs {
    path: PathBuf,
}

impl Tmpfs {
    /// Mounts one of `size` bytes at a new directory that `account` owns.
    ///
    /// # Panics
    /// If it cannot be mounted: ask [`crate::need::tmpfs`] first.
    #[must_use]
    pub fn mount(path: &Path, size: u64, account: &Account) -> Self {
        fs::create_dir_all(path).unwrap();
        let options = format!("size={size},mode=0700,uid={},gid={}", account.uid, account.gid);
        let options = CString::new(options).unwrap();
        mount("tmpfs", path, "tmpfs", MountFlags::empty(), options.as_c_str()).unwrap();
        Self { path: path.to_owned() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills it to the last byte; the file that does is removed by [`Ballast`]'s drop.
    ///
    /// # Panics
    /// If anything but a full disk stops it.
    #[must_use]
    pub fn fill(&self) -> Ballast {
        let path = self.path.join(".ballast");
        let mut file = fs::File::create(&path).unwrap();
        let mut size = 1 << 20;
        while size > 0 {
            match file.write_all(&vec![0x55; size]) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => size /= 2,
                Err(error) => panic!("filling {}: {error}", path.display()),
            }
        }
        Ballast { path }
    }

    /// Makes it read-only, or writable again.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn set_read_only(&self, read_only: bool) {
        let flags = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
        rustix::mount::mount_remount(&self.path, flags, "").unwrap();
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: a failing test may have left something open there.
        unmount(&self.path, UnmountFlags::DETACH).ok();
    }
}

/// What fills a [`Tmpfs`].
#[derive(Debug)]
pub struct Ballast {
    path: PathBuf,
}

impl Drop for Ballast {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}
