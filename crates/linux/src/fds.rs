//! Descriptors of a process as a whole.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, RawFd};

/// Closes every descriptor but these.
///
/// Whoever owns a closed one as a value must be gone or never use it again: this is for a process
/// that was just made and has taken what it needs.
///
/// # Errors
/// What close_range(2) says.
pub fn close_all_except(keep: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut keep: Vec<u32> =
        keep.iter().filter_map(|fd| u32::try_from(fd.as_raw_fd()).ok()).collect();
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep {
        if fd > first {
            close_range(first, fd - 1, 0)?;
        }
        first = first.max(fd + 1);
    }
    close_range(first, u32::MAX, 0)
}

/// Marks every descriptor from `first` on to be closed by exec.
///
/// # Errors
/// What close_range(2) says.
pub fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    let first =
        u32::try_from(first).map_err(|_negative| io::Error::from_raw_os_error(libc::EBADF))?;
    close_range(first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
}

/// Marks every open descriptor from `first` on to survive an exec: for tests that show what
/// [`close_on_exec_from`] is good for.
///
/// # Errors
/// What listing /proc/self/fd says.
pub fn keep_on_exec_from(first: RawFd) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse::<RawFd>().ok())
            && number >= first
        {
            // SAFETY: F_SETFD takes any number and any flags; one that is not open is refused.
            unsafe { libc::fcntl(number, libc::F_SETFD, 0) };
        }
    }
    Ok(())
}

fn close_range(first: u32, last: u32, flags: u32) -> io::Result<()> {
    // SAFETY: close_range(2) takes any numbers. That no closed descriptor is used again is what
    // the callers' documentation asks for.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes sure that this process can have so many more descriptors: for what panics without them.
///
/// # Errors
/// `EMFILE` or `ENFILE`: it cannot.
pub fn have_room(count: usize) -> io::Result<()> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        // An event counter needs nothing but its number.
        held.push(rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?);
    }
    Ok(())
}

/// Takes a descriptor that was handed over by number, at an exec. `None` if it is not open.
///
/// # Safety contract, held by the callers
/// Each number is taken once, at the start of a process, before anything else could have opened it.
#[must_use]
pub fn take(number: RawFd) -> Option<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd as _;
    // SAFETY: F_GETFD only asks whether the number is open.
    if number < 0 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and by the contract above nobody else owns it.
    Some(unsafe { std::os::fd::OwnedFd::from_raw_fd(number) })
}

/// Makes `fd` the process's descriptor 0, 1 or 2, without close-on-exec. The standard streams are
/// nobody's value, so nothing is closed twice.
///
/// # Errors
/// What dup2(2) says.
pub fn set_standard(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    debug_assert!((0..=2).contains(&number), "only the standard streams have fixed numbers");
    // SAFETY: dup2 takes any numbers; `fd` is open.
    if unsafe { libc::dup2(fd.as_raw_fd(), number) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
