//! The process called `min-screen`: one order, one repaint.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use minimal_store::LogHome;

use super::paint::paint;
use super::{Heading, Order};

/// What the process is called.
pub const ARGV0: &str = "min-screen";

/// The most memory it may have, in bytes: a screen and what was scrolled away at their largest, twice, and
/// the repaint.
const MEMORY: u64 = 1 << 30;

/// The most processor time, in seconds.
const SECONDS: u64 = 5;

/// The body of the process: the order is its argument, the directory with the log its standard input, the
/// repaint its standard output.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever has asked hears the status, and does without.
        Err(_) => ExitCode::FAILURE,
    }
}

fn run(arguments: &[OsString]) -> io::Result<()> {
    minimal_linux::limits::set_for_helper(MEMORY, SECONDS);
    let words = arguments.first().and_then(|words| words.to_str()).unwrap_or_default();
    let order: Order = serde_json::from_str(words)?;
    let dir = Given(io::stdin().as_fd().try_clone_to_owned()?);
    let painted = paint(&dir, &order).map_err(io::Error::other)?;
    let heading =
        Heading { from: painted.from, whole: painted.whole, length: painted.bytes.len() as u64 };
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &heading)?;
    out.write_all(b"\n")?;
    out.write_all(&painted.bytes)?;
    out.flush()
}

/// A directory whose name does not matter.
struct Given(OwnedFd);

impl LogHome for Given {
    fn path(&self) -> &Path {
        Path::new(".")
    }

    fn dir_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
