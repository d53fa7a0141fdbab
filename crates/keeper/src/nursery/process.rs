//! The nursery's own process.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use minimal_linux::fork::{Forked, exit_now, fork_into_new_namespaces};
use minimal_linux::namespaces::{self, IdRange, Setgroups};
use minimal_linux::{fds, mount, own_file, signals, socket, title};
use minimal_proto::Signal;

use super::pool::Pool;
use super::{ARGV0, Greeting, Launched, MAX_MESSAGE};
use crate::shared_root::SharedRoot;
use crate::users::Users;

/// Marks the second execution, from the read-only copy of our file.
const SECOND: &str = "--second";

/// The daemon's socket is handed over as standard input, which exec keeps.
pub(super) const SOCKET: i32 = 0;

/// The body of the process called [`ARGV0`]: `min-nursery <state directory> <room>`.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    let Some(socket) = fds::take(SOCKET) else { return ExitCode::FAILURE };
    let Some(state_dir) = arguments.first().map(PathBuf::from) else { return ExitCode::FAILURE };
    let second = arguments.get(2).is_some_and(|argument| argument == SECOND);
    let outcome = if second { serve(&socket, &state_dir) } else { enter(arguments) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(greeting) => {
            // Without a daemon there is nobody to tell.
            send(&socket, &greeting).ok();
            ExitCode::FAILURE
        }
    }
}

fn failed(step: &'static str) -> impl Fn(io::Error) -> Greeting {
    move |error| Greeting::Failed { step: step.to_owned(), errno: error.raw_os_error() }
}

fn refused(step: &'static str) -> impl Fn(io::Error) -> Greeting {
    move |error| Greeting::Isolation { step: step.to_owned(), errno: error.raw_os_error() }
}

/// Enters the namespaces keepers live in and executes our file anew, from a copy nobody can write.
fn enter(arguments: &[OsString]) -> Result<(), Greeting> {
    let executable = std::env::current_exe().map_err(failed("find our executable"))?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() {
        namespaces::own_mounts().map_err(refused("make a mount namespace"))?;
    } else {
        namespaces::own_user_and_mounts().map_err(refused("make a user namespace"))?;
        let root = |id| [IdRange { inside: 0, outside: id, count: 1 }];
        namespaces::write_id_maps(
            "self",
            &root(uid.as_raw()),
            &root(gid.as_raw()),
            Setgroups::Deny,
        )
        .map_err(refused("map our own user in a user namespace"))?;
    }
    // Before the copy: it must not propagate to the host.
    mount::receive_only().map_err(refused("take mounts from the host only"))?;
    let argv: Vec<CString> = [ARGV0.as_bytes()]
        .into_iter()
        .chain(arguments.iter().take(2).map(|argument| argument.as_bytes()))
        .chain([SECOND.as_bytes()])
        .filter_map(|argument| CString::new(argument).ok())
        .collect();
    // Standard input goes on being the daemon's socket across the exec.
    Err(failed("execute our own file from a read-only copy")(own_file::execute_read_only(
        &executable,
        &argv,
    )))
}

/// Has a keeper ready for each request until the daemon is gone.
fn serve(socket: &OwnedFd, state_dir: &Path) -> Result<(), Greeting> {
    let users = if rustix::process::geteuid().is_root() && is_initial_user_namespace() {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Users::reserve(&[read("/etc/subuid"), read("/etc/subgid")].join("\n")).ok_or_else(|| {
            Greeting::Isolation {
                step: "find 65536 user ids that /etc/subuid and /etc/subgid leave free".to_owned(),
                errno: None,
            }
        })?
    } else {
        Users::Single
    };
    signals::reset();
    // A closed pipe or socket is an answer of the call that met it, here and in every keeper.
    signals::ignore(Signal::PIPE);
    try_namespaces().map_err(refused("make the namespaces of a box"))?;
    // Keepers are reaped by the kernel: nobody here asks how they ended.
    signals::ignore(Signal::CHLD);
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    title::set(&format!("{ARGV0} {}", state_dir.display())).ok();
    crate::birth::sweep_blanks(state_dir);
    let shared = SharedRoot::assemble(state_dir, users)
        .map_err(|(step, error)| Greeting::Isolation { step, errno: error.raw_os_error() })?;
    send(socket, &Greeting::Ready { users: users.into() }).map_err(failed("greet the daemon"))?;
    let mut pool = Pool::new();
    let mut buffer = [0; MAX_MESSAGE];
    loop {
        pool.wait(socket, state_dir, &shared).map_err(failed("wait for requests"))?;
        let (length, passed) = match socket::receive(socket.as_fd(), &mut buffer) {
            Ok((0, _)) | Err(_) => return Ok(()),
            Ok(received) => received,
        };
        let id = std::str::from_utf8(&buffer[..length]).ok().and_then(|text| text.parse().ok());
        let answer = match (id, passed) {
            (Some(id), Some(connection)) => {
                match pool.launch(id, connection.as_fd(), state_dir, &shared) {
                    Ok(pid) => Launched::Forked { pid },
                    Err(error) => Launched::Refused {
                        step: "make a process".to_owned(),
                        errno: error.raw_os_error(),
                    },
                }
            }
            _ => Launched::Refused { step: "read a request".to_owned(), errno: None },
        };
        if send(socket, &answer).is_err() {
            return Ok(());
        }
    }
}

/// Makes the namespaces of a box once, for nothing: a host that refuses them is told of now, before
/// there is a box that cannot start. Root is refused too where they are switched off.
fn try_namespaces() -> io::Result<()> {
    match fork_into_new_namespaces()? {
        Forked::Child => exit_now(0),
        Forked::Parent(mut child) => child.reap().map(|_| ()),
    }
}

/// Whether ids are the host's own: only then is uid 0 the host's root (user_namespaces(7): the
/// initial namespace maps everything to itself).
fn is_initial_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|map| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

fn send<T: serde::Serialize>(socket: &OwnedFd, message: &T) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(io::Error::from)?;
    let socket: BorrowedFd<'_> = socket.as_fd();
    socket::send(socket, &text, None)
}
