//! What init tells the keeper of the assembly: one message at its end.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use minimal_linux::creds::GroupsKept;
use minimal_linux::socket;
use minimal_proto::ending::StartFault;
use serde::{Deserialize, Serialize};

use super::{BirthError, readable_before};
use crate::assemble::LeftOut;
use crate::plan::Plan;

/// Init's message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// A step failed; none is the preparation before the first.
    Failed { step: Option<usize>, what: String, errno: Option<i32> },
    /// The box is assembled and init waits.
    Ready { groups_kept: bool, left_out: LeftOut },
}

/// A box that is assembled.
pub(super) struct Assembled {
    pub(super) groups: GroupsKept,
    pub(super) left_out: LeftOut,
}

/// Longest report.
const MAX: usize = 4096;

/// Sends a report.
pub(super) fn send(socket: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    socket::send(socket, &serde_json::to_vec(report).map_err(io::Error::from)?, None)
}

/// Waits until init is ready, has failed, is gone, or the time is over.
pub(super) fn await_assembly(
    lifeline: &OwnedFd,
    plan: &Plan,
    limit: Duration,
) -> Result<Assembled, BirthError> {
    let deadline = Instant::now() + limit;
    let words = |step: Option<usize>| {
        step.and_then(|step| plan.steps.get(step))
            .map_or_else(|| "prepare the box's init".to_owned(), ToString::to_string)
    };
    let mut buffer = [0; MAX];
    let gave_up = |why: &io::Error| BirthError::new(&words(None), why);
    match readable_before(lifeline.as_fd(), deadline) {
        Ok(true) => {}
        Ok(false) => return Err(gave_up(&io::ErrorKind::TimedOut.into())),
        Err(error) => return Err(gave_up(&error)),
    }
    let length = match socket::receive(lifeline.as_fd(), &mut buffer) {
        Ok((0, _)) => {
            return Err(gave_up(&io::Error::other("the box's init ended before it was ready")));
        }
        Ok((length, _)) => length,
        Err(error) => return Err(gave_up(&error)),
    };
    match serde_json::from_slice(&buffer[..length]).map_err(|error| gave_up(&error.into()))? {
        Report::Failed { step, what, errno } => {
            let step = words(step);
            let why = errno.map_or(what, |errno| io::Error::from_raw_os_error(errno).to_string());
            Err(BirthError {
                message: format!("cannot {step}: {why}"),
                errno,
                step,
                fault: StartFault::Other,
            })
        }
        Report::Ready { groups_kept, left_out } => Ok(Assembled {
            groups: if groups_kept { GroupsKept::Yes } else { GroupsKept::No },
            left_out,
        }),
    }
}
