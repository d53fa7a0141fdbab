//! The daemon's side of the nursery.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use minimal_linux::socket;
use minimal_proto::BoxId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::PidfdFlags;

use super::forked::{Forked, KeeperProcess};
use super::remover::{self, Removed};
use super::spare;
use super::{ARGV0, Greeting, Launched, MAX_MESSAGE};
use crate::users::Users;

/// How long the nursery may take for its greeting and for each answer: it forks and does nothing
/// that could block, so this only bounds a fault.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How long deleting one box may take: minutes of a slow disk's work are no fault, but one
/// that never answers must not be waited for without end. The process goes on.
const REMOVAL_LIMIT: Duration = Duration::from_secs(600);

/// How long it may take to end: it removes control groups in which nothing is left.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Room for the title `min-keeper <box id>`: a forked keeper can only write over the arguments the
/// nursery was executed with.
const TITLE_ROOM: &str = "................................................................";

/// A running nursery. Dropping it ends it, within a second; keepers go on.
#[derive(Debug)]
pub struct Nursery {
    users: Users,
    /// One request at a time: an answer belongs to the request before it.
    socket: Mutex<OwnedFd>,
    process: Mutex<Child>,
}

/// Why there is no nursery, or no keeper.
#[derive(Debug, thiserror::Error)]
pub enum NurseryError {
    /// The process could not be started.
    #[error("start the process that makes boxes")]
    Spawn(#[source] io::Error),
    /// The host refuses what a box needs.
    #[error("this host refuses to isolate boxes: {message}")]
    Isolation {
        /// What was attempted and the kernel's answer.
        message: String,
        /// The kernel's answer.
        errno: Option<i32>,
    },
    /// A step of its start or of a fork failed.
    #[error("make a box's keeper: {message}")]
    Step {
        /// What was attempted and the kernel's answer.
        message: String,
        /// The kernel's answer.
        errno: Option<i32>,
    },
    /// A box was not deleted whole.
    #[error("{message}")]
    Removal {
        /// What stood in the way.
        message: String,
    },
    /// It is gone.
    #[error("the process that makes boxes does not answer")]
    Gone(#[source] io::Error),
    /// It is there and does not answer.
    #[error(
        "the process that makes boxes (pid {pid}) has not answered within {} s; if it was stopped, \
         `kill -CONT {pid}` lets it go on, and `kill -9 {pid}` has another one started",
        ANSWER_LIMIT.as_secs()
    )]
    Silent {
        /// Its pid.
        pid: u32,
    },
}

fn words(step: &str, errno: Option<i32>) -> String {
    match errno {
        Some(errno) => format!("{step}: {}", io::Error::from_raw_os_error(errno)),
        None => step.to_owned(),
    }
}

impl Nursery {
    /// Starts a nursery for the boxes below `state_dir` and waits for its greeting.
    ///
    /// # Errors
    /// See [`NurseryError`].
    pub fn start(state_dir: &Path) -> Result<Self, NurseryError> {
        let (ours, theirs) = socket::message_pair().map_err(NurseryError::Spawn)?;
        limit_waiting(&ours).map_err(NurseryError::Spawn)?;
        let process = Command::new("/proc/self/exe")
            .arg0(ARGV0)
            .arg(state_dir)
            .arg(TITLE_ROOM)
            .env_clear()
            .envs(hook_environment())
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            .spawn()
            .map_err(NurseryError::Spawn)?;
        let mut nursery =
            Self { users: Users::Single, socket: Mutex::new(ours), process: Mutex::new(process) };
        match nursery.receive()? {
            Greeting::Ready { users } => {
                nursery.users = users.into();
                Ok(nursery)
            }
            Greeting::Isolation { step, errno } => {
                Err(NurseryError::Isolation { message: words(&step, errno), errno })
            }
            Greeting::Failed { step, errno } => {
                Err(NurseryError::Step { message: words(&step, errno), errno })
            }
        }
    }

