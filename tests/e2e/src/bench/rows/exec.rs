//! Commands run in a box that runs already.

use std::collections::BTreeMap;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use minimal_proto::api::{BoxRecord, CreateExec};
use minimal_proto::exec::{ExecCommand, ExecMode};
use minimal_sdk::{AttachOptions, Client};
use minimal_testkit::{LIMIT, TestEnv, wait_until};

use super::{client, first_output, min, ok};
use crate::peers::{Container, Peer};
use crate::samples::{Samples, timed};
use crate::table::Row;

const ROUNDS: usize = 200;
/// podman is slow enough that fewer say as much.
const SLOW_ROUNDS: usize = 20;
const AT_ONCE: usize = 500;
const ECHO: [&str; 2] = ["/usr/bin/echo", "x"];

/// One command through the API: how long until its first byte.
async fn first_byte(client: &Client, of: &BoxRecord) -> Result<Duration> {
    let create = CreateExec {
        command: ExecCommand {
            argv: ECHO.map(Into::into).into(),
            cwd: None,
            user: None,
            variables: Vec::new(),
            timeout_ms: None,
            stop_grace_ms: None,
            mode: ExecMode::Attached,
            input: false,
            terminal: None,
        },
        values: BTreeMap::new(),
    };
    let start = Instant::now();
    let record = client.create_exec(of.id, &create, uuid::Uuid::now_v7()).await?;
    let options = AttachOptions { pin: true, ..AttachOptions::default() };
    let (stream, _handle) = client.attach((of.id, record.id), options).await?;
    first_output(stream, start).await
}

pub(crate) fn bench() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    ok(min(&env, &["run", "-d", "--name", "host", "--", "sleep", "100000"]))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = client(&env);
    let host = runtime.block_on(client.get("host"))?;
    let scratch = env.root().join("podman");
    let container = Container::start(&scratch);
    let podman = container.as_ref().and_then(Container::exec);
    let plain = Peer::plain();
    let mut api = Samples::default();
    let mut whole = Samples::default();
    let (mut floor, mut floor_whole, mut slow) = <(Samples, Samples, Samples)>::default();
    for round in 0..ROUNDS {
        let counts = round >= ROUNDS / 10;
        let took = runtime.block_on(first_byte(&client, &host))?;
        let start = Instant::now();
        let mut until = start;
        plain.first_byte(&ECHO, || until = Instant::now())?;
        let (outcome, exec) = timed(|| ok(min(&env, &["exec", "host", "--", "true"])));
        outcome?;
        let (outcome, alone) = timed(|| plain.run(&["/usr/bin/true"]));
        outcome?;
        if counts {
            api.push_ms(took);
            floor.push_ms(until - start);
            whole.push_ms(exec);
            floor_whole.push_ms(alone);
        }
        if let Some(podman) = podman.as_ref().filter(|_| round % (ROUNDS / SLOW_ROUNDS) == 0) {
            let (outcome, took) = timed(|| podman.run(&["/usr/bin/true"]));
            outcome?;
            if counts {
                slow.push_ms(took);
            }
        }
    }
    let within = |ours: &Samples, factor: f64, other: &Samples| {
        ours.p50().zip(other.p50()).map(|(ours, other)| ours <= factor * other)
    };
    let api_met = within(&api, 2.0, &floor);
    // The goal names podman's figure for the whole command.
    let whole_met = whole.p50().zip(slow.p50()).map(|(ours, podman)| ours * 50.0 <= podman);
    let mut beside = vec![("fork+exec", floor_whole)];
    if podman.is_some() {
        beside.push(("podman exec, runc", slow));
    }
    Ok(vec![
        Row {
            name: "API exec to first output byte",
            unit: "ms",
            goal: "at most 2 x fork+exec:",
            ours: api,
            beside: vec![("fork+exec", floor)],
            met: api_met,
        },
        Row {
            name: "min exec box -- true, whole",
            unit: "ms",
            goal: "50 x below podman:",
            ours: whole,
            beside,
            met: whole_met,
        },
        at_once(&env)?,
    ])
}

/// Many clients, each with a command of its own.
fn at_once(env: &TestEnv) -> Result<Row> {
    let start = Instant::now();
    let mut waiting: Vec<Child> = (0..AT_ONCE)
        .map(|_| min(env, &["exec", "host", "--", "true"]).spawn())
        .collect::<Result<_, _>>()?;
    let mut ours = Samples::default();
    let mut failed = Vec::new();
    wait_until("every command has ended", LIMIT * 4, || {
        waiting.retain_mut(|child| match child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) if status.success() => {
                ours.push_ms(start.elapsed());
                false
            }
            outcome => {
                failed.push(format!("{outcome:?}"));
                false
            }
        });
        if waiting.is_empty() { Ok(()) } else { Err(format!("{} are left", waiting.len())) }
    });
    ensure!(failed.is_empty(), "of {AT_ONCE} commands at once failed: {failed:?}");
    Ok(Row {
        name: "500 commands at once in one box",
        unit: "ms",
        goal: "none fails:",
        ours,
        beside: Vec::new(),
        met: Some(true),
    })
}
