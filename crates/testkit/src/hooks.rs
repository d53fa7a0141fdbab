//! Faults at named points of the product, which it has when built with the feature `testhooks`.
//!
//! A fault is a file in the directory that `MINIMAL_HOOKS` names. The process that passes the point
//! renames the file as it takes it, so each fault happens once and a test can see that it did.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{Account, wait_until};

/// What a taken fault's file is renamed to.
const FIRED: &str = "fired";

/// The hook directory of one scenario.
#[derive(Debug)]
pub struct Hooks {
    dir: PathBuf,
    account: Account,
}

impl Hooks {
    pub(crate) fn new(dir: PathBuf, account: Account) -> Self {
        account.make_dir(&dir);
        Self { dir, account }
    }

    /// The directory, for `MINIMAL_HOOKS`.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Has the next passing of `point` fail with this errno.
    pub fn fail(&self, point: &str, errno: Errno) {
        self.put(&format!("{point}.fail"), errno.raw_os_error().to_string().as_bytes());
    }

    /// Has every passing of `point` fail with this errno, until `"<point>.fails"` is disarmed.
    pub fn fails(&self, point: &str, errno: Errno) {
        self.put(&format!("{point}.fails"), errno.raw_os_error().to_string().as_bytes());
    }

    /// Takes down a protection, for a daemon that is started later.
    pub fn take_down(&self, wall: &str) {
        self.put(&format!("{wall}.down"), b"");
    }

    /// Has the next process that passes `point` kill itself there, as by `kill -9`.
    pub fn kill(&self, point: &str) {
        self.put(&format!("{point}.kill"), b"");
    }

    /// Has the next process that passes `point` wait there.
    ///
    /// # Panics
    /// If the FIFO cannot be made.
    #[must_use]
    pub fn pause(&self, point: &str) -> Paused {
        self.forget(&format!("{point}.pause"));
        let path = self.dir.join(format!("{point}.pause"));
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        self.account.own(&path);
        Paused { armed: path }
    }

    /// Whether a fault (`"<point>.fail"`, `.kill` or `.pause`) was taken.
    #[must_use]
    pub fn fired(&self, fault: &str) -> bool {
        !self.dir.join(fault).exists() && self.dir.join(format!("{fault}.{FIRED}")).exists()
    }

    /// Waits until a fault was taken.
    ///
    /// # Panics
    /// If it is not within the limit.
    #[track_caller]
    pub fn wait_fired(&self, fault: &str) {
        wait_until(&format!("the fault {fault} has happened"), crate::LIMIT, || {
            if self.fired(fault) { Ok(()) } else { Err(self.hits()) }
        });
    }

    /// Takes a fault back that has not happened.
    pub fn disarm(&self, fault: &str) {
        drop(fs::remove_file(self.dir.join(fault)));
    }

    /// The points passed so far, in order.
    #[must_use]
    pub fn hits(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("hits")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Forgets that this fault happened before.
    fn forget(&self, fault: &str) {
        drop(fs::remove_file(self.dir.join(format!("{fault}.{FIRED}"))));
    }

    /// Put beside and renamed: a process must never find half an errno.
    fn put(&self, name: &str, content: &[u8]) {
        self.forget(name);
        let staged = self.dir.join(format!(".{name}"));
        fs::write(&staged, content).unwrap();
        self.account.own(&staged);
        fs::rename(&staged, self.dir.join(name)).unwrap();
    }
}

/// A pause that is armed. Keep it: dropping it lets the process go on, or disarms it.
#[derive(Debug)]
pub struct Paused {
    armed: PathBuf,
}

impl Paused {
    /// Waits until a process is at the point, and holds it there until the answer is dropped.
    ///
    /// # Panics
    /// If none comes within the limit.
    #[track_caller]
    pub fn reached(self) -> Held {
        self.reached_within(crate::LIMIT)
    }

    /// The same with another limit.
    ///
    /// # Panics
    /// If none comes within the limit.
    #[track_caller]
    pub fn reached_within(self, limit: Duration) -> Held {
        let fired = PathBuf::from(format!("{}.{FIRED}", self.armed.display()));
        // Opening for writing without blocking succeeds once the other side has opened for reading.
        let writer = wait_until(&format!("{} is reached", self.armed.display()), limit, || {
            OpenOptions::new()
                .write(true)
                .custom_flags(i32::try_from(OFlags::NONBLOCK.bits()).unwrap())
                .open(&fired)
        });
        Held { _writer: writer }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.armed));
    }
}

/// A process that waits at a point. It goes on when this is dropped.
#[derive(Debug)]
pub struct Held {
    _writer: fs::File,
}

impl Held {
    /// Lets the process go on.
    pub fn release(self) {}
}
