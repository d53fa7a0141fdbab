//! What every part of the daemon shares.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use minimal_proto::api::VersionInfo;
use minimal_proto::error::Chain;
use minimal_proto::{ErrorBody, ErrorCode, Timestamp};
use minimal_store::{BlankDir, StateDir};
use tokio::sync::{Semaphore, watch};

use crate::index::Index;
use crate::launcher::KeeperLauncher;
use crate::screen::Painter;
use crate::stock::Stock;

/// How long a box that was just born has the processors for itself, before another keeper is made
/// ahead: what starts fast often ends fast.
const BREATHER: Duration = Duration::from_millis(20);
/// How long no box is born until a rush is over.
const QUIET: Duration = Duration::from_secs(30);

/// Bytes of input that may wait to be handed on, over all clients: 64 MiB. Past it writers wait.
const INPUT_ROOM: usize = 64 << 20;

/// The daemon as its parts see it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) state: StateDir,
    pub(crate) index: Arc<Index>,
    pub(crate) launcher: Box<dyn KeeperLauncher>,
    /// Directories for boxes to come.
    pub(crate) blank_dirs: Stock<BlankDir>,
    /// The host's name.
    pub(crate) name: String,
    /// Which boot this is.
    pub(crate) boot_id: String,
    pub(crate) version: VersionInfo,
    pub(crate) started_at: Timestamp,
    /// Boxes with an actor.
    pub(crate) live: AtomicUsize,
    /// Attached clients.
    pub(crate) streams: AtomicUsize,
    /// Bytes of input that may yet wait here to be handed on, over all clients.
    pub(crate) input_room: Arc<Semaphore>,
    /// Paints terminals for clients that come to them.
    pub(crate) painter: Painter,
    leaving: watch::Sender<bool>,
    /// Each birth holds a receiver, so that leaving can wait for them.
    births: watch::Sender<()>,
    /// How many births there were.
    born: AtomicU64,
}

/// What a host is made of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) state: StateDir,
    pub(crate) launcher: Box<dyn KeeperLauncher>,
    pub(crate) version: String,
    pub(crate) build: String,
}

/// That a box is being made, which leaving waits for.
#[derive(Debug)]
pub(crate) struct BirthPass {
    // Only held, so that the sender knows of it.
    _held: watch::Receiver<()>,
}

impl Host {
    pub(crate) fn new(parts: Parts) -> Self {
        let pid = std::process::id();
        Self {
            state: parts.state,
            index: Arc::default(),
            launcher: parts.launcher,
            blank_dirs: Stock::new(),
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            boot_id: boot_id(),
            version: VersionInfo {
                version: parts.version,
                build: parts.build,
                api: minimal_proto::api::API_VERSION,
                keeper_protocol: minimal_proto::keeper::PROTOCOL,
                pid: i32::try_from(pid).expect("pids are below 2^22 (proc(5), pid_max)"),
            },
            started_at: Timestamp::now(),
            live: AtomicUsize::new(0),
            streams: AtomicUsize::new(0),
            input_room: Arc::new(Semaphore::new(INPUT_ROOM)),
            painter: Painter::new(),
            leaving: watch::channel(false).0,
            births: watch::channel(()).0,
            born: AtomicU64::new(0),
        }
    }

    /// How many boxes have an actor.
    pub(crate) fn live_boxes(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Asks the daemon to leave. Boxes are not touched.
    pub(crate) fn leave(&self) {
        self.leaving.send_replace(true);
    }

    /// Completes once it was asked to leave.
    pub(crate) async fn asked_to_leave(&self) {
        let mut leaving = self.leaving.subscribe();
        // The sender is in `self`.
        drop(leaving.wait_for(|leaving| *leaving).await);
    }

    /// Permission to make a box.
    ///
    /// # Errors
    /// The daemon is leaving.
    pub(crate) fn begin_birth(&self) -> Result<BirthPass, ErrorBody> {
        let pass = BirthPass { _held: self.births.subscribe() };
        // Looked at after the pass was taken: either it is waited for or it is refused.
        if *self.leaving.borrow() {
            return Err(ErrorBody::new(
                ErrorCode::SteppingDown,
                "the daemon is handing over to another build; nothing was made",
            ));
        }
        Ok(pass)
    }

    /// Has keepers and directories made ahead for the boxes to come, when no box is being born.
    /// Called after each birth, so that the last of several does it.
    pub(crate) fn make_ahead(self: &Arc<Self>) {
        let host = Arc::clone(self);
        let born = self.born.fetch_add(1, Ordering::Relaxed) + 1;
        tokio::spawn(async move {
            if host.launcher.is_ready() {
                tokio::time::sleep(BREATHER).await;
            }
            if host.births.receiver_count() > 0 {
                return;
            }
            let making = Arc::clone(&host);
            let make = move || {
                making.launcher.make_ahead();
                if let Err(error) = making.blank_dirs.fill(|| making.state.blank_dir()) {
                    tracing::warn!(error = %Chain(&error), "no directory is made ahead");
                }
            };
            drop(tokio::task::spawn_blocking(make).await);
            tokio::time::sleep(QUIET).await;
            if host.born.load(Ordering::Relaxed) == born {
                host.launcher.calm_down();
                // Directories are deleted: not on a thread that serves.
                drop(tokio::task::spawn_blocking(move || host.blank_dirs.calm_down()));
            }
        });
    }

    /// Completes once no box is being made.
    pub(crate) async fn births_done(&self) {
        self.births.closed().await;
    }
}

/// The running boot's id, or a word that equals none if the kernel does not say: then a lost box
/// counts as of another boot, which is only a detail of its ending.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_unreadable| "unknown".to_owned(), |text| text.trim().to_owned())
}
