//! Running from a read-only copy of our own executable.
//!
//! A process of ours that enters a box without an exec runs our file inside it. If the box then
//! executes `/proc/<pid>/exe` it holds our file, and once nobody runs it any more it could write to
//! it (CVE-2019-5736). A detached read-only mount of the file stays read-only for ever.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags};

use crate::mount::{Reach, Restrictions, clone_tree, restrict};

/// Executes our own file anew, from a copy that nobody can write, with these arguments and our
/// environment. Returns only if that failed. Needs CAP_SYS_ADMIN over our mount namespace.
///
/// `path` is where the file was when it was executed. If something else is there by now (an
/// upgrade), the copy is made in memory instead.
#[must_use]
pub fn execute_read_only(path: &Path, argv: &[CString]) -> io::Error {
    let attempt = || -> io::Result<std::convert::Infallible> {
        let ours = File::open("/proc/self/exe")?;
        let copy = match detached_mount(path, &ours) {
            Ok(mount) => mount,
            Err(_) => sealed_memory(&ours)?,
        };
        Err(execute(copy.as_fd(), argv))
    };
    match attempt() {
        Err(error) => error,
        Ok(never) => match never {},
    }
}

/// The same from the file itself: for tests that show what the copy is good for.
#[must_use]
pub fn execute_as_it_is(path: &Path, argv: &[CString]) -> io::Error {
    match File::open(path) {
        Ok(file) => execute(file.as_fd(), argv),
        Err(error) => error,
    }
}

/// A read-only mount of the file alone, attached nowhere: no memory, and read-only for ever.
fn detached_mount(path: &Path, ours: &File) -> io::Result<OwnedFd> {
    let mount = clone_tree(rustix::fs::CWD, path, Reach::One)?;
    let there = rustix::fs::fstat(&mount)?;
    let ours = ours.metadata()?;
    if (there.st_dev, there.st_ino) != (ours.dev(), ours.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let restrictions = Restrictions { read_only: true, no_set_uid: true, no_devices: true };
    restrict(mount.as_fd(), restrictions, Reach::One)?;
    Ok(mount)
}

/// The file's bytes in memory, sealed against every change (memfd_create(2)).
fn sealed_memory(ours: &File) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = File::from(rustix::fs::memfd_create("min", flags)?);
    io::copy(&mut &*ours, &mut &memory)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memory, seals)?;
    Ok(memory.into())
}

fn execute(file: BorrowedFd<'_>, argv: &[CString]) -> io::Error {
    use std::os::unix::ffi::OsStringExt as _;
    let environment: Vec<CString> = std::env::vars_os()
        .filter_map(|(name, value)| {
            CString::new([name.into_vec(), b"=".to_vec(), value.into_vec()].concat()).ok()
        })
        .collect();
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, environment) = (pointers(argv), pointers(&environment));
    // SAFETY: an empty C string, two arrays that end with a null pointer and whose texts live until
    // the call returns, and an open descriptor.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            file.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr(),
            environment.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}
