//! The daemon from its start to its end.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minimal_proto::error::Chain;
use minimal_proto::{ErrorBody, ErrorCode, Readiness};
use minimal_store::{DaemonLock, ListError, LockError, StateDir, StateDirError, try_lock_daemon};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Config, SOCKET, Starter};
use crate::host::{Host, Parts};
use crate::launcher::NurseryLauncher;
use crate::socket::{Socket, SocketError};
use crate::{api, boxes, log_file};

/// How long leaving waits for boxes that are being made: a keeper that has been asked for goes on by
/// itself, so this only saves its client from asking again.
const BIRTHS_LIMIT: Duration = Duration::from_secs(5);

/// How long after the loss of its file the socket is bound again.
const REBIND_REST: Duration = Duration::from_millis(200);

/// How long leaving waits for answers that are on their way, such as the one to the request to leave.
const ANSWERS_LIMIT: Duration = Duration::from_millis(100);

/// How long a blocking call may hold up the end of the process. All of them leave the disk in a
/// state that the next start understands.
const BLOCKING_LIMIT: Duration = Duration::from_secs(1);

/// How long a start waits for a daemon that is leaving, and how often it looks.
const TAKE_OVER_LIMIT: Duration = Duration::from_secs(3);
const TAKE_OVER_STEP: Duration = Duration::from_millis(5);

/// Descriptors of a runtime: its queue twice, its waker, a socket pair for signals and a copy of it,
/// its listener.
const LOOP_DESCRIPTORS: usize = 7;

/// How long a thread that may block is kept without work.
const THREADS_KEPT: Duration = Duration::from_secs(600);
/// Threads that serve. One slow turn must not hold up everything; more than a few only cost.
const LEAST_THREADS: usize = 2;
const MOST_THREADS: usize = 8;

