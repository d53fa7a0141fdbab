//! Starting the daemon when none answers.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use minimal_proto::{ErrorBody, ErrorCode, Readiness};
use minimal_sdk::{ConnectError, Connecting, Connector};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout_at};

use super::{silent, stage, systemd};
use crate::env::Env;
use crate::state_paths::StatePaths;

/// How long a daemon may take to start. It reads every box's journal first: ten thousand take a
/// second or two on a slow disk.
const START_LIMIT: Duration = Duration::from_secs(15);

/// The longest line a starting daemon writes.
const LINE_MAX: u64 = 64 << 10;

/// How often to look whether another client's daemon listens.
const LOOK: Duration = Duration::from_millis(10);

/// How long another client's daemon is waited for before one is started again.
const OTHERS_LIMIT: Duration = Duration::from_secs(2);

/// The variables a daemon keeps of its starter's. Everything else would be one client's, for ever.
const KEPT: &[&str] = &["PATH", "HOME", "LANG", "XDG_RUNTIME_DIR"];

/// Connects to the daemon, and starts it if none answers.
#[derive(Debug)]
pub struct Autospawn {
    paths: StatePaths,
    environment: Vec<(OsString, OsString)>,
    /// `systemd-run`, if this user's services can be started with it.
    systemd: Option<PathBuf>,
}

/// How often a daemon that dies while it starts is started again: something may have killed it.
const DEATHS: u32 = 3;

/// What became of a start.
enum Started {
    /// A daemon listens.
    Listens,
    /// Another client's daemon is on its way.
    Others,
    /// It died without a word.
    Died,
}

impl Autospawn {
    /// A connector for these paths.
    #[must_use]
    pub fn new(paths: &StatePaths, env: &Env) -> Self {
        let hooks = cfg!(feature = "testhooks").then_some("MINIMAL_HOOKS");
        let environment = KEPT
            .iter()
            .copied()
            .chain(hooks)
            .filter_map(|name| Some((name.into(), env.get(name)?.to_owned())))
            .collect();
        Self { paths: paths.clone(), environment, systemd: systemd::runner(env) }
    }

    async fn connect_or_start(&self) -> Result<UnixStream, ConnectError> {
        let socket = self.paths.socket();
        let deadline = Instant::now() + START_LIMIT;
        let (mut deaths, mut others) = (0, false);
        loop {
            let absent = match minimal_sdk::connect(&socket).await {
                Err(absent @ ConnectError::Absent { .. }) => absent,
                other => return other,
            };
            if Instant::now() >= deadline {
                return Err(if others { self.elsewhere().await } else { absent });
            }
            if let Some(runner) = &self.systemd
                && systemd::start(runner, &self.paths, &self.environment).await
                && let Some(stream) = self.listening(&socket, deadline).await?
            {
                return Ok(stream);
            }
            match self.start(deadline).await? {
                Started::Listens => {}
                Started::Died => {
                    deaths += 1;
                    if deaths == DEATHS {
                        return Err(self.fault("the daemon died while it was starting".to_owned()));
                    }
                }
                Started::Others => {
                    others = true;
                    if let Some(stream) = self.listening(&socket, deadline).await? {
                        return Ok(stream);
                    }
                }
            }
        }
    }

    /// A connection to a daemon that somebody else started, once it listens.
    async fn listening(
        &self,
        socket: &Path,
        deadline: Instant,
    ) -> Result<Option<UnixStream>, ConnectError> {
        let deadline = deadline.min(Instant::now() + OTHERS_LIMIT);
        while Instant::now() < deadline {
            match minimal_sdk::connect(socket).await {
                Err(ConnectError::Absent { .. }) => tokio::time::sleep(LOOK).await,
                other => return other.map(Some),
            }
        }
        Ok(None)
    }

    /// Starts a daemon and hears what became of it.
    async fn start(&self, deadline: Instant) -> Result<Started, ConnectError> {
        let cannot = |what: &str, error: std::io::Error| {
            self.fault(format!("start the daemon: {what}: {error}"))
        };
        let (answer, tell) = std::io::pipe().map_err(|error| cannot("make a pipe", error))?;
        let mut child = self
            .command(tell.into())
            .spawn()
            .map_err(|error| cannot("execute our own file", error))?;
        let answer = pipe::Receiver::from_owned_fd(OwnedFd::from(answer))
            .map_err(|error| cannot("read from a pipe", error))?;
        let mut line = String::new();
        let mut answer = BufReader::new(answer.take(LINE_MAX));
        let heard = timeout_at(deadline, answer.read_line(&mut line)).await;
        // What we started has left its place to the daemon by now, or is about to.
        drop(child.try_wait());
        match heard {
            Err(_elapsed) => Err(self.fault(format!(
                "the daemon has not become ready within {} s",
                START_LIMIT.as_secs()
            ))),
            Ok(Err(error)) => Err(cannot("hear from it", error)),
            Ok(Ok(_)) => match serde_json::from_str(&line) {
                Ok(Readiness::Ready { .. }) => Ok(Started::Listens),
                Ok(Readiness::AlreadyRunning) => Ok(Started::Others),
                Ok(Readiness::Failed(body)) => Err(ConnectError::Start(Box::new(body))),
                Err(_) => Ok(Started::Died),
            },
        }
    }

    /// The daemon that has the state directory does not listen where we connect.
    async fn elsewhere(&self) -> ConnectError {
        let pid = silent::running(&self.paths).await.and_then(|daemon| daemon.pid);
        ConnectError::Start(Box::new(silent::not_listening(&self.paths, pid)))
    }

    fn fault(&self, what: String) -> ConnectError {
        let log = self.paths.state_dir.join("daemon.log");
        let body = ErrorBody::new(ErrorCode::Unreachable, what)
            .with_hint(format!("{} may say more", log.display()));
        ConnectError::Start(Box::new(body))
    }

    /// Our own file, whatever has become of its name since we were started. The pipe is its
    /// standard output, so that nothing of ours need be inherited by number.
    fn command(&self, tell: OwnedFd) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0(stage::ARGV0)
            .args(stage::arguments(&self.paths))
            .arg(stage::TELL)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(tell)
            .stderr(Stdio::null());
        command
    }
}

impl Connector for Autospawn {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(self.connect_or_start())
    }
}

/// The name of a variable and its value as one word.
pub(super) fn assignment(name: &OsStr, value: &OsStr) -> OsString {
    let mut word = name.to_owned();
    word.push("=");
    word.push(value);
    word
}
