//! What init tells the keeper of the assembly: one message at its end, and on the way a byte for
//! each step.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use minimal_linux::creds::GroupsKept;
use minimal_linux::socket;
use minimal_proto::ending::StartFault;
use minimal_proto::keeper::Missing;
use serde::{Deserialize, Serialize};

use super::{BirthError, readable_before};
use crate::plan::Plan;

/// Init's message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// A step failed; none is the preparation before the first.
    Failed { step: Option<usize>, what: String, errno: Option<i32> },
    /// The box is assembled and init waits.
    Ready { groups_kept: bool, missing: Vec<(String, String)> },
}

/// Which steps init has begun, for when it says nothing more. A pipe that is read only then: init
/// writes without waking us.
pub(super) struct Steps(File);

impl Steps {
    /// The keeper's and init's end.
    pub(super) fn new() -> io::Result<(Self, io::PipeWriter)> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok((Self(File::from(OwnedFd::from(reader))), writer))
    }

    /// The last step that was begun.
    fn last(&mut self) -> Option<usize> {
        let mut begun = Vec::new();
        // It ends with WouldBlock while init lives; what was there has been read by then.
        self.0.read_to_end(&mut begun).ok();
        begun.last().map(|step| usize::from(*step))
    }
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

/// Waits until init is ready, has failed, is gone, or the time is over.
pub(super) fn await_assembly(
    lifeline: &OwnedFd,
    steps: &mut Steps,
    plan: &Plan,
    limit: Duration,
) -> Result<Assembled, BirthError> {
    let deadline = Instant::now() + limit;
    let words = |step: Option<usize>| {
        step.and_then(|step| plan.steps.get(step))
            .map_or_else(|| "prepare the box's init".to_owned(), ToString::to_string)
    };
    let mut buffer = [0; MAX];
    let mut gave_up = |why: &io::Error| BirthError::new(&words(steps.last()), why);
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
        Report::Ready { groups_kept, missing } => Ok(Assembled {
            groups: if groups_kept { GroupsKept::Yes } else { GroupsKept::No },
            missing: missing.into_iter().map(|(what, why)| Missing { what, why }).collect(),
        }),
    }
}
