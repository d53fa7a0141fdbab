//! Where keepers come from.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use minimal_keeper::nursery::{Forked, KeeperProcess, Nursery, NurseryError};
use minimal_proto::api::Isolation;
use minimal_proto::error::Chain;
use minimal_proto::{BoxId, ErrorBody, ErrorCode};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::etc_watch::EtcWatch;
use crate::stock::Stock;

/// A keeper that waits for its `Start`.
#[derive(Debug)]
pub(crate) struct Launched {
    /// Its control connection.
    pub(crate) connection: UnixStream,
    /// Its process, where there is one.
    pub(crate) process: Option<KeeperProcess>,
}

/// Makes keepers. All calls but `remove` block for milliseconds at most.
pub(crate) trait KeeperLauncher: std::fmt::Debug + Send + Sync {
    /// Makes sure that keepers can be made, before anything is made for one.
    ///
    /// # Errors
    /// Why they cannot.
    fn prepare(&self) -> Result<(), LaunchError>;

    /// A keeper that waits for its `Start`: one made ahead, or one that is made now.
    ///
    /// # Errors
    /// There is no keeper.
    fn launch(&self) -> Result<Launched, LaunchError>;

    /// Whether a keeper is ready.
    fn is_ready(&self) -> bool;

    /// Makes as many keepers ahead as are wanted. What fails here fails again for a box, and is told
    /// then.
    fn make_ahead(&self);

    /// Goes back to the usual number of them after a rush.
    fn calm_down(&self);

    /// Deletes a box that was moved out of the boxes, with the rights of a box's users. Blocks
    /// until it is done.
    ///
    /// # Errors
    /// Something is left of it.
    fn remove(&self, id: BoxId) -> Result<(), LaunchError>;

    /// What is known of this host.
    fn isolation(&self) -> Isolation;
}

/// No keeper can be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The host refuses isolation.
    #[error("{reason}")]
    Isolation {
        /// What was attempted and the kernel's answer.
        reason: String,
    },
    /// A step failed.
    #[error("{message}")]
    Step {
        /// What was attempted and the kernel's answer.
        message: String,
        /// The kernel's answer.
        errno: Option<i32>,
    },
}

impl From<NurseryError> for LaunchError {
    fn from(error: NurseryError) -> Self {
        match error {
            NurseryError::Isolation { message, .. } => Self::Isolation { reason: message },
            NurseryError::Step { message, errno } => Self::Step { message, errno },
            NurseryError::Removal { message } => Self::Step { message, errno: None },
            NurseryError::Silent { .. } => Self::Step { message: error.to_string(), errno: None },
            NurseryError::Spawn(ref source) | NurseryError::Gone(ref source) => {
                Self::Step { errno: source.raw_os_error(), message: Chain(&error).to_string() }
            }
        }
    }
}

impl LaunchError {
    /// As an answer to a create.
    pub(crate) fn to_body(&self) -> ErrorBody {
        match self {
            Self::Isolation { reason } => {
                ErrorBody::new(ErrorCode::IsolationUnavailable, reason.clone())
                    .with_hint("`min doctor` says what this host lacks and how to get it")
            }
            Self::Step { errno, .. } => {
                let code = if errno.is_some_and(is_shortage) {
                    ErrorCode::NoResources
                } else {
                    ErrorCode::Internal
                };
                ErrorBody::new(code, self.to_string()).with_detail("errno", *errno)
            }
        }
    }
}

/// Whether an errno says that the host has run out of something: processes or memory (fork(2)),
/// descriptors (socket(2)), namespaces (clone(2)).
pub(crate) fn is_shortage(errno: i32) -> bool {
    let shortages = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::NOSPC];
    shortages.iter().any(|shortage| shortage.raw_os_error() == errno)
}

/// Launches keepers from a nursery, and starts another one when it is gone.
#[derive(Debug)]
pub(crate) struct NurseryLauncher {
    state_dir: PathBuf,
    nursery: Mutex<Option<(Arc<Nursery>, EtcWatch)>>,
    /// Keepers that wait for a box.
    spares: Stock<Spare>,
    /// Why the last attempt to start one failed.
    refusal: Mutex<Option<String>>,
}

