//! How many keepers are ready ahead, and when they are made.
//!
//! A start does not wait for a keeper that is being made, and is not to share the processors with
//! one either: they are made when no box is being born.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use minimal_proto::BoxId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::spare::{Birth, Spare};
use crate::shared_root::SharedRoot;

/// The most that are kept ready: each holds about 0.4 MB with its blank box.
const MOST: usize = 4;
/// How long a birth may keep others from being made: most take a few milliseconds, one whose
/// program lies on a dead network mount takes for ever.
const BIRTH_LIMIT: Duration = Duration::from_millis(200);
/// After how much quiet one less is kept ready than a rush had asked for.
const QUIET: Duration = Duration::from_secs(30);

/// The keepers that wait, and those that are busy with a birth.
#[derive(Debug)]
pub(super) struct Pool {
    spares: Vec<Spare>,
    births: Vec<Birth>,
    wanted: usize,
}

impl Pool {
    /// An empty one, that will have one keeper ready.
    pub(super) const fn new() -> Self {
        Self { spares: Vec::new(), births: Vec::new(), wanted: 1 }
    }

    /// Makes keepers if too few are ready and no box is being born. Without one the next request
    /// makes its own, and says why if it cannot.
    fn fill(&mut self, state_dir: &Path, shared: &SharedRoot) {
        while self.births.is_empty() && self.spares.len() < self.wanted {
            let Ok(spare) = Spare::fork(state_dir, shared) else { return };
            self.spares.push(spare);
        }
    }

    /// Waits until there is a request, and has keepers ready meanwhile.
    ///
    /// # Errors
    /// What poll(2) says.
    pub(super) fn wait(
        &mut self,
        requests: &OwnedFd,
        state_dir: &Path,
        shared: &SharedRoot,
    ) -> io::Result<()> {
        loop {
            self.fill(state_dir, shared);
            let limit = match (self.births.is_empty(), self.wanted) {
                (false, _) => Some(BIRTH_LIMIT),
                (true, 1) => None,
                (true, _) => Some(QUIET),
            };
            let limit = limit.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
            let mut fds: Vec<PollFd<'_>> = std::iter::once(requests.as_fd())
                .chain(self.births.iter().map(AsFd::as_fd))
                .map(|fd: BorrowedFd<'_>| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let ready = match poll(&mut fds, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            let answers: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            let mut over = answers.iter().skip(1);
            self.births.retain(|_| over.next() == Some(&false));
            let is_requested = answers.first() == Some(&true);
            if is_requested {
                return Ok(());
            }
            if ready == 0 && self.births.is_empty() {
                self.wanted -= 1;
                self.spares.truncate(self.wanted);
            } else if ready == 0 {
                self.births.clear();
            }
        }
    }

    /// Hands a box to a keeper. Returns its pid.
    ///
    /// # Errors
    /// None was ready, and none could be made.
    pub(super) fn launch(
        &mut self,
        id: BoxId,
        connection: BorrowedFd<'_>,
        state_dir: &Path,
        shared: &SharedRoot,
    ) -> io::Result<i32> {
        while let Some(ready) = self.spares.pop() {
            // One that was killed has no box yet that could be lost: another takes it.
            if let Ok((pid, birth)) = ready.hand_over(id, connection) {
                self.births.push(birth);
                return Ok(pid);
            }
        }
        self.wanted = (self.wanted + 1).min(MOST);
        let (pid, birth) = Spare::fork(state_dir, shared)?.hand_over(id, connection)?;
        self.births.push(birth);
        Ok(pid)
    }
}
