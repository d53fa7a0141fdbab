//! A keeper made ahead: it knows everything but its box.
//!
//! What a keeper does before it knows its box costs milliseconds: the fork, entering control groups
//! (`limits::cgroups`), and a blank box (`birth::blank`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use minimal_linux::fork::{Forked, fork};
use minimal_linux::{fds, signals, socket, title};
use minimal_proto::{BoxId, Signal};

use super::MAX_MESSAGE;
use super::process::SOCKET;
use crate::birth::Blank;
use crate::limits::Cgroups;
use crate::shared_root::SharedRoot;

/// A process that waits for a box, or for the nursery's end, which is its own.
#[derive(Debug)]
pub(super) struct Spare {
    pid: i32,
    socket: OwnedFd,
}

/// A keeper that has a box. It shows its end of file when that is born.
#[derive(Debug)]
pub(super) struct Birth {
    socket: OwnedFd,
}

impl Spare {
    /// Forks one, which goes on by itself to make what can be made ahead.
    ///
    /// # Errors
    /// What socketpair(2) and clone3(2) say.
    pub(super) fn fork(state_dir: &Path, shared: &SharedRoot) -> io::Result<Self> {
        let (ours, theirs) = socket::message_pair()?;
        match fork()? {
            Forked::Child => {
                drop(ours);
                let status = wait_for_box(theirs, state_dir, shared).unwrap_or(1);
                minimal_linux::fork::exit_now(status)
            }
            Forked::Parent(child) => Ok(Self { pid: child.pid(), socket: ours }),
        }
    }

    /// Makes it the keeper of a box. Returns its pid.
    ///
    /// # Errors
    /// What sendmsg(2) says; `EPIPE` or `ECONNRESET` if it is gone.
    pub(super) fn hand_over(
        self,
        id: BoxId,
        connection: BorrowedFd<'_>,
    ) -> io::Result<(i32, Birth)> {
        socket::send(self.socket.as_fd(), id.to_string().as_bytes(), Some(connection))?;
        Ok((self.pid, Birth { socket: self.socket }))
    }
}

impl AsFd for Birth {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn wait_for_box(requests: OwnedFd, state_dir: &Path, shared: &SharedRoot) -> io::Result<i32> {
    // The daemon's socket must not be held open by a keeper: the nursery's end would not show.
    let null = std::fs::File::open("/dev/null")?;
    fds::set_standard(null.as_fd(), SOCKET)?;
    signals::restore_default(Signal::CHLD);
    rustix::process::setsid()?;
    title::set("min-spare").ok();
    // Before init is cloned, which is in the groups from its first moment on.
    let cgroups = Cgroups::enter_new(&shared.limits);
    // What fails here fails again once there is a box to report it to.
    let blank = Blank::ahead(state_dir, shared).ok();
    let mut buffer = [0; MAX_MESSAGE];
    let (length, passed) = socket::receive(requests.as_fd(), &mut buffer)?;
    let id = std::str::from_utf8(&buffer[..length]).ok().and_then(|text| text.parse().ok());
    let (Some(id), Some(connection)) = (id, passed) else {
        // The nursery is gone, and nobody needs a keeper. Nobody is about to enter a group either:
        // what is empty is left over, say from a keeper killed at its last step.
        drop((blank, cgroups));
        shared.limits.sweep();
        return Ok(0);
    };
    title::set(&format!("min-keeper {id}")).ok();
    let id: BoxId = id;
    let connection = UnixStream::from(connection);
    Ok(crate::process::run(id, connection, state_dir, (cgroups, blank), shared, requests))
}