    /// `range`, `subordinate` or `single`: which ids of the host its boxes' users are.
    #[must_use]
    pub fn users(&self) -> &'static str {
        self.users.as_str()
    }

    /// Whether its process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        matches!(process.try_wait(), Ok(None))
    }

    /// Asks for a keeper. It waits at its control connection for
    /// [`minimal_proto::keeper::ToKeeper::Start`], and ends if the connection does before.
    ///
    /// # Errors
    /// See [`NurseryError`]; after [`NurseryError::Gone`] a new nursery is needed.
    pub fn launch(&self) -> Result<Forked, NurseryError> {
        self.ask(spare::request())
    }

    /// Has a box deleted that was moved out of the boxes, with the rights of a box's users. Returns
    /// when it is over, after some time if there is much.
    ///
    /// # Errors
    /// See [`NurseryError`]. What is left can be deleted by another attempt.
    pub fn remove(&self, id: BoxId) -> Result<(), NurseryError> {
        let mut connection = self.ask(remover::request(id).as_bytes())?.connection;
        connection.set_read_timeout(Some(REMOVAL_LIMIT)).map_err(NurseryError::Gone)?;
        let mut text = Vec::new();
        connection.read_to_end(&mut text).map_err(NurseryError::Gone)?;
        if text.is_empty() {
            return Err(NurseryError::Gone(io::ErrorKind::UnexpectedEof.into()));
        }
        let Removed { error } =
            serde_json::from_slice(&text).map_err(|error| NurseryError::Gone(error.into()))?;
        match error {
            None => Ok(()),
            Some(message) => Err(NurseryError::Removal { message }),
        }
    }

    /// Sends a request with one end of a connection, and returns the other when a process has it.
    fn ask(&self, request: &[u8]) -> Result<Forked, NurseryError> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| NurseryError::Step {
            message: words("make a socket pair", error.raw_os_error()),
            errno: error.raw_os_error(),
        })?;
        let answer = {
            let socket = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            socket::send(socket.as_fd(), request, Some(theirs.as_fd()))
                .map_err(NurseryError::Gone)?;
            drop(theirs);
            receive(&socket).map_err(|error| self.silent_or(error))?
        };
        match answer {
            (Launched::Forked { pid }, Some(pidfd)) => {
                Ok(Forked { connection: ours, process: KeeperProcess::new(pid, pidfd) })
            }
            // It passes one with every process.
            (Launched::Forked { .. }, None) => {
                Err(NurseryError::Gone(io::ErrorKind::InvalidData.into()))
            }
            (Launched::Refused { step, errno }, _) => {
                Err(NurseryError::Step { message: words(&step, errno), errno })
            }
        }
    }

    /// A wait that was over before the answer is told as what it is.
    fn silent_or(&self, error: NurseryError) -> NurseryError {
        match error {
            NurseryError::Gone(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let process =
                    self.process.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                NurseryError::Silent { pid: process.id() }
            }
            error => error,
        }
    }

    fn receive<T: for<'de> serde::Deserialize<'de>>(&self) -> Result<T, NurseryError> {
        let socket = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        receive(&socket).map(|(message, _)| message)
    }
}

impl Drop for Nursery {
    /// Lets it end by itself, at the end of its socket, since it tidies up then, and reaps it. Its
    /// keepers are not its business any more.
    fn drop(&mut self) {
        let socket = self.socket.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both).ok();
        let process = self.process.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Not reaped yet, so the number is its own still.
        if let Ok(pid) = i32::try_from(process.id())
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
            && let Ok(ended) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
            && let Ok(limit) = Timespec::try_from(END_LIMIT)
        {
            poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&limit)).ok();
        }
        // One that was stopped does not see its end. Of one that has ended, the status is kept.
        process.kill().ok();
        process.wait().ok();
    }
}

fn receive<T: for<'de> serde::Deserialize<'de>>(
    socket: &OwnedFd,
) -> Result<(T, Option<OwnedFd>), NurseryError> {
    let mut buffer = [0; MAX_MESSAGE];
    let (length, passed) =
        socket::receive(socket.as_fd(), &mut buffer).map_err(NurseryError::Gone)?;
    if length == 0 {
        return Err(NurseryError::Gone(io::ErrorKind::UnexpectedEof.into()));
    }
    let message = serde_json::from_slice(&buffer[..length]);
    Ok((message.map_err(|error| NurseryError::Gone(error.into()))?, passed))
}

fn limit_waiting(socket: &OwnedFd) -> io::Result<()> {
    use rustix::net::sockopt::{Timeout, set_socket_timeout};
    Ok(set_socket_timeout(socket, Timeout::Recv, Some(ANSWER_LIMIT))?)
}

/// The one variable a keeper may need: where fault points are set, in builds that have them.
fn hook_environment() -> Vec<(&'static str, std::ffi::OsString)> {
    if cfg!(feature = "testhooks") {
        std::env::var_os("MINIMAL_HOOKS")
            .map(|value| ("MINIMAL_HOOKS", value))
            .into_iter()
            .collect()
    } else {
        Vec::new()
    }
}
