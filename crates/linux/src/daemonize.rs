//! Leaving the world of whoever started us.

use std::io;

use crate::fork::{Forked, exit_now, fork};

/// Leaves the caller's session and its parent: setsid(2), then a fork whose parent exits with 0,
/// so that we can never get a controlling terminal and are nobody's child.
///
/// # Errors
/// What setsid(2) or [`fork`] says. More than one thread is an error.
pub fn detach() -> io::Result<()> {
    // A process that leads its group already (started from an interactive shell) cannot make a
    // session, so the fork comes first.
    leave_parent()?;
    rustix::process::setsid()?;
    leave_parent()
}

fn leave_parent() -> io::Result<()> {
    match fork()? {
        Forked::Parent(_) => exit_now(0),
        Forked::Child => Ok(()),
    }
}
