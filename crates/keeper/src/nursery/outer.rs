//! The namespaces that keepers live in: entered once by each nursery, before it executes our file
//! anew from a copy that nobody can write.
//!
//! For the host's root it is a mount namespace. For an ordinary user it is a user namespace as well,
//! in which the user is uid 0, and the user's subordinate ids are uids 1 to 65536: so keepers write
//! the maps of boxes themselves, without a program that takes milliseconds.

use std::ffi::{CString, OsString};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use minimal_linux::namespaces::{self, IdRange, Setgroups};
use minimal_linux::{mount, own_file, signals};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::process::{failed, refused};
use super::{ARGV0, Greeting};
use crate::subordinate::Subordinate;
use crate::users::{RANGE, Users};
use crate::walls::Wall;

/// Marks the second execution, from the read-only copy of our file. What follows it is an [`Outer`].
const SECOND: &str = "--second";

/// How long newuidmap(1) may take: it may ask a directory service.
const PROGRAM_LIMIT: Duration = Duration::from_secs(5);

/// What was entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outer {
    /// The daemon's own user namespace.
    Same,
    /// One with the user's subordinate ids.
    Subordinate,
    /// One with the user alone, and why.
    Alone(String),
}

impl Outer {
    const SAME: &str = "same";
    const SUBORDINATE: &str = "subordinate";

    fn to_argument(&self) -> &str {
        match self {
            Self::Same => Self::SAME,
            Self::Subordinate => Self::SUBORDINATE,
            Self::Alone(why) => why,
        }
    }

    /// Who the users of boxes are.
    pub(super) fn users(&self) -> Result<Users, Greeting> {
        match self {
            Self::Subordinate => Ok(Users::Subordinate),
            Self::Same if namespaces::is_initial_user_namespace() => {
                if !Wall::HostRoot.stands() {
                    return Ok(Users::Range { base: 0 });
                }
                let read = |path| std::fs::read_to_string(path).unwrap_or_default();
                let taken = [read("/etc/subuid"), read("/etc/subgid")].join("\n");
                Users::reserve(&taken).ok_or_else(|| Greeting::Isolation {
                    step: "find 65536 user ids that /etc/subuid and /etc/subgid leave free"
                        .to_owned(),
                    errno: None,
                })
            }
            // Root of a namespace that somebody else made: whose its other ids are is not known.
            Self::Same | Self::Alone(_) => Ok(Users::Single),
        }
    }

    /// Why boxes have one user only, for the record.
    pub(super) fn lack(&self) -> Option<&str> {
        match self {
            Self::Alone(why) => Some(why),
            Self::Same | Self::Subordinate => None,
        }
    }
}

/// What the first execution entered; none if this is the first.
pub(super) fn entered(arguments: &[OsString]) -> Option<Outer> {
    if arguments.get(2)? != SECOND {
        return None;
    }
    let said =
        arguments.get(3).map_or_else(String::new, |text| text.to_string_lossy().into_owned());
    Some(match said.as_str() {
        Outer::SAME => Outer::Same,
        Outer::SUBORDINATE => Outer::Subordinate,
        _ => Outer::Alone(said),
    })
}

/// Enters the namespaces keepers live in and executes our file anew, from a copy nobody can write.
pub(super) fn enter(arguments: &[OsString]) -> Result<(), Greeting> {
    // Whoever started the daemon may have ignored the end of children, and ours are waited for.
    signals::reset();
    let executable = std::env::current_exe().map_err(failed("find our executable"))?;
    let outer = if rustix::process::geteuid().is_root() {
        Outer::Same
    } else {
        match enter_with_subordinate_ids() {
            Ok(()) => Outer::Subordinate,
            Err(why) => {
                enter_alone()?;
                Outer::Alone(why)
            }
        }
    };
    namespaces::own_mounts().map_err(refused("make a mount namespace"))?;
    // Before the copy: it must not propagate to the host.
    mount::receive_only().map_err(refused("take mounts from the host only"))?;
    let argv: Vec<CString> = [ARGV0.as_bytes()]
        .into_iter()
        .chain(arguments.iter().take(2).map(|argument| argument.as_bytes()))
        .chain([SECOND.as_bytes(), outer.to_argument().as_bytes()])
        .filter_map(|argument| CString::new(argument).ok())
        .collect();
    // Standard input goes on being the daemon's socket across the exec.
    let execute = if Wall::OwnExecutable.stands() {
        own_file::execute_read_only
    } else {
        own_file::execute_as_it_is
    };
    Err(failed("execute our own file from a read-only copy")(execute(&executable, &argv)))
}

fn enter_alone() -> Result<(), Greeting> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    namespaces::own_user_namespace().map_err(refused("make a user namespace"))?;
    let root = |id| [IdRange { inside: 0, outside: id, count: 1 }];
    namespaces::write_id_maps("self", &root(uid.as_raw()), &root(gid.as_raw()), Setgroups::Deny)
        .map_err(refused("map our own user in a user namespace"))
}

fn enter_with_subordinate_ids() -> Result<(), String> {
    let found = Subordinate::find(rustix::process::getuid().as_raw());
    let namespace = with_subordinate_ids(&found.map_err(|lack| lack.to_string())?)
        .map_err(|error| error.to_string())?;
    namespaces::enter_user_namespace(namespace.as_fd())
        .map_err(|error| format!("enter the namespace with them: {error}"))
}

/// A user namespace with our own id as 0 and subordinate ones from 1 on. It is made by a child of
/// ours, to be entered once its maps are written: the programs that write them must be started
/// from outside of it, and if they fail nothing has happened.
///
/// The process must have one thread.
///
/// # Errors
/// What the programs say, or the kernel.
pub fn with_subordinate_ids(found: &Subordinate) -> io::Result<OwnedFd> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    namespaces::user_namespace(|pid| {
        write_map(&found.uid_program, pid, uid, found.first_uid)?;
        write_map(&found.gid_program, pid, gid, found.first_gid)
    })
}

/// Has newuidmap(1) or newgidmap(1) write a map: our own id as 0, subordinate ones from 1 on.
fn write_map(program: &str, pid: i32, own: u32, first: u32) -> io::Result<()> {
    let failed = |why: String| io::Error::other(format!("{program}: {why}"));
    let numbers = [0, own, 1, 1, first, RANGE].map(|number| number.to_string());
    let mut child = Command::new(program)
        .arg(pid.to_string())
        .args(numbers)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let deadline = Instant::now() + PROGRAM_LIMIT;
    let mut said = Vec::new();
    // It has ended, or has no more to say, when its standard error ends.
    let ended = child.stderr.take().map_or(Ok(true), |mut pipe| {
        let mut buffer = [0; 512];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(false),
                Ok(_) => match pipe.read(&mut buffer)? {
                    0 => return Ok(true),
                    length => said.extend_from_slice(&buffer[..length.min(buffer.len())]),
                },
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error)),
            }
        }
    });
    if !matches!(ended, Ok(true)) {
        child.kill().ok();
    }
    let status = child.wait()?;
    match ended {
        Ok(true) if status.success() => Ok(()),
        Ok(true) => {
            let said = String::from_utf8_lossy(&said);
            let line = said.lines().next().unwrap_or_default().trim();
            let line = line.trim_start_matches("newuidmap: ").trim_start_matches("newgidmap: ");
            Err(failed(if line.is_empty() { status.to_string() } else { line.to_owned() }))
        }
        Ok(false) => Err(failed(format!("no answer within {} s", PROGRAM_LIMIT.as_secs()))),
        Err(error) => Err(failed(error.to_string())),
    }
}
