//! Children and how they ended. The only place that makes an [`Observed`].

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use minimal_proto::Signal;
use minimal_proto::ending::{Observed, WaitOutcome};
use rustix::process::{Pid, PidfdFlags};

/// A child of this process, with its one owner. Until it is reaped its pid cannot be reused, so
/// signals reach it or nobody.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    pidfd: OwnedFd,
    reaped: bool,
}

impl Child {
    pub(crate) fn from_parts(pid: i32, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd, reaped: false }
    }

    /// Takes ownership of a child that a joiner made for us. Until we reap it the pid is its own,
    /// so opening it by number is without a race.
    ///
    /// # Errors
    /// What pidfd_open(2) says; `ESRCH` if there is no such process.
    pub fn adopt(pid: i32) -> io::Result<Self> {
        let raw = Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        let pidfd = rustix::process::pidfd_open(raw, PidfdFlags::empty())?;
        Ok(Self { pid, pidfd, reaped: false })
    }

    /// Its pid in our pid namespace; for people and for `/proc/<pid>`.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Reaps it if it has ended; `None` while it runs.
    ///
    /// # Errors
    /// What waitid(2) says; `ECHILD` once it is reaped.
    pub fn try_reap(&mut self) -> io::Result<Option<Observed>> {
        let ended = self.wait(libc::WNOHANG)?;
        self.reaped |= ended.is_some();
        Ok(ended)
    }

    /// How it ended, if it has, without reaping it: its pid stays its own, and so does the number
    /// of the process group it leads.
    ///
    /// # Errors
    /// What waitid(2) says; `ECHILD` once it is reaped.
    pub fn peek(&self) -> io::Result<Option<Observed>> {
        self.wait(libc::WNOHANG | libc::WNOWAIT)
    }

    /// Waits for its end and reaps it.
    ///
    /// # Errors
    /// What waitid(2) says; `ECHILD` once it is reaped.
    pub fn reap(&mut self) -> io::Result<Observed> {
        let ended = self.wait(0)?.ok_or_else(|| io::Error::from_raw_os_error(libc::ECHILD))?;
        self.reaped = true;
        Ok(ended)
    }

    /// Whether a signal has stopped it. Its owner may still wait for its end.
    ///
    /// # Errors
    /// What waitid(2) says; `ECHILD` once it is reaped.
    pub fn is_stopped(&self) -> io::Result<bool> {
        let id = libc::id_t::try_from(self.pidfd.as_raw_fd())
            .map_err(|_negative| io::Error::from_raw_os_error(libc::EBADF))?;
        // SAFETY: an all-zero siginfo_t is a valid value; waitid leaves it so if nothing happened.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
        // SAFETY: `info` is a valid place for the kernel to write to.
        if unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, options) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: after a successful waitid the siginfo_t holds a pid, zero if nothing happened.
        Ok(unsafe { info.si_pid() } != 0)
    }

    fn wait(&self, flags: i32) -> io::Result<Option<Observed>> {
        let id = libc::id_t::try_from(self.pidfd.as_raw_fd())
            .map_err(|_negative| io::Error::from_raw_os_error(libc::EBADF))?;
        loop {
            // SAFETY: an all-zero siginfo_t is a valid value; waitid leaves it so if nothing ended.
            let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
            // __WALL: a child made with CLONE_PARENT may have another exit signal than SIGCHLD.
            let options = libc::WEXITED | libc::__WALL | flags;
            // SAFETY: `info` is a valid place for the kernel to write to.
            if unsafe { libc::waitid(libc::P_PIDFD, id, &raw mut info, options) } != 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            // SAFETY: after a successful waitid the siginfo_t holds a pid, zero if nothing ended.
            if unsafe { info.si_pid() } == 0 {
                return Ok(None);
            }
            // SAFETY: si_status is set by waitid for every child that ended.
            let status = unsafe { info.si_status() };
            let observed = outcome(info.si_code, status).map(observe);
            return observed.map(Some).ok_or_else(|| {
                io::Error::other(format!(
                    "the kernel reported an end of a kind nobody knows (code {}, status {status})",
                    info.si_code
                ))
            });
        }
    }

    /// Sends it a signal. A child that has ended but is not reaped takes it without effect.
    ///
    /// # Errors
    /// What pidfd_send_signal(2) says; `ESRCH` once it is reaped.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        let signal = crate::signals::to_rustix(signal)?;
        Ok(rustix::process::pidfd_send_signal(&self.pidfd, signal)?)
    }

    /// Sends a signal to the process group it leads. Only while it is not reaped: until then the
    /// group's number cannot be another's.
    ///
    /// # Errors
    /// `ESRCH` once it is reaped, or what kill(2) says.
    pub fn signal_group(&self, signal: Signal) -> io::Result<()> {
        if self.reaped {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let raw =
            Pid::from_raw(self.pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
        Ok(rustix::process::kill_process_group(raw, crate::signals::to_rustix(signal)?)?)
    }
}

impl AsFd for Child {
    /// Readable once it has ended (pidfd_open(2)).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place: the kernel has just said so")]
fn observe(outcome: WaitOutcome) -> Observed {
    Observed::from_wait(outcome)
}

fn outcome(code: i32, status: i32) -> Option<WaitOutcome> {
    match code {
        libc::CLD_EXITED => u8::try_from(status).ok().map(WaitOutcome::Exited),
        libc::CLD_KILLED => Signal::from_number(status).map(WaitOutcome::Killed),
        libc::CLD_DUMPED => Signal::from_number(status).map(WaitOutcome::Dumped),
        _ => None,
    }
}

/// Reaps every ended child of this process whose status nobody is interested in: what an init does
/// with orphans. Returns whether children are left.
///
/// # Errors
/// What waitid(2) says.
pub fn reap_orphans() -> io::Result<bool> {
    use rustix::process::WaitOptions;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(rustix::io::Errno::CHILD) => return Ok(false),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reaps children of this process that have ended and are none of these: made for us by somebody who
/// was killed before it could say so. Stops at the first that is one of these.
///
/// # Errors
/// What waitid(2) says.
pub fn reap_strangers(known: &[i32]) -> io::Result<()> {
    loop {
        // SAFETY: an all-zero siginfo_t is a valid value; waitid leaves it so if nothing ended.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let options = libc::WEXITED | libc::__WALL | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: `info` is a valid place for the kernel to write to.
        if unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) } != 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ECHILD) => return Ok(()),
                _ => return Err(error),
            }
        }
        // SAFETY: after a successful waitid the siginfo_t holds a pid, zero if nothing ended.
        let pid = unsafe { info.si_pid() };
        if pid == 0 || known.contains(&pid) {
            return Ok(());
        }
        let id = libc::id_t::try_from(pid).map_err(io::Error::other)?;
        // SAFETY: as above; the child has ended and nobody else reaps it.
        unsafe { libc::waitid(libc::P_PID, id, &raw mut info, libc::WEXITED | libc::__WALL) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_child_is_told_from_one_that_runs() {
        let mut process = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let child = Child::adopt(i32::try_from(process.id()).unwrap()).unwrap();
        assert!(!child.is_stopped().unwrap());
        child.signal(Signal::from_number(libc::SIGSTOP).unwrap()).unwrap();
        while !child.is_stopped().unwrap() {
            std::thread::yield_now();
        }
        assert!(child.is_stopped().unwrap(), "asking changes nothing");
        process.kill().unwrap();
        process.wait().unwrap();
        assert!(child.is_stopped().is_err());
    }

    #[test]
    fn the_kernels_three_kinds_are_told_apart_and_no_other_is_guessed() {
        assert_eq!(outcome(libc::CLD_EXITED, 139), Some(WaitOutcome::Exited(139)));
        assert_eq!(outcome(libc::CLD_KILLED, 9), Some(WaitOutcome::Killed(Signal::KILL)));
        assert!(matches!(outcome(libc::CLD_DUMPED, 11), Some(WaitOutcome::Dumped(_))));
        assert_eq!(outcome(libc::CLD_STOPPED, 19), None);
        assert_eq!(outcome(libc::CLD_EXITED, 256), None);
    }
}
