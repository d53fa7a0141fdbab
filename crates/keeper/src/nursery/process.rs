//! The nursery's own process.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use minimal_linux::fork::{Forked, Network, exit_now, fork_into_new_namespaces};
use minimal_linux::{Child, fds, signals, socket, title};
use minimal_proto::Signal;

use super::outer::{self, Outer};
use super::{ARGV0, Greeting, Launched, MAX_MESSAGE};
use super::{remover, spare};
use crate::shared_root::SharedRoot;
use crate::walls;

/// The daemon's socket is handed over as standard input, which exec keeps.
pub(super) const SOCKET: i32 = 0;

/// The body of the process called [`ARGV0`]: `min-nursery <state directory> <room>`.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    let Some(socket) = fds::take(SOCKET) else { return ExitCode::FAILURE };
    let Some(state_dir) = arguments.first().map(PathBuf::from) else { return ExitCode::FAILURE };
    let outcome = match outer::entered(arguments) {
        Some(outer) => serve(&socket, &state_dir, &outer),
        None => outer::enter(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(greeting) => {
            // Without a daemon there is nobody to tell.
            send(&socket, &greeting).ok();
            ExitCode::FAILURE
        }
    }
}

pub(super) fn failed(step: &'static str) -> impl Fn(io::Error) -> Greeting {
    move |error| Greeting::Failed { step: step.to_owned(), errno: error.raw_os_error() }
}

pub(super) fn refused(step: &'static str) -> impl Fn(io::Error) -> Greeting {
    move |error| Greeting::Isolation { step: step.to_owned(), errno: error.raw_os_error() }
}

/// Answers requests until the daemon is gone.
fn serve(socket: &OwnedFd, state_dir: &Path, outer: &Outer) -> Result<(), Greeting> {
    let users = outer.users()?;
    signals::reset();
    // A closed pipe or socket is an answer of the call that met it, here and in every keeper.
    signals::ignore(Signal::PIPE);
    // And so is a file that may not grow, for the limits of whoever started the daemon.
    signals::ignore(Signal::XFSZ);
    try_namespaces().map_err(refused("make the namespaces of a box"))?;
    walls::down();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    title::set(&format!("{ARGV0} {}", state_dir.display())).ok();
    crate::birth::sweep_blanks(state_dir);
    let shared = SharedRoot::assemble(state_dir, users, outer.lack())
        .map_err(|(step, error)| Greeting::Isolation { step, errno: error.raw_os_error() })?;
    crate::birth::make_common_maps(users);
    // Keepers are reaped by the kernel: nobody here asks how they ended. Not before: what is
    // assembled takes a child or two.
    signals::ignore(Signal::CHLD);
    send(socket, &Greeting::Ready { users: users.into() }).map_err(failed("greet the daemon"))?;
    let mut buffer = [0; MAX_MESSAGE];
    loop {
        let (length, passed) = match socket::receive(socket.as_fd(), &mut buffer) {
            Ok((0, _)) | Err(_) => {
                // Of keepers that were killed before they had a box.
                shared.limits.sweep();
                return Ok(());
            }
            Ok(received) => received,
        };
        let message = &buffer[..length];
        let (answer, child) = match (remover::asked_for(message), passed) {
            (Some(id), Some(connection)) => {
                answered(remover::start(id, connection.as_fd(), state_dir))
            }
            (None, Some(connection)) if spare::is_asked_for(message) => {
                answered(spare::start(connection.as_fd(), state_dir, &shared))
            }
            _ => (Launched::Refused { step: "read a request".to_owned(), errno: None }, None),
        };
        let pidfd = child.as_ref().map(|child| child.as_fd());
        if send_with(socket, &answer, pidfd).is_err() {
            return Ok(());
        }
    }
}

fn answered(forked: io::Result<Child>) -> (Launched, Option<Child>) {
    match forked {
        Ok(child) => (Launched::Forked { pid: child.pid() }, Some(child)),
        Err(error) => {
            let step = "make a process".to_owned();
            (Launched::Refused { step, errno: error.raw_os_error() }, None)
        }
    }
}

/// Makes the namespaces of a box once, for nothing: a host that refuses them is told of now, before
/// there is a box that cannot start. Root is refused too where they are switched off.
fn try_namespaces() -> io::Result<()> {
    match fork_into_new_namespaces(Network::Own)? {
        Forked::Child => exit_now(0),
        Forked::Parent(mut child) => child.reap().map(|_| ()),
    }
}

fn send<T: serde::Serialize>(socket: &OwnedFd, message: &T) -> io::Result<()> {
    send_with(socket, message, None)
}

fn send_with<T: serde::Serialize>(
    socket: &OwnedFd,
    message: &T,
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(io::Error::from)?;
    socket::send(socket.as_fd(), &text, passed)
}
