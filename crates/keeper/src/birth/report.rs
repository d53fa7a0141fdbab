//! What init tells the keeper while it assembles the box: one small message each.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use minimal_linux::creds::GroupsKept;
use minimal_linux::socket;
use minimal_proto::keeper::Missing;
use serde::{Deserialize, Serialize};

use super::{BirthError, readable_before};
use crate::plan::Plan;

/// Init's messages.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// It begins a step that may hang: the plan's step of this number.
    Step(usize),
    /// A step failed; none is the preparation before the first.
    Failed { step: Option<usize>, what: String, errno: Option<i32> },
    /// The box is assembled and init waits.
    Ready { groups_kept: bool, missing: Vec<(String, String)> },
}

/// A box that is assembled.
pub(super) struct Assembled {
    pub(super) groups: GroupsKept,
    pub(super) missing: Vec<Missing>,
}

/// Longest report.
const MAX: usize = 4096;

/// Sends a report.
pub(super) fn send(socket: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    socket::send(socket, &serde_json::to_vec(report).map_err(io::Error::from)?, None)
}

/// Reads init's reports until it is ready, has failed, is gone, or the time is over.
pub(super) fn await_assembly(
    lifeline: &OwnedFd,
    plan: &Plan,
    limit: Duration,
) -> Result<Assembled, BirthError> {
    let deadline = Instant::now() + limit;
    let mut current = None;
    let words = |step: Option<usize>| {
        step.and_then(|step| plan.steps.get(step))
            .map_or_else(|| "prepare the box's init".to_owned(), ToString::to_string)
    };
    let mut buffer = [0; MAX];
    loop {
        let received = readable_before(lifeline.as_fd(), deadline).and_then(|ready| {
            if ready {
                socket::receive(lifeline.as_fd(), &mut buffer)
            } else {
                Err(io::ErrorKind::TimedOut.into())
            }
        });
        let length = match received {
            Ok((0, _)) => {
                let gone = io::Error::other("the box's init ended before it was ready");
                return Err(BirthError::new(&words(current), &gone));
            }
            Ok((length, _)) => length,
            Err(error) => return Err(BirthError::new(&words(current), &error)),
        };
        let report = serde_json::from_slice(&buffer[..length])
            .map_err(|error| BirthError::new(&words(current), &error.into()))?;
        match report {
            Report::Step(step) => current = Some(step),
            Report::Failed { step, what, errno } => {
                let step = words(step);
                let why =
                    errno.map_or(what, |errno| io::Error::from_raw_os_error(errno).to_string());
                return Err(BirthError {
                    message: format!("cannot {step}: {why}"),
                    errno,
                    step,
                    fault: minimal_proto::ending::StartFault::Other,
                });
            }
            Report::Ready { groups_kept, missing } => {
                return Ok(Assembled {
                    groups: if groups_kept { GroupsKept::Yes } else { GroupsKept::No },
                    missing: missing.into_iter().map(|(what, why)| Missing { what, why }).collect(),
                });
            }
        }
    }
}
