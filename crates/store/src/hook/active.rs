//! What a point does under the feature `testhooks`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, poll};

use super::POINTS;

/// The directory a test named, looked up once.
fn directory() -> Option<&'static Path> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    DIRECTORY.get_or_init(|| std::env::var_os("MINIMAL_HOOKS").map(PathBuf::from)).as_deref()
}

/// Whether a test has taken down the protection of this name.
#[must_use]
pub fn is_down(wall: &str) -> bool {
    directory().is_some_and(|directory| directory.join(format!("{wall}.down")).exists())
}

/// Passes a point.
///
/// # Errors
/// What a test asked for.
pub fn point(name: &'static str) -> io::Result<()> {
    debug_assert!(POINTS.contains(&name), "`{name}` is not in POINTS");
    match directory() {
        Some(directory) => pass(directory, name),
        None => Ok(()),
    }
}

/// A point that is passed later, by a process that does not see the directory any more.
#[derive(Debug)]
pub struct Ahead {
    name: &'static str,
    hits: Option<File>,
    pause: Option<File>,
}

/// Looks up what a test asked for at a point that is passed later.
#[must_use]
pub fn ahead(name: &'static str) -> Ahead {
    debug_assert!(POINTS.contains(&name), "`{name}` is not in POINTS");
    let Some(directory) = directory() else { return Ahead { name, hits: None, pause: None } };
    // Without waiting for a writer here: that is for the moment it is passed.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let open = |order| OpenOptions::new().read(true).custom_flags(flags).open(order).ok();
    let hits = OpenOptions::new().append(true).create(true).open(directory.join("hits"));
    Ahead { name, hits: hits.ok(), pause: consume(directory, name, "pause").and_then(open) }
}

impl Ahead {
    /// The descriptors that passing it takes.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.hits.iter().chain(&self.pause).map(File::as_fd)
    }

    /// Passes it.
    pub fn pass(&self) {
        if let Some(mut hits) = self.hits.as_ref() {
            let _unrecorded = hits.write_all(format!("{}\n", self.name).as_bytes());
        }
        if let Some(pause) = &self.pause {
            // Until a writer has been there and has gone (poll(2), POLLHUP).
            let mut fds = [PollFd::new(pause, PollFlags::empty())];
            while matches!(poll(&mut fds, None), Err(rustix::io::Errno::INTR)) {}
        }
    }
}

/// Passes a point with its orders in `directory`.
pub(super) fn pass(directory: &Path, name: &str) -> io::Result<()> {
    // A process inside a box does not see the directory, and a disk may be full: then a point
    // that is passed is not recorded, which must not be a fault of its own.
    let hits = OpenOptions::new().append(true).create(true).open(directory.join("hits"));
    let _unrecorded = hits.and_then(|mut hits| hits.write_all(format!("{name}\n").as_bytes()));
    // First, so that what happens after it can be chosen too.
    if let Some(order) = consume(directory, name, "pause") {
        let mut rest = Vec::new();
        File::open(order)?.read_to_end(&mut rest)?;
    }
    let always = directory.join(format!("{name}.fails"));
    let fails = consume(directory, name, "fail").or_else(|| always.exists().then_some(always));
    if let Some(order) = fails {
        let text = fs::read_to_string(order)?;
        // An order without a number means EIO.
        let errno = text.trim().parse().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        return Err(io::Error::from_raw_os_error(errno));
    }
    if consume(directory, name, "kill").is_some() {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
        // Pid 1 of a pid namespace cannot be killed from inside; abort traps where that is so.
        std::process::abort();
    }
    Ok(())
}

/// Uses up an order by renaming it, which only one process can do. Its new path if it was there.
fn consume(directory: &Path, name: &str, order: &str) -> Option<PathBuf> {
    let from = directory.join(format!("{name}.{order}"));
    let to = directory.join(format!("{name}.{order}.fired"));
    fs::rename(&from, &to).ok().map(|()| to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_is_obeyed_once() {
        let dir = tempfile::tempdir().unwrap();
        let fail = dir.path().join("store.log.append.fail");
        fs::write(&fail, "28\n").unwrap();
        let error = pass(dir.path(), "store.log.append").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(28));
        pass(dir.path(), "store.log.append").unwrap();
        let hits = fs::read_to_string(dir.path().join("hits")).unwrap();
        assert_eq!(hits, "store.log.append\nstore.log.append\n");
        assert!(dir.path().join("store.log.append.fail.fired").exists());
    }

    #[test]
    fn a_standing_order_is_obeyed_until_it_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let fails = dir.path().join("store.log.append.fails");
        fs::write(&fails, "12\n").unwrap();
        for _ in 0..2 {
            let error = pass(dir.path(), "store.log.append").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(12));
        }
        fs::remove_file(fails).unwrap();
        pass(dir.path(), "store.log.append").unwrap();
    }

    #[test]
    fn a_pause_lasts_until_the_writer_closes() {
        let dir = tempfile::tempdir().unwrap();
        let order = dir.path().join("store.log.append.pause");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &order, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let held = dir.path().join("store.log.append.pause.fired");
        let path = dir.path().to_owned();
        let passing = std::thread::spawn(move || pass(&path, "store.log.append"));
        // Opening for writing returns once the other side has it open for reading.
        let writer = loop {
            match OpenOptions::new().write(true).open(&held) {
                Ok(writer) => break writer,
                Err(error) if error.kind() == io::ErrorKind::NotFound => std::thread::yield_now(),
                Err(error) => panic!("open the fifo: {error}"),
            }
        };
        assert!(!passing.is_finished(), "it waits while the writer is there");
        drop(writer);
        passing.join().unwrap().unwrap();
    }
}
