//! Has `min-screen` paint.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use minimal_proto::error::Chain;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{ARGV0, Heading, Order, Painted};
use crate::stream::LogDir;

/// How many paint at a time. Each has a processor for itself.
const AT_ONCE: usize = 2;

/// How long a client waits for a repaint, and for its turn, before it goes without.
const LIMIT: Duration = Duration::from_secs(10);

/// The longest repaint: what fits into `min-screen`'s memory.
const LONGEST: u64 = 256 << 20;

/// The longest heading, in bytes.
const HEADING: u64 = 256;

/// Has terminals painted.
#[derive(Debug)]
pub(crate) struct Painter {
    turns: Semaphore,
}

impl Painter {
    pub(crate) fn new() -> Self {
        Self { turns: Semaphore::new(AT_ONCE) }
    }

    /// The repaint, if there is one in time.
    pub(crate) async fn paint(&self, dir: &LogDir, order: &Order) -> Option<Painted> {
        let painted = async {
            let _turn = self.turns.acquire().await.map_err(io::Error::other)?;
            run(dir, order).await
        };
        match timeout(LIMIT, painted).await {
            Ok(Ok(painted)) => Some(painted),
            Ok(Err(error)) => {
                tracing::warn!(error = %Chain(&error), "a terminal could not be painted");
                None
            }
            Err(_elapsed) => {
                tracing::warn!(seconds = LIMIT.as_secs(), "a terminal was not painted in time");
                None
            }
        }
    }
}

/// Tests of this crate are no executable that has the role.
#[cfg(test)]
async fn run(dir: &LogDir, order: &Order) -> io::Result<Painted> {
    super::paint::paint(dir, order).map_err(io::Error::other)
}

#[cfg(not(test))]
async fn run(dir: &LogDir, order: &Order) -> io::Result<Painted> {
    let words = serde_json::to_string(order)?;
    let mut child = command(words, dir.dir_fd().try_clone_to_owned()?)
        // Whoever gives up waiting does not leave it behind.
        .kill_on_drop(true)
        .spawn()?;
    let out = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let painted = read(out).await;
    let status = child.wait().await?;
    if !status.success() {
        return Err(io::Error::other(format!("min-screen ended with {status}")));
    }
    painted
}

#[cfg_attr(test, expect(dead_code, reason = "see `run`"))]
fn command(words: String, dir: std::os::fd::OwnedFd) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(ARGV0)
        .arg(words)
        .env_clear()
        .stdin(Stdio::from(dir))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .current_dir("/");
    command
}

#[cfg_attr(test, expect(dead_code, reason = "see `run`"))]
async fn read(out: tokio::process::ChildStdout) -> io::Result<Painted> {
    let mut out = BufReader::new(out);
    let mut line = Vec::new();
    (&mut out).take(HEADING).read_until(b'\n', &mut line).await?;
    let heading: Heading = serde_json::from_slice(&line)?;
    if heading.length > LONGEST {
        return Err(io::Error::other("the repaint is too long"));
    }
    let length = usize::try_from(heading.length).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    out.read_exact(&mut bytes).await?;
    Ok(Painted { from: heading.from, whole: heading.whole, bytes: bytes.into() })
}
