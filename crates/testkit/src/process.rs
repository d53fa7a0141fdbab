//! Processes below the test, by the process tree.
//!
//! The test process is the reaper of its descendants, so a process of ours stays below it however
//! often it forked and whatever session it is in.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;

use std::sync::Once;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::wait::nap;
use crate::wait_until;

/// A process, told apart from a later one of the same number by its start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its pid on the host.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// The state letter of proc_pid_stat(5).
    pub state: char,
    /// Its arguments, joined by spaces; for our own, what they say they are.
    pub command: String,
    /// Its session's leader; 0 for one outside our pid namespace (pid_namespaces(7)).
    pub session: i32,
    /// Its start, in clock ticks since boot.
    start: u64,
}

impl Process {
    /// Reads one; `None` if there is no such process.
    #[must_use]
    pub fn read(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything.
        let name = stat.get(stat.find('(')? + 1..stat.rfind(')')?)?;
        let fields: Vec<&str> = stat.get(stat.rfind(')')? + 2..)?.split(' ').collect();
        let cmdline = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&cmdline).replace('\0', " ").trim().to_owned();
        Some(Self {
            pid,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
            command: if command.is_empty() { name.to_owned() } else { command },
        })
    }

    /// This very process.
    ///
    /// # Panics
    /// If /proc does not show it.
    #[must_use]
    pub fn this() -> Self {
        Self::read(rustix::process::getpid().as_raw_nonzero().get())
            .expect("/proc shows the process that reads it")
    }

    /// Whether it still runs: neither gone nor a zombie.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        Self::read(self.pid)
            .is_some_and(|now| now.start == self.start && !matches!(now.state, 'Z' | 'X'))
    }

    /// Whether it is stopped by a signal.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.start == self.start && now.state == 'T')
    }

    /// Signals it, if it is still the same process.
    pub fn signal(&self, signal: Signal) {
        if let Some(pidfd) = self.pidfd() {
            // It may end in between: then there is nothing to signal.
            rustix::process::pidfd_send_signal(pidfd, signal).ok();
        }
    }

    /// `kill -9`, and waits until it is gone.
    ///
    /// # Panics
    /// If it does not go.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        self.wait_gone(crate::LIMIT);
    }

    /// `kill -STOP`, and waits until it has stopped.
    ///
    /// # Panics
    /// If it does not stop.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        wait_until("the process has stopped", crate::LIMIT, || {
            if self.is_stopped() { Ok(()) } else { Err(Self::read(self.pid)) }
        });
    }

    /// Waits until it is gone or a zombie.
    ///
    /// # Panics
    /// If it is still there after `limit`.
    #[track_caller]
    pub fn wait_gone(&self, limit: Duration) {
        if let Some(pidfd) = self.pidfd() {
            assert!(wait_pidfd(&pidfd, limit), "still there after {limit:?}: {self:?}");
        }
    }

    /// How much memory it has of its own and as its share of what it shares, in KiB.
    #[must_use]
    pub fn pss_kib(&self) -> Option<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid)).ok()?;
        field_kib(&rollup, "Pss:")
    }

    /// The most memory it ever had resident, in KiB.
    #[must_use]
    pub fn peak_rss_kib(&self) -> Option<u64> {
        field_kib(&fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?, "VmHWM:")
    }

    /// A handle on it, if it is still the same process.
    fn pidfd(&self) -> Option<OwnedFd> {
        let pidfd =
            rustix::process::pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()?;
        // Only now is the number held: check that it did not change hands before.
        self.is_alive().then_some(pidfd)
    }
}

fn field_kib(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Waits until the process of a pidfd has ended; false if `limit` passes first.
pub(crate) fn wait_pidfd(pidfd: &OwnedFd, limit: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    };
    loop {
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("polling a pidfd: {error}"),
        }
    }
}

/// Makes this process the reaper of all its descendants. From then on [`below`] sees them all, and
/// those that end are reaped, as the machine's first process would: a pid namespace only goes away
/// when all its processes are reaped.
pub(crate) fn become_reaper() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .expect("a process may always make itself a reaper");
        std::thread::spawn(|| {
            loop {
                nap(Duration::from_millis(20));
                reap_orphans();
            }
        });
    });
}

/// Reaps orphans that ended and fell to this process: children of it in another session. What it
/// started itself is in its own session, and is waited for by whoever holds its handle.
fn reap_orphans() {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if !matches!(rustix::process::waitid(WaitId::All, look), Ok(Some(_))) {
        return;
    }
    let this = Process::this();
    for process in all().into_values() {
        let is_orphan = process.parent == this.pid && process.session != this.session;
        if is_orphan && process.state == 'Z' {
            rustix::process::waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG).ok();
        }
    }
}

/// Every process of the machine.
fn all() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?))
        .map(|process| (process.pid, process))
        .collect()
}

/// Every living process below this one, in the order of their numbers.
#[must_use]
pub fn below() -> Vec<Process> {
    let this = rustix::process::getpid().as_raw_nonzero().get();
    let all = all();
    let is_below = |process: &Process| {
        let mut parent = process.parent;
        // A tree that changes while it is read could close a circle: the depth bounds the walk.
        for _ in 0..all.len() {
            if parent == this {
                return true;
            }
            match all.get(&parent) {
                Some(next) => parent = next.parent,
                None => return false,
            }
        }
        false
    };
    all.values()
        .filter(|process| !matches!(process.state, 'Z' | 'X') && is_below(process))
        .cloned()
        .collect()
}
