//! The measurements.

pub(crate) mod cold;
pub(crate) mod create;
pub(crate) mod list;
pub(crate) mod many;
pub(crate) mod pipe;
pub(crate) mod run;

use std::process::{Command, Stdio};

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
