//! Namespaces: entering them, and the maps of user namespaces.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::thread::{ThreadNameSpaceType, UnshareFlags};

use crate::Child;
use crate::fork::{Forked, Network, exit_now, fork};

/// A line of a user namespace's map: ids from `inside` on are those from `outside` on in the
/// parent namespace (user_namespaces(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRange {
    /// First id inside.
    pub inside: u32,
    /// First id outside.
    pub outside: u32,
    /// How many.
    pub count: u32,
}

/// Whether a namespace's processes may call setgroups(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setgroups {
    /// As the parent namespace has it.
    Inherit,
    /// Never: what an unprivileged process must say before it may write a group map.
    Deny,
}

/// Writes the maps of process `pid`'s new user namespace. `who` is a pid or `self`.
///
/// # Errors
/// What writing to /proc says; `EPERM` for ids we have no right to.
pub fn write_id_maps(
    who: &str,
    uids: &[IdRange],
    gids: &[IdRange],
    setgroups: Setgroups,
) -> io::Result<()> {
    let write = |file: &str, text: &str| {
        // One write(2) each: the kernel takes a map whole or not at all.
        File::options().write(true).open(format!("/proc/{who}/{file}"))?.write_all(text.as_bytes())
    };
    write("uid_map", &lines(uids))?;
    if setgroups == Setgroups::Deny {
        write("setgroups", "deny")?;
    }
    write("gid_map", &lines(gids))
}

fn lines(ranges: &[IdRange]) -> String {
    ranges.iter().fold(String::new(), |mut text, range| {
        let IdRange { inside, outside, count } = range;
        writeln!(text, "{inside} {outside} {count}").expect("a String takes every write");
        text
    })
}

/// Enters a user and a mount namespace of our own: all rights over mounts, none over the host.
///
/// # Errors
/// What unshare(2) says; `EPERM` where user namespaces are refused, `ENOSPC` at their limit.
pub fn own_user_and_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)
}

/// Enters a user namespace of our own.
///
/// # Errors
/// As [`own_user_and_mounts`].
pub fn own_user_namespace() -> io::Result<()> {
    unshare(UnshareFlags::NEWUSER)
}

/// Enters a mount namespace of our own.
///
/// # Errors
/// What unshare(2) says; `EPERM` without CAP_SYS_ADMIN.
pub fn own_mounts() -> io::Result<()> {
    unshare(UnshareFlags::NEWNS)
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: neither flag unshares the descriptor table (CLONE_FILES), which is what makes the
    // call unsafe: descriptors known to others keep their meaning.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Enters all the namespaces of a box's process that [`Network::namespaces`] names. The pid namespace
/// holds for children only (setns(2)). Root and working directory become those of the mount
/// namespace.
///
/// # Errors
/// What setns(2) says.
pub fn join(process: &Child, network: Network) -> io::Result<()> {
    let mut kinds = ThreadNameSpaceType::USER
        | ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::CONTROL_GROUP;
    // The maker's own is ours already, and entering it takes rights over whoever owns it.
    if network == Network::Own {
        kinds |= ThreadNameSpaceType::NETWORK;
    }
    Ok(rustix::thread::move_into_thread_name_spaces(process.as_fd(), kinds)?)
}

/// A user namespace that exists only as a map, for [`crate::mount::map_ids`]. A child makes it
/// and is gone when this returns.
///
/// # Errors
/// What the steps say: a fork, unshare(2), the maps.
pub fn map_only(uids: &[IdRange], gids: &[IdRange]) -> io::Result<OwnedFd> {
    user_namespace(|pid| write_id_maps(&pid.to_string(), uids, gids, Setgroups::Inherit))
}

/// A user namespace that nobody is in, with the maps that `write_maps` gives it: it is called with
/// the pid of a child that is in it until this returns.
///
/// # Errors
/// What the steps say: a fork, unshare(2), or `write_maps`.
pub fn user_namespace<E: From<io::Error>>(
    write_maps: impl FnOnce(i32) -> Result<(), E>,
) -> Result<OwnedFd, E> {
    let (ready_read, ready_write) = io::pipe()?;
    let (done_read, done_write) = io::pipe()?;
    match fork()? {
        Forked::Child => {
            drop((ready_read, done_write));
            let made = unshare(UnshareFlags::NEWUSER).is_ok();
            if made {
                // Nothing to say if the parent is gone: the read below then ends at once.
                drop((&ready_write).write_all(b"r"));
            }
            drop(ready_write);
            let mut byte = [0];
            drop(io::Read::read(&mut &done_read, &mut byte));
            exit_now(i32::from(!made));
        }
        Forked::Parent(mut child) => {
            drop((ready_write, done_read));
            let result = (|| {
                let mut byte = [0];
                if io::Read::read(&mut &ready_read, &mut byte)? != 1 {
                    return Err(io::Error::from_raw_os_error(libc::EPERM).into());
                }
                write_maps(child.pid())?;
                Ok(File::open(format!("/proc/{}/ns/user", child.pid())).map(OwnedFd::from)?)
            })();
            drop(done_write);
            child.reap()?;
            result
        }
    }
}

/// Enters a user namespace: whoever made it has every right in it (user_namespaces(7)).
///
/// # Errors
/// What setns(2) says.
pub fn enter_user_namespace(namespace: BorrowedFd<'_>) -> io::Result<()> {
    let kind = Some(rustix::thread::LinkNameSpaceType::User);
    Ok(rustix::thread::move_into_link_name_space(namespace, kind)?)
}

/// The map of our own user namespace, in ids of its parent; of the kernel's initial one, every id
/// to itself.
///
/// # Errors
/// What reading /proc says.
pub fn own_uid_map() -> io::Result<Vec<IdRange>> {
    let text = std::fs::read_to_string("/proc/self/uid_map")?;
    let ranges = text.lines().filter_map(|line| {
        let mut numbers = line.split_ascii_whitespace().map_while(|number| number.parse().ok());
        let (inside, outside) = (numbers.next()?, numbers.next()?);
        Some(IdRange { inside, outside, count: numbers.next()? })
    });
    Ok(ranges.collect())
}

/// Whether ids are the host's own: only then is uid 0 the host's root (user_namespaces(7): the
/// initial namespace maps everything to itself).
#[must_use]
pub fn is_initial_user_namespace() -> bool {
    let everything = [IdRange { inside: 0, outside: 0, count: u32::MAX }];
    own_uid_map().is_ok_and(|map| map == everything)
}
