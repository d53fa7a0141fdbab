//! Fault points: named places at which a test can watch, fail, pause or kill a process.
//!
//! Without the feature `testhooks` a point is nothing. With it, and `MINIMAL_HOOKS=<dir>` in the
//! environment, passing the point `a.b` appends a line `a.b` to `<dir>/hits`, and then
//! - `<dir>/a.b.fail` makes it return the error whose errno the file holds,
//! - `<dir>/a.b.kill` ends the process by SIGKILL,
//! - `<dir>/a.b.pause`, a FIFO, holds the process until its writer closes it.
//!
//! A point that is passed inside a box, where the directory cannot be seen, is looked up before
//! ([`ahead`]) and can only be watched and paused.
//!
//! Each of these is used up by one pass: it is renamed to `….fired` first. `<dir>/a.b.fails` makes
//! every pass fail, and `<dir>/wall.down` takes down a protection of that name ([`is_down`]).

/// Every point there is, so that a test can prove that each is exercised.
pub const POINTS: &[&str] = &[
    "store.create.after_mkdir",
    "store.create.after_spec",
    "store.create.after_journal",
    "store.create.before_rename",
    "store.create.after_rename",
    "store.reap.before_rename",
    "store.reap.after_rename",
    "store.reap.during_remove",
    "store.exec.after_mkdir",
    "store.exec.after_file",
    "store.exec.before_end",
    "store.exec.after_end",
    "store.log.append",
    "store.journal.append",
    "store.journal.sync",
    "keeper.blank.before_clone",
    "keeper.blank.after_clone",
    "keeper.birth.told",
    "keeper.birth.locked",
    "keeper.birth.before_exec",
    "keeper.birth.after_exec",
    "keeper.birth.inside",
    "keeper.copy.before",
    "keeper.copy.copying",
    "keeper.copy.after",
    "keeper.started.before_journal",
    "keeper.started.after_journal",
    "keeper.returned.after_journal",
    "keeper.restart.before_enter",
    "keeper.restart.after_journal",
    "keeper.ready.before_probe",
    "keeper.ready.after_journal",
    "keeper.pause.before_freeze",
    "keeper.pause.after_journal",
    "keeper.stop.requested",
    "keeper.stop.after_term",
    "keeper.end.observed",
    "keeper.end.count_kills",
    "keeper.end.drained",
    "keeper.end.sealed",
    "keeper.end.before_journal",
    "keeper.end.after_journal",
    "keeper.end.told",
    "keeper.end.closed",
    "keeper.exec.before_dir",
    "keeper.exec.before_enter",
    "keeper.exec.inside",
    "keeper.exec.entered",
    "keeper.exec.answered",
    "keeper.exec.observed",
    "keeper.exec.drained",
    "keeper.exec.saved",
    "keeper.exec.told",
    "daemon.create.before_dir",
    "daemon.create.after_dir",
    "daemon.create.after_launch",
    "daemon.create.start_limit",
    "daemon.create.after_started",
    "daemon.resume.before_lock",
    "daemon.resume.after_generation",
    "daemon.resume.after_journal",
    "daemon.resume.after_launch",
    "daemon.resume.after_started",
    "daemon.exec.before_ask",
    "daemon.exec.after_asked",
    "daemon.exec.after_started",
    "daemon.adopt.before_connect",
    "daemon.reconcile.before_lost",
    "daemon.reconcile.after_lost",
    "daemon.stop.before_ask",
    "daemon.reap.before",
    "daemon.stream.before_exited",
];

/// Passes a point.
///
/// # Errors
/// What a test asked for; never without the feature.
#[cfg(not(feature = "testhooks"))]
#[inline]
pub fn point(name: &'static str) -> std::io::Result<()> {
    debug_assert!(POINTS.contains(&name), "`{name}` is not in POINTS");
    Ok(())
}

/// Whether a test has taken down the protection of this name; never without the feature.
#[cfg(not(feature = "testhooks"))]
#[inline]
#[must_use]
pub fn is_down(_wall: &str) -> bool {
    false
}

/// A point that is passed later, by a process that does not see the directory any more.
#[cfg(not(feature = "testhooks"))]
#[derive(Debug)]
pub struct Ahead;

#[cfg(not(feature = "testhooks"))]
impl Ahead {
    /// Passes it.
    #[inline]
    pub fn pass(&self) {}

    /// The descriptors that takes.
    #[inline]
    pub fn fds(&self) -> impl Iterator<Item = std::os::fd::BorrowedFd<'_>> {
        std::iter::empty()
    }
}

/// Looks up what a test asked for at a point that is passed later.
#[cfg(not(feature = "testhooks"))]
#[inline]
#[must_use]
pub fn ahead(name: &'static str) -> Ahead {
    debug_assert!(POINTS.contains(&name), "`{name}` is not in POINTS");
    Ahead
}

#[cfg(feature = "testhooks")]
mod active;
#[cfg(feature = "testhooks")]
pub use active::{Ahead, ahead, is_down, point};
