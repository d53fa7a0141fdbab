//! Signal dispositions and masks.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use minimal_proto::Signal;

/// The signal as rustix names it.
pub(crate) fn to_rustix(signal: Signal) -> io::Result<rustix::process::Signal> {
    rustix::process::Signal::from_named_raw(signal.number())
        .or_else(|| {
            // SAFETY: any number of 34 to 64 is a signal the C library does not keep for itself.
            (34..=64)
                .contains(&signal.number())
                .then(|| unsafe { rustix::process::Signal::from_raw_unchecked(signal.number()) })
        })
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Sets every signal to its default and unblocks all: what a program expects to start with,
/// whatever started us ignored or blocked (exec keeps both, signal(7)).
pub fn reset() {
    for number in 1..=64 {
        if number != libc::SIGKILL && number != libc::SIGSTOP {
            set_default(number);
        }
    }
    set_mask(&empty());
}

/// Ignores a signal.
pub fn ignore(signal: Signal) {
    set(signal.number(), libc::SIG_IGN);
}

/// Sets a signal to its default.
pub fn restore_default(signal: Signal) {
    set(signal.number(), libc::SIG_DFL);
}

/// Sets a signal to its default by the system call itself: the C library refuses 32 and 33, which it
/// keeps for itself, and leaves ignored in what it spawns.
fn set_default(number: i32) {
    // `struct sigaction` as the kernel has it: the default's handler, no flags, no mask. All of it is
    // zero, so the order of its fields, which differs between machines, does not matter.
    let default = [0_u64; 4];
    let mask_size = size_of::<u64>();
    // SAFETY: `default` is at least as long as the kernel's structure and only read; no old one is
    // asked for. The default runs no code of ours.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            number,
            default.as_ptr(),
            std::ptr::null_mut::<u64>(),
            mask_size,
        )
    };
}

fn set(number: i32, disposition: libc::sighandler_t) {
    // SAFETY: SIG_DFL and SIG_IGN run no code of ours. The C library refuses the numbers it keeps
    // for itself with EINVAL, which changes nothing.
    unsafe { libc::signal(number, disposition) };
}

fn empty() -> libc::sigset_t {
    // SAFETY: sigset_t is plain data, for which zero is a valid value.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `mask` is a valid place to write to.
    unsafe { libc::sigemptyset(&raw mut mask) };
    mask
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: `mask` is initialised; a null old mask is allowed.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// Blocks `SIGCHLD` and gives a descriptor that is readable once a child has ended (signalfd(2)).
///
/// # Errors
/// What signalfd(2) says.
pub fn child_events() -> io::Result<OwnedFd> {
    let mut mask = empty();
    // SAFETY: `mask` is initialised and SIGCHLD is a signal.
    unsafe { libc::sigaddset(&raw mut mask, libc::SIGCHLD) };
    set_mask(&mask);
    // SAFETY: `mask` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const mask, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sends a signal to every process we may signal but ourselves and, where we are the first process
/// of a pid namespace, to that namespace only (kill(2), pid -1). `false` if there is none.
///
/// # Errors
/// What kill(2) says.
pub fn signal_all(signal: Signal) -> io::Result<bool> {
    // Outside a pid namespace of our own this would reach the whole host.
    if rustix::process::getpid().as_raw_nonzero().get() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // SAFETY: kill(2) takes any numbers.
    if unsafe { libc::kill(-1, signal.number()) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(false) } else { Err(error) }
}
