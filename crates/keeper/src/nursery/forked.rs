//! A keeper as the daemon has it before there is a box: a connection, and a handle on its process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, pidfd_send_signal};

use crate::limits;

/// What a launch gives.
#[derive(Debug)]
pub struct Forked {
    /// The control connection. Dropped before there is a box, it ends the keeper.
    pub connection: UnixStream,
    /// Whose it is.
    pub process: KeeperProcess,
}

/// A keeper's process. It is no child of ours: all we can do is to look, and to end it.
#[derive(Debug)]
pub struct KeeperProcess {
    /// For /proc. While `pidfd` says that it lives it is nobody else's.
    pid: i32,
    pidfd: OwnedFd,
}

impl KeeperProcess {
    pub(super) fn new(pid: i32, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        // Readable once it has (pidfd_open(2)).
        self.ended_within(&Timespec::default())
    }

    /// Whether a signal has stopped it, or a debugger: it does nothing until somebody lets it go on.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)) else {
            return false;
        };
        // After the name, which may hold anything (proc_pid_stat(5)).
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_ascii_whitespace().next());
        matches!(state, Some("T" | "t")) && !self.has_ended()
    }

    /// Ends it by force, and waits for that, for a second at most. Whether it is gone.
    ///
    /// # Errors
    /// What pidfd_send_signal(2) says.
    pub fn kill(&self) -> io::Result<bool> {
        match pidfd_send_signal(&self.pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.ended_within(&Timespec { tv_sec: 1, tv_nsec: 0 }))
    }

    /// Removes the control groups that it made ahead, if it has ended without doing so. Returns at once;
    /// it is done by a thread of its own, within two seconds.
    pub fn remove_cgroups(&self, state_dir: &Path) {
        limits::remove_cgroups_of(state_dir, self.pid);
    }

    fn ended_within(&self, limit: &Timespec) -> bool {
        loop {
            match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(limit)) {
                Err(rustix::io::Errno::INTR) => {}
                ready => return ready.is_ok_and(|ready| ready > 0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn a_process_that_is_stopped_is_told_and_can_be_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let process = KeeperProcess::new(pid.as_raw_nonzero().get(), pidfd);
        assert!(!process.has_ended() && !process.is_stopped());
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        while !process.is_stopped() {
            std::thread::yield_now();
        }
        assert!(process.kill().unwrap());
        assert!(process.has_ended() && !process.is_stopped());
        child.wait().unwrap();
    }
}
