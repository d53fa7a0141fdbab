//! Running from a read-only copy of our own executable.
//!
//! A process of ours that enters a box without an exec runs our file inside it. If the box then
//! executes `/proc/<pid>/exe` it holds our file, and once nobody runs it any more it could write to
//! it (CVE-2019-5736). A detached read-only mount of the file stays read-only for ever.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;

use crate::mount::{Reach, Restrictions, clone_tree, restrict};

/// Executes `path` anew, from a detached read-only mount of it, with these arguments and our
/// environment. Returns only if that failed. Needs CAP_SYS_ADMIN over our mount namespace.
#[must_use]
pub fn execute_read_only(path: &Path, argv: &[CString]) -> io::Error {
    let attempt = || -> io::Result<()> {
        let mount = clone_tree(rustix::fs::CWD, path, Reach::One)?;
        let restrictions = Restrictions { read_only: true, no_set_uid: true, no_devices: true };
        restrict(mount.as_fd(), restrictions, Reach::One)?;
        let arguments: Vec<_> =
            argv.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        let environment: Vec<CString> = std::env::vars_os()
            .filter_map(|(name, value)| {
                use std::os::unix::ffi::OsStringExt as _;
                CString::new([name.into_vec(), b"=".to_vec(), value.into_vec()].concat()).ok()
            })
            .collect();
        let environment: Vec<_> =
            environment.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        // SAFETY: an empty C string, two arrays that end with a null pointer and whose texts live
        // until the call returns, and an open descriptor.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                mount.as_raw_fd(),
                c"".as_ptr(),
                arguments.as_ptr(),
                environment.as_ptr(),
                libc::AT_EMPTY_PATH,
            )
        };
        Err(io::Error::last_os_error())
    };
    match attempt() {
        Err(error) => error,
        Ok(()) => io::Error::other("execveat returned without an error"),
    }
}
