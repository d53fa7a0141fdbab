//! POSIX record locks on single bytes of a file (fcntl(2), `F_SETLK`).
//!
//! They belong to the process: a forked child does not have them, and they go when their process
//! ends, however it ends. They also go when the process closes *any* descriptor of that file, so a
//! file with locks is opened once per process and kept open.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// Takes the exclusive lock on one byte without waiting. `false`: another process has it.
///
/// Taking a lock that this process has already succeeds. The descriptor must be open for writing.
///
/// # Errors
/// The kernel's answer, other than that the lock is held.
pub fn try_write_lock(fd: BorrowedFd<'_>, byte: u64) -> io::Result<bool> {
    let mut lock = describe(libc::F_WRLCK, byte)?;
    match fcntl(fd, libc::F_SETLK, &mut lock) {
        Ok(()) => Ok(true),
        // POSIX allows either for a lock held by another process.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Gives up this process's lock on one byte, if it has it.
///
/// # Errors
/// The kernel's answer.
pub fn unlock(fd: BorrowedFd<'_>, byte: u64) -> io::Result<()> {
    fcntl(fd, libc::F_SETLK, &mut describe(libc::F_UNLCK, byte)?)
}

/// A process that has a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its pid, for people; none where it is in a pid namespace that cannot be seen from here.
    pub pid: Option<i32>,
}

/// Another process that has the lock on one byte, or `None`. Locks of the calling process are not
/// seen.
///
/// # Errors
/// The kernel's answer.
pub fn holder(fd: BorrowedFd<'_>, byte: u64) -> io::Result<Option<Holder>> {
    let mut lock = describe(libc::F_WRLCK, byte)?;
    fcntl(fd, libc::F_GETLK, &mut lock)?;
    let free = i32::from(lock.l_type) == libc::F_UNLCK;
    // The kernel says 0 of one that it cannot name here: a number that kill(2) takes for a group.
    Ok((!free).then(|| Holder { pid: Some(lock.l_pid).filter(|pid| *pid > 0) }))
}

/// A lock of one byte. Fails for an offset that no file can have.
fn describe(kind: libc::c_int, byte: u64) -> io::Result<libc::flock> {
    let invalid = |_out_of_range| io::Error::from_raw_os_error(libc::EINVAL);
    Ok(libc::flock {
        l_type: libc::c_short::try_from(kind).map_err(invalid)?,
        l_whence: libc::c_short::try_from(libc::SEEK_SET).map_err(invalid)?,
        l_start: libc::off_t::try_from(byte).map_err(invalid)?,
        l_len: 1,
        l_pid: 0,
    })
}

fn fcntl(fd: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    // SAFETY: `fd` is open for the length of the call, and `lock` is a whole `flock` that both
    // commands used here (F_SETLK, F_GETLK) read or write only during the call.
    let answer = unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_free_byte_is_free_and_an_impossible_one_is_an_error() {
        let path = std::env::temp_dir().join(format!("record-lock-{}", std::process::id()));
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(holder(file.as_fd(), 0).unwrap(), None);
        assert!(try_write_lock(file.as_fd(), 0).unwrap());
        assert!(try_write_lock(file.as_fd(), 0).unwrap(), "taking it again succeeds");
        assert_eq!(holder(file.as_fd(), 0).unwrap(), None, "one's own locks are not seen");
        unlock(file.as_fd(), 0).unwrap();
        assert!(try_write_lock(file.as_fd(), u64::MAX).is_err());
    }
}
