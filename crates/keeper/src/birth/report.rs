//! What init tells the keeper: the files that it can write, then that the box is assembled, and
//! later that its lock is taken.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use minimal_linux::creds::GroupsKept;
use minimal_linux::{Child, socket};
use minimal_proto::ending::StartFault;
use serde::{Deserialize, Serialize};

use super::{BirthError, readable_unless_stopped};
use crate::assemble::{HeldFiles, LeftOut};
use crate::plan::Step;

/// Init's message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// A step failed; none is the preparation before the first.
    Failed { step: Option<usize>, what: String, errno: Option<i32> },
    /// The box is assembled and init waits.
    Ready { groups_kept: bool, left_out: LeftOut },
    /// The lock of the box is taken.
    Locked,
}

/// A box that is assembled.
#[derive(Debug)]
pub(super) struct Assembled {
    pub(super) groups: GroupsKept,
    pub(super) left_out: LeftOut,
    pub(super) held: HeldFiles,
}

/// Longest report.
const MAX: usize = 4096;

/// Sends a report.
pub(super) fn send(socket: BorrowedFd<'_>, report: &Report) -> io::Result<()> {
    socket::send(socket, &serde_json::to_vec(report).map_err(io::Error::from)?, None)
}

/// Sends a file that is in place: its path, with the means to write it.
pub(super) fn send_file(
    socket: BorrowedFd<'_>,
    path: &str,
    file: BorrowedFd<'_>,
) -> io::Result<()> {
    socket::send(socket, path.as_bytes(), Some(file))
}

/// Waits until init is ready, has failed, is gone, or the time is over.
pub(super) fn await_assembly(
    init: &Child,
    lifeline: &OwnedFd,
    steps: &[Step],
    limit: Duration,
) -> Result<Assembled, BirthError> {
    const PREPARE: &str = "prepare the box's init";
    let deadline = Instant::now() + limit;
    let mut held = HeldFiles::new();
    let mut buffer = [0; MAX];
    loop {
        let (length, passed) = next((init, lifeline), &mut buffer, deadline)
            .map_err(|error| BirthError::new(PREPARE, &error))?;
        if let Some(file) = passed {
            let path = steps.iter().find_map(|step| match step {
                Step::FileHeld(path) | Step::Terminals(path)
                    if path.as_bytes() == &buffer[..length] =>
                {
                    Some(*path)
                }
                _ => None,
            });
            held.extend(path.map(|path| (path, file)));
            continue;
        }
        let report = serde_json::from_slice(&buffer[..length]);
        return match report.map_err(|error| BirthError::new(PREPARE, &error.into()))? {
            Report::Failed { step, what, errno } => {
                let step = step.and_then(|step| steps.get(step));
                let step = step.map_or_else(|| PREPARE.to_owned(), ToString::to_string);
                Err(failed(step, what, errno))
            }
            Report::Ready { groups_kept, left_out } => Ok(Assembled {
                groups: if groups_kept { GroupsKept::Yes } else { GroupsKept::No },
                left_out,
                held,
            }),
            Report::Locked => Err(failed(PREPARE.to_owned(), "it is another's".to_owned(), None)),
        };
    }
}

/// Waits until init has taken the box's lock, has failed, is gone, or the time is over.
pub(super) fn await_lock(
    init: &Child,
    lifeline: &OwnedFd,
    limit: Duration,
) -> Result<(), BirthError> {
    const LOCK: &str = "have the box's init take its lock";
    let mut buffer = [0; MAX];
    let (length, _) = next((init, lifeline), &mut buffer, Instant::now() + limit)
        .map_err(|error| BirthError::new(LOCK, &error))?;
    match serde_json::from_slice(&buffer[..length]) {
        Ok(Report::Locked) => Ok(()),
        Ok(Report::Failed { what, errno, .. }) => Err(failed(LOCK.to_owned(), what, errno)),
        Ok(Report::Ready { .. }) | Err(_) => {
            Err(BirthError::new(LOCK, &io::ErrorKind::InvalidData.into()))
        }
    }
}

fn next(
    (init, lifeline): (&Child, &OwnedFd),
    buffer: &mut [u8],
    deadline: Instant,
) -> io::Result<(usize, Option<OwnedFd>)> {
    readable_unless_stopped(lifeline.as_fd(), Some(init), deadline)?;
    match socket::receive(lifeline.as_fd(), buffer)? {
        (0, _) => Err(io::Error::other("the box's init ended before it was ready")),
        received => Ok(received),
    }
}

fn failed(step: String, what: String, errno: Option<i32>) -> BirthError {
    let why = errno.map_or(what, |errno| io::Error::from_raw_os_error(errno).to_string());
    BirthError { message: format!("cannot {step}: {why}"), errno, step, fault: StartFault::Other }
}
