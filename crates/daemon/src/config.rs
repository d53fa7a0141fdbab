//! What a daemon is started with.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use minimal_proto::Readiness;

/// What a daemon is started with.
#[derive(Debug)]
pub struct Config {
    /// Where all state is; made if it is not there.
    pub state_dir: PathBuf,
    /// Where it listens; none: `minimald.sock` in the state directory.
    pub socket: Option<PathBuf>,
    /// The product's version.
    pub version: String,
    /// Which build of it: clients of another build take over.
    pub build: String,
    /// The writing end of a pipe, to which one [`Readiness`] is written.
    pub ready: Option<OwnedFd>,
}

/// The socket's name in the state directory.
pub const SOCKET: &str = "minimald.sock";

/// Whoever waits to hear what became of the start. Tells once; dropped without a word, the end of
/// the pipe says that the daemon died.
#[derive(Debug)]
pub(crate) struct Starter(Option<OwnedFd>);

impl Starter {
    pub(crate) fn new(ready: Option<OwnedFd>) -> Self {
        Self(ready)
    }

    pub(crate) fn tell(&mut self, readiness: &Readiness) {
        if let Some(fd) = self.0.take() {
            // Less than PIPE_BUF (pipe(7)), so it is written whole or not at all. The starter may
            // be gone, and then there is nobody to tell.
            drop(File::from(fd).write_all(readiness.to_line().as_bytes()));
        }
    }
}
