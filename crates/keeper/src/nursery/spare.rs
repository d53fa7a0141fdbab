//! A keeper made ahead: it knows everything but its box.
//!
//! What a keeper does before it knows its box costs milliseconds: the fork, entering control groups
//! (`limits::cgroups`), and a blank box (`birth::blank`).

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_linux::{Child, fds, signals, title};
use minimal_proto::Signal;

use super::process::SOCKET;
use crate::birth::Blank;
use crate::limits::Cgroups;
use crate::process::{self, Ahead};
use crate::shared_root::SharedRoot;

/// Asks for a keeper.
const WORD: &[u8] = b"keeper";

/// The request for a keeper.
pub(super) const fn request() -> &'static [u8] {
    WORD
}

/// Whether a message asks for a keeper.
pub(super) fn is_asked_for(message: &[u8]) -> bool {
    message == WORD
}

/// Forks a keeper, which goes on by itself to make what can be made ahead, and then waits for its
/// box at `connection`: that one's end is its own. Returns it.
///
/// # Errors
/// What clone3(2) says.
pub(super) fn start(
    connection: BorrowedFd<'_>,
    state_dir: &Path,
    shared: &SharedRoot,
) -> io::Result<Child> {
    match fork()? {
        Forked::Child => {
            let status = wait_for_box(connection, state_dir, shared).unwrap_or(1);
            exit_now(status)
        }
        Forked::Parent(child) => Ok(child),
    }
}

fn wait_for_box(
    connection: BorrowedFd<'_>,
    state_dir: &Path,
    shared: &SharedRoot,
) -> io::Result<i32> {
    // The daemon's socket must not be held open by a keeper: the nursery's end would not show.
    let null = std::fs::File::open("/dev/null")?;
    fds::set_standard(null.as_fd(), SOCKET)?;
    signals::restore_default(Signal::CHLD);
    rustix::process::setsid()?;
    title::set("min-spare").ok();
    let connection = UnixStream::from(connection.try_clone_to_owned()?);
    // Before init is cloned, which is in the groups from its first moment on.
    let cgroups = Cgroups::enter_new(&shared.limits);
    // What fails here fails again once there is a box to report it to.
    let blank = Blank::ahead(state_dir, shared).ok();
    Ok(process::run(connection, Ahead { cgroups, blank }, state_dir, shared))
}
