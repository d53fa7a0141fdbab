//! Making processes: fork(2) and clone3(2) from a single-threaded process.
//!
//! Keepers, inits and entrypoints are made without an exec in between, so a child goes on in
//! ordinary Rust. That is sound only while one thread exists: another thread could hold a lock of
//! the allocator at the moment of the fork. Every function here therefore refuses to run with more
//! than one thread.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use crate::Child;

/// On which side of a fork we are.
#[derive(Debug)]
pub enum Forked {
    /// The one that forked, with its child.
    Parent(Child),
    /// The child.
    Child,
}

/// Whose network a box is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// A new network namespace, with a loopback of its own.
    Own,
    /// That of whoever makes the box.
    Makers,
}

impl Network {
    /// Which new namespaces a box's init is born into, by their names in /proc (namespaces(7)).
    #[must_use]
    pub const fn namespaces(self) -> &'static [&'static str] {
        match self {
            Self::Own => &["user", "mnt", "pid", "uts", "ipc", "cgroup", "net"],
            Self::Makers => &["user", "mnt", "pid", "uts", "ipc", "cgroup"],
        }
    }
}

/// `struct clone_args` of clone3(2), as far as version 0 (64 bytes, Linux 5.3).
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// fork(2), with a pidfd for the parent.
///
/// # Errors
/// More than one thread (`EDEADLK`), or what clone3(2) says: `EAGAIN` at a process limit, `ENOMEM`.
pub fn fork() -> io::Result<Forked> {
    clone(0, libc::SIGCHLD)
}

/// Makes the first process of new namespaces of every kind in [`Network::namespaces`].
///
/// # Errors
/// As [`fork`]; `EPERM` where user namespaces are refused, `ENOSPC` at their limit
/// (`user.max_user_namespaces`).
pub fn fork_into_new_namespaces(network: Network) -> io::Result<Forked> {
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWCGROUP;
    let network = match network {
        Network::Own => libc::CLONE_NEWNET,
        Network::Makers => 0,
    };
    clone(u64::from((flags | network).cast_unsigned()), libc::SIGCHLD)
}

/// Makes a child of our *parent*: what a joiner does, so that the keeper itself can wait for what
/// it starts. Returns the child's pid in our pid namespace; `None` in the child.
///
/// The child's end is told to the parent as ours would be, so the parent waits with `__WALL`.
///
/// # Errors
/// As [`fork`].
pub fn fork_sibling() -> io::Result<Option<i32>> {
    refuse_threads()?;
    // CLONE_PARENT wants no exit signal (clone3(2)).
    let args =
        CloneArgs { flags: u64::from(libc::CLONE_PARENT.cast_unsigned()), ..CloneArgs::default() };
    // SAFETY: as in `clone`.
    let pid = unsafe { clone3(&args) }?;
    Ok((pid != 0).then_some(pid))
}

fn clone(flags: u64, exit_signal: i32) -> io::Result<Forked> {
    refuse_threads()?;
    let mut pidfd: RawFd = -1;
    let args = CloneArgs {
        flags: flags | u64::from(libc::CLONE_PIDFD.cast_unsigned()),
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: u64::from(exit_signal.cast_unsigned()),
        ..CloneArgs::default()
    };
    // SAFETY: without CLONE_VM and a stack the child runs on a copy of our memory, as after
    // fork(2); there is one thread, so no lock is held by anyone else in that copy. `pidfd` is a
    // valid place for the kernel to write an int to.
    let pid = unsafe { clone3(&args) }?;
    if pid == 0 {
        return Ok(Forked::Child);
    }
    // SAFETY: the kernel has just made this descriptor for us (CLONE_PIDFD) and nobody else has it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Forked::Parent(Child::from_parts(pid, pidfd)))
}

/// # Safety
/// The process has one thread, `args` asks for no shared memory, and what it points to is valid.
unsafe fn clone3(args: &CloneArgs) -> io::Result<i32> {
    // SAFETY: the caller's promise; the size is that of the struct given.
    let result = unsafe {
        libc::syscall(libc::SYS_clone3, std::ptr::from_ref(args), size_of::<CloneArgs>())
    };
    match i32::try_from(result) {
        Ok(pid) if pid >= 0 => Ok(pid),
        Ok(_) | Err(_) => Err(io::Error::last_os_error()),
    }
}

/// unshare(2) with CLONE_THREAD does nothing but fail with EINVAL where there is another thread. It
/// needs no /proc, which a process that has entered a box does not have.
fn refuse_threads() -> io::Result<()> {
    // SAFETY: the flag changes nothing in a process with one thread, and is refused in others.
    if unsafe { libc::unshare(libc::CLONE_THREAD) } == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EDEADLK))
    }
}

/// Ends this process at once: no destructor, no exit handler. For children that share their
/// parent's buffers.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit(2) has no precondition.
    unsafe { libc::_exit(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_refused() {
        // The test runner's own thread is there beside ours.
        let refused = std::thread::spawn(|| fork().map(drop)).join().unwrap().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EDEADLK));
    }
}
