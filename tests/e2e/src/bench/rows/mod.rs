//! The measurements.

pub(crate) mod cold;
pub(crate) mod create;
pub(crate) mod exec;
pub(crate) mod list;
pub(crate) mod many;
pub(crate) mod pipe;
pub(crate) mod run;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use minimal_sdk::{AttachStream, Client, SocketConnector, StreamEvent};
use minimal_testkit::TestEnv;

/// `min` as a plain command in this world: what the test harness adds around one is not measured.
fn min(env: &TestEnv, args: &[&str]) -> Command {
    let mut command = Command::new(env.program());
    command
        .args(args)
        .env_clear()
        .envs(env.variables())
        .env_remove("MINIMAL_HOOKS")
        .current_dir(env.work())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Runs it and insists on success.
fn ok(mut command: Command) -> anyhow::Result<()> {
    let status = command.status()?;
    anyhow::ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// A client of this world's daemon, which must be up.
fn client(env: &TestEnv) -> Client {
    Client::new(Arc::new(SocketConnector::new(env.state_dir().join("minimald.sock"))))
}

/// How long after `start` the first byte came. The stream is read to its end, so that nothing of it falls
/// into the next round.
async fn first_output(mut stream: AttachStream, start: Instant) -> anyhow::Result<Duration> {
    let mut first = None;
    loop {
        match stream.next().await? {
            StreamEvent::Output { .. } => first = first.or_else(|| Some(start.elapsed())),
            event if event.is_terminal() => break,
            _ => {}
        }
    }
    first.context("nothing was printed")
}
