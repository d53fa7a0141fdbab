//! A process of its own that copies, while its keeper waits: as long as it takes, answering the daemon,
//! and until somebody asks for a stop.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_linux::{fds, title};
use minimal_proto::Signal;
use minimal_proto::ending::StartFault;
use minimal_store::hook;

use super::Meanwhile;
use super::report::{Report, Summary};
use crate::birth::{BirthError, at, readable_before};
use crate::peers::Waited;

/// How long a copy that was killed may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Has a child do what copies. In messages `what` is attempted, and `doing` is what goes on meanwhile;
/// `held` are the descriptors it needs.
pub(super) fn copy(
    (what, doing): (&'static str, &'static str),
    held: &[BorrowedFd<'_>],
    meanwhile: &mut Meanwhile<'_>,
    work: impl FnOnce() -> Report,
) -> Result<Summary, BirthError> {
    hook::point("keeper.copy.before").map_err(at(what))?;
    let (mut said, say) = io::pipe().map_err(at(what))?;
    let keeper = rustix::process::getpid();
    let mut child = match fork().map_err(at(what))? {
        Forked::Child => {
            let say = std::fs::File::from(OwnedFd::from(say));
            let kept: Vec<_> = held.iter().copied().chain([say.as_fd()]).collect();
            let prepared = rustix::process::set_parent_process_death_signal(Some(
                rustix::process::Signal::KILL,
            ))
            .is_ok()
                // It may have died before we had asked to be told.
                && rustix::process::getppid() == Some(keeper)
                // Held by us, the daemon's connection would outlive the keeper.
                && fds::close_all_except(&kept).is_ok();
            if prepared {
                title::set("min-copy").ok();
                // What it reads and writes stays in memory for a while, and would count as the
                // box's. Without that it is still right.
                meanwhile.cgroups.step_out().ok();
                let report = match hook::point("keeper.copy.copying") {
                    Ok(()) => work(),
                    Err(error) => Report::failed("pass a fault point", &error, Summary::default()),
                };
                let report = serde_json::to_vec(&report).unwrap_or_default();
                // A keeper that is gone needs no report.
                (&say).write_all(&report).ok();
            }
            exit_now(0)
        }
        Forked::Parent(child) => child,
    };
    drop(say);
    let waited = meanwhile.peers.wait_for(child.as_fd()).map_err(at(what));
    if !matches!(waited, Ok(Waited::Ended)) {
        child.signal(Signal::KILL).map_err(at(what))?;
        // One that waits for a dead network mount is gone when that answers, which may be never: the
        // start has failed either way.
        if !readable_before(child.as_fd(), Instant::now() + KILL_LIMIT).map_err(at(what))? {
            let why = io::Error::other("it was stopped, and its file system does not answer");
            return Err(BirthError::new(what, &why));
        }
    }
    child.reap().map_err(at("wait for the process that copies"))?;
    match waited? {
        Waited::Ended => {}
        Waited::Stopped => {
            return Err(BirthError {
                fault: StartFault::Other,
                step: what.to_owned(),
                message: format!("the box was stopped while {doing}; nothing was run"),
                errno: None,
            });
        }
    }
    let mut report = Vec::new();
    said.read_to_end(&mut report).map_err(at(what))?;
    match serde_json::from_slice(&report) {
        Ok(Report::Copied(summary)) => {
            hook::point("keeper.copy.after").map_err(at(what))?;
            Ok(summary)
        }
        Ok(Report::Failed { what: on, errno, so_far }) => Err(BirthError {
            fault: StartFault::Other,
            step: what.to_owned(),
            message: format!(
                "cannot {what}: {on}, after {} files and directories with {} bytes",
                so_far.entries, so_far.bytes
            ),
            errno,
        }),
        Err(_) => Err(at(what)(io::Error::other("the process that copies was killed"))),
    }
}
