//! A file system that answers nothing, as one whose server is gone.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// A FUSE mount whose server never says a word: every access waits. Comes back to life, as an
/// error, when dropped.
#[derive(Debug)]
pub struct DeadMount {
    path: PathBuf,
    _server: File,
}

impl DeadMount {
    /// Mounts one at a new directory; `None` where this machine cannot.
    ///
    /// # Panics
    /// If the directory cannot be made.
    #[must_use]
    pub fn mount(path: &Path) -> Option<Self> {
        let server = OpenOptions::new().read(true).write(true).open("/dev/fuse").ok()?;
        std::fs::create_dir_all(path).unwrap();
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", server.as_raw_fd());
        let options = CString::new(options).unwrap();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        mount("dead", path, "fuse.dead", flags, options.as_c_str()).ok()?;
        Some(Self { path: path.to_owned(), _server: server })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        unmount(&self.path, UnmountFlags::DETACH).ok();
    }
}
