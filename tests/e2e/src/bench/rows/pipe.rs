//! Output through keeper, log, daemon and client.

use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use minimal_testkit::TestEnv;

use super::{min, ok};
use crate::samples::{Samples, timed};
use crate::table::Row;

const ROUNDS: usize = 5;
const BYTES: u32 = 2 << 30;

/// Sends what a command prints into `cat >/dev/null`, and says how fast it went, in MB/s.
fn speed(mut command: Command) -> Result<f64> {
    let (outcome, took) = timed(|| -> Result<()> {
        let mut source = command.stdout(Stdio::piped()).spawn()?;
        let from = source.stdout.take().expect("it is piped");
        let sink =
            Command::new("/usr/bin/cat").stdin(from).stdout(File::create("/dev/null")?).status()?;
        let status = source.wait()?;
        ensure!(sink.success() && status.success(), "{command:?}: {status}");
        Ok(())
    });
    outcome?;
    Ok(f64::from(BYTES) / 1e6 / took.as_secs_f64())
}

pub(crate) fn bench() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    ok(min(&env, &["run", "--", "true"]))?;
    let bytes = BYTES.to_string();
    let (mut ours, mut tee) = (Samples::default(), Samples::default());
    for round in 0..ROUNDS {
        ours.push(speed(min(&env, &["run", "--", "head", "-c", &bytes, "/dev/zero"]))?);
        let file = env.work().join(format!("copy-{round}"));
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "head -c \"$1\" /dev/zero | tee \"$2\"", "sh", &bytes]).arg(&file);
        tee.push(speed(shell)?);
    }
    let met = ours.p50().zip(tee.p50()).map(|(ours, tee)| ours >= 400.0 && ours * 2.0 >= tee);
    Ok(vec![Row {
        name: "pipe output, 2 GiB to a client",
        unit: "MB/s",
        goal: "at least 400, and half of tee:",
        ours,
        beside: vec![("cmd | tee file", tee)],
        met,
    }])
}
