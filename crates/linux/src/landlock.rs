//! Landlock: what a process gives up for itself and all it makes (landlock(7)).

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// `struct landlock_ruleset_attr` as of ABI 6 (Linux 6.12).
#[repr(C)]
#[derive(Default)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

/// `LANDLOCK_CREATE_RULESET_VERSION`: asks for the ABI instead of making a rule set.
const VERSION: u32 = 1;
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET`.
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
/// The first ABI with scopes.
const SCOPES_SINCE: i64 = 6;

/// Whether this kernel can keep a process from others' abstract sockets: Linux 6.12 or later, with
/// Landlock switched on.
#[must_use]
pub fn can_scope_sockets() -> bool {
    // SAFETY: without attributes the call reads no memory.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0_usize,
            VERSION,
        )
    };
    abi >= SCOPES_SINCE
}

/// Keeps this process's only thread, and all it will make, from connecting to abstract Unix sockets
/// of anyone else (unix(7)): these belong to a network, and no file permission guards them.
/// no_new_privs must be set.
///
/// # Errors
/// What landlock_create_ruleset(2) or landlock_restrict_self(2) says; `EINVAL` before Linux 6.12.
pub fn scope_sockets() -> io::Result<()> {
    let attr = RulesetAttr { scoped: SCOPE_ABSTRACT_UNIX_SOCKET, ..RulesetAttr::default() };
    // SAFETY: the kernel reads an attribute of the size given.
    let ruleset = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(&attr),
            size_of::<RulesetAttr>(),
            0_u32,
        )
    };
    if ruleset < 0 {
        return Err(io::Error::last_os_error());
    }
    let ruleset = i32::try_from(ruleset).map_err(io::Error::other)?;
    // SAFETY: the kernel has just made this descriptor for us.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset) };
    // SAFETY: the call takes two numbers.
    let result =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