/// The daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The state directory cannot be used.
    #[error("start the daemon")]
    State(#[from] StateDirError),
    /// It cannot be known whether another daemon runs.
    #[error("start the daemon")]
    Lock(#[from] LockError),
    /// The boxes cannot be listed.
    #[error("start the daemon")]
    List(#[from] ListError),
    /// Nobody could connect.
    #[error("start the daemon")]
    Socket(#[from] SocketError),
    /// The kernel refused something else.
    #[error("start the daemon: {attempt}")]
    System {
        /// What was attempted.
        attempt: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl DaemonError {
    /// As it is told to whoever started the daemon.
    #[must_use]
    pub fn to_body(&self) -> ErrorBody {
        let body = ErrorBody::new(ErrorCode::Unreachable, Chain(self).to_string());
        match self {
            Self::State(error) => body.with_hint(error.hint()),
            Self::Lock(_) | Self::List(_) | Self::Socket(_) | Self::System { .. } => body,
        }
    }
}

/// Runs a daemon until it is asked to leave.
///
/// The process is expected to be a clean one: a session of its own, no descriptors that it was not
/// given on purpose, one thread. What became of the start is told on [`Config::ready`]; if another
/// daemon has the state directory, that is told, and this returns at once.
///
/// # Errors
/// It could not start. That was told, too.
pub fn run(config: Config) -> Result<(), DaemonError> {
    let Config { state_dir, socket, version, build, ready } = config;
    let mut starter = Starter::new(ready);
    let outcome = prepare(&state_dir, socket).and_then(|prepared| match prepared {
        None => {
            starter.tell(&Readiness::AlreadyRunning);
            Ok(())
        }
        Some(prepared) => serve(prepared, (version, build), &mut starter),
    });
    if let Err(error) = &outcome {
        tracing::error!(error = %Chain(error), "the daemon could not start");
        starter.tell(&Readiness::Failed(error.to_body()));
    }
    outcome
}

/// What a daemon has before it is one.
struct Prepared {
    state: StateDir,
    socket: PathBuf,
    // Given up last, when nothing of this daemon acts any more.
    lock: DaemonLock,
}

fn prepare(state_dir: &Path, socket: Option<PathBuf>) -> Result<Option<Prepared>, DaemonError> {
    // Everything below is ours alone, also what is created without a mode.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let state = StateDir::open(state_dir)?;
    let socket = socket.unwrap_or_else(|| state.path().join(SOCKET));
    let Some(lock) = become_daemon(&state, &socket)? else { return Ok(None) };
    minimal_linux::limits::raise_open_files();
    if let Err(error) = log_file::start(state.path()) {
        // Boxes matter more than our log; a full disk is told by what fails for it.
        tracing::error!(%error, "there is no daemon.log");
    }
    for error in state.finish_reaping() {
        tracing::warn!(error = %Chain(&error), "a deleted box has left something");
    }
    Ok(Some(Prepared { state, socket, lock }))
}

/// Takes the lock; `None` if another daemon has it and means to keep it.
///
/// One that has stepped down holds its lock for a moment longer than its socket, so a lock without
/// a socket is waited for.
fn become_daemon(state: &StateDir, socket: &Path) -> Result<Option<DaemonLock>, DaemonError> {
    let until = Instant::now() + TAKE_OVER_LIMIT;
    loop {
        if let Some(lock) = try_lock_daemon(state)? {
            return Ok(Some(lock));
        }
        if socket.exists() || Instant::now() >= until {
            return Ok(None);
        }
        std::thread::park_timeout(TAKE_OVER_STEP);
    }
}

fn serve(
    prepared: Prepared,
    (version, build): (String, String),
    starter: &mut Starter,
) -> Result<(), DaemonError> {
    let Prepared { state, socket, lock } = prepared;
    let system = |attempt| move |source| DaemonError::System { attempt, source };
    // Without descriptors for its signals the runtime panics instead of saying so.
    minimal_linux::fds::have_room(LOOP_DESCRIPTORS).map_err(system("make a runtime"))?;
    let threads = std::thread::available_parallelism().map_or(LEAST_THREADS, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.clamp(LEAST_THREADS, MOST_THREADS))
        // Making a box needs one of the threads that may block: not a new one for each command that
        // somebody types.
        .thread_keep_alive(THREADS_KEPT)
        .enable_all()
        .build()
        .map_err(system("make a runtime"))?;
    let launcher = Box::new(NurseryLauncher::new(state.path()));
    let host = Arc::new(Host::new(Parts { state, launcher, version, build }));
    let outcome = runtime.block_on(serve_until_asked(&host, &socket, &lock, starter));
    runtime.shutdown_timeout(BLOCKING_LIMIT);
    drop(lock);
    outcome
}

async fn serve_until_asked(
    host: &Arc<Host>,
    socket: &Path,
    lock: &DaemonLock,
    starter: &mut Starter,
) -> Result<(), DaemonError> {
    let system = |attempt| move |source| DaemonError::System { attempt, source };
    let mut term = signal(SignalKind::terminate()).map_err(system("handle TERM"))?;
    let mut int = signal(SignalKind::interrupt()).map_err(system("handle INT"))?;
    // A host that cannot isolate still has boxes to show; creating one says why it cannot.
    let nursery = Arc::clone(host);
    let nursery = tokio::task::spawn_blocking(move || nursery.launcher.prepare());
    let kept = boxes::load::load(host).await?;
    match nursery.await.expect("starting the nursery does not panic") {
        Ok(()) => host.make_ahead(),
        Err(error) => tracing::warn!(%error, "boxes cannot be made for now"),
    }
    host.remove_condemned();
    let (socket, mut file) = Socket::bind(socket)?;
    let server = axum::serve(socket, api::router(Arc::clone(host)));
    starter.tell(&Readiness::Ready { pid: host.version.pid });
    tracing::info!(
        version = host.version.version,
        build = host.version.build,
        kept,
        boxes = host.index.all().len(),
        "ready",
    );
    let mut server = Box::pin(async { server.await });
    loop {
        tokio::select! {
            served = &mut server => break served.map_err(system("serve"))?,
            _ = term.recv() => break host.leave(),
            _ = int.recv() => break host.leave(),
            () = host.asked_to_leave() => break,
            () = file.lost() => {}
        }
        // Whoever deletes it may be deleting all of the state, which must not grow meanwhile.
        tokio::time::sleep(REBIND_REST).await;
        if !lock.is_in_place(&host.state) {
            tracing::error!("the state directory was deleted, or is another daemon's: leaving");
            break host.leave();
        }
        match file.bind_again().await {
            Ok(()) => tracing::warn!("the socket was deleted, and is bound again"),
            Err(error) => {
                tracing::error!(error = %Chain(&error), "the socket cannot be bound again");
            }
        }
    }
    // From here on nobody new gets in. While the lock is held the socket is still our own.
    drop(server);
    if lock.is_in_place(&host.state) {
        file.remove();
    }
    if tokio::time::timeout(BIRTHS_LIMIT, host.births_done()).await.is_err() {
        tracing::warn!("left while a box was being made; its keeper goes on");
    }
    tokio::time::sleep(ANSWERS_LIMIT).await;
    tracing::info!("left; boxes run on");
    Ok(())
}