impl NurseryLauncher {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self {
            state_dir: state_dir.to_owned(),
            nursery: Mutex::new(None),
            spares: Stock::new(),
            refusal: Mutex::new(None),
        }
    }

    fn nursery(&self) -> Result<Arc<Nursery>, LaunchError> {
        let mut held = self.nursery.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((nursery, etc)) = held.as_ref() {
            match (nursery.is_alive(), etc.has_changed()) {
                (true, false) => return Ok(Arc::clone(nursery)),
                (true, true) => {
                    tracing::info!("the host's /etc has changed; another nursery is started");
                }
                (false, _) => tracing::warn!("the nursery is gone; another one is started"),
            }
        }
        *held = None;
        // What they have made is of a root that the next nursery assembles anew.
        self.spares.clear();
        // Before it is copied, so that nothing that changes meanwhile is missed.
        let etc = EtcWatch::begin();
        let started = Nursery::start(&self.state_dir).map_err(LaunchError::from);
        let refusal = started.as_ref().err().map(ToString::to_string);
        if let Some(reason) = &refusal {
            tracing::error!(reason, "no nursery: boxes cannot be made");
        }
        *self.refusal.lock().unwrap_or_else(PoisonError::into_inner) = refusal;
        let nursery = Arc::new(started?);
        *held = Some((Arc::clone(&nursery), etc));
        Ok(nursery)
    }
}

impl NurseryLauncher {
    /// Has another one started for the next request, unless that has happened.
    fn let_go(&self, dead: &Arc<Nursery>) {
        let mut held = self.nursery.lock().unwrap_or_else(PoisonError::into_inner);
        if held.as_ref().is_some_and(|(nursery, _)| Arc::ptr_eq(nursery, dead)) {
            *held = None;
        }
    }
}

/// A keeper made ahead. Dropped, it ends; what it cannot tidy up itself is done for it.
#[derive(Debug)]
struct Spare {
    forked: Option<Forked>,
    state_dir: PathBuf,
}

impl Spare {
    fn is_good(&self) -> bool {
        self.forked.as_ref().is_some_and(|Forked { connection, process }| {
            is_alive(connection) && !process.is_stopped()
        })
    }

    fn take(mut self) -> Option<Launched> {
        let Forked { connection, process } = self.forked.take()?;
        Some(Launched { connection, process: Some(process) })
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let Some(Forked { process, .. }) = &self.forked else { return };
        if process.is_stopped() {
            // It would not see the end of its connection.
            drop(process.kill());
        }
        if process.has_ended() {
            process.remove_cgroups(&self.state_dir);
        }
    }
}

/// A keeper says nothing before it is told its box: anything to be read is its end.
fn is_alive(spare: &UnixStream) -> bool {
    let mut byte = [0; 1];
    let look = rustix::net::recv(spare, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(look, Err(Errno::AGAIN | Errno::INTR))
}

impl KeeperLauncher for NurseryLauncher {
    fn prepare(&self) -> Result<(), LaunchError> {
        self.nursery().map(drop)
    }

    fn launch(&self) -> Result<Launched, LaunchError> {
        // First: if it has to be another one, what waits is of no use any more.
        let nursery = self.nursery()?;
        if let Some(launched) = self.spares.take(Spare::is_good).and_then(Spare::take) {
            return Ok(launched);
        }
        let forked = match nursery.launch() {
            // It died since it was looked at, perhaps a moment ago: once more, with another one.
            Err(NurseryError::Gone(_)) => {
                self.let_go(&nursery);
                self.nursery()?.launch()?
            }
            answer => answer?,
        };
        Ok(Launched { connection: forked.connection, process: Some(forked.process) })
    }

    fn is_ready(&self) -> bool {
        !self.spares.is_empty()
    }

    fn make_ahead(&self) {
        let make = || -> Result<Spare, LaunchError> {
            let forked = self.nursery()?.launch()?;
            Ok(Spare { forked: Some(forked), state_dir: self.state_dir.clone() })
        };
        if let Err(error) = self.spares.fill(make) {
            tracing::warn!(%error, "no keeper can be made ahead");
        }
    }

    fn calm_down(&self) {
        self.spares.calm_down();
    }

    fn remove(&self, id: BoxId) -> Result<(), LaunchError> {
        Ok(self.nursery()?.remove(id)?)
    }

    fn isolation(&self) -> Isolation {
        let held = self.nursery.lock().unwrap_or_else(PoisonError::into_inner);
        match held.as_ref() {
            Some((nursery, _)) => Isolation::Available { users: nursery.users().to_owned() },
            None => {
                let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
                let reason = refusal.clone().unwrap_or_else(|| "not tried yet".to_owned());
                Isolation::Unavailable { reason }
            }
        }
    }
}

/// A connection that could not be made asynchronous.
pub(crate) fn step_error(attempt: &str, error: &io::Error) -> LaunchError {
    LaunchError::Step { message: format!("{attempt}: {error}"), errno: error.raw_os_error() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keeper_that_waits_is_told_from_one_that_is_gone() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        assert!(is_alive(&ours));
        drop(theirs);
        assert!(!is_alive(&ours));
    }
}
