//! Two hundred boxes: what they cost, how fast a new daemon takes them over, and all at once.

use std::collections::BTreeMap;
use std::process::Child;

use anyhow::{Result, ensure};
use minimal_testkit::{LIMIT, TestEnv, wait_until};

use super::{min, ok};
use crate::samples::{Samples, timed};
use crate::table::Row;

const BOXES: usize = 200;

fn start_many(env: &TestEnv) -> Result<()> {
    for _ in 0..BOXES {
        ok(min(env, &["run", "-d", "--", "sleep", "100000"]))?;
    }
    Ok(())
}

/// Memory of processes as their share of what they share, in KiB, by what they are.
fn memory_by_role(env: &TestEnv) -> BTreeMap<&'static str, Vec<f64>> {
    let mut found: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for process in env.processes() {
        let role = ["min-keeper", "min-init", "min-nursery", "minimald"]
            .into_iter()
            .find(|role| process.command.contains(role));
        if let (Some(role), Some(pss)) = (role, process.pss_kib()) {
            found.entry(role).or_default().push(f64::from(u32::try_from(pss).unwrap_or(u32::MAX)));
        }
    }
    found
}

pub(crate) fn memory() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    ok(min(&env, &["run", "--", "true"]))?;
    let sum = |values: Option<&Vec<f64>>| values.map_or(0.0, |values| values.iter().sum());
    let before: f64 = sum(memory_by_role(&env).get("minimald"));
    start_many(&env)?;
    let memory = memory_by_role(&env);
    let row = |name, role: &str, goal, most: f64| {
        let mut ours = Samples::default();
        for value in memory.get(role).into_iter().flatten() {
            ours.push(*value);
        }
        let met = ours.p50().map(|p50| most.is_nan() || p50 <= most);
        Row {
            name,
            unit: "KiB",
            goal,
            ours,
            beside: Vec::new(),
            met: met.filter(|_| !most.is_nan()),
        }
    };
    let mut growth = Samples::default();
    let boxes = f64::from(u32::try_from(BOXES)?);
    growth.push((sum(memory.get("minimald")) - before) / boxes);
    let met = growth.p50().map(|p50| p50 <= 40.0);
    let rows = vec![
        row("memory of a keeper, 200 idle boxes", "min-keeper", "PSS at most 512 KiB:", 512.0),
        row("memory of an init, 200 idle boxes", "min-init", "", f64::NAN),
        row("memory of the nursery", "min-nursery", "", f64::NAN),
        Row {
            name: "the daemon's growth, for each box",
            unit: "KiB",
            goal: "at most 40 KiB:",
            ours: growth,
            beside: Vec::new(),
            met,
        },
    ];
    ensure!(
        memory.get("min-keeper").map_or(0, Vec::len) >= BOXES,
        "not every box has a keeper: {memory:?}"
    );
    Ok(rows)
}

pub(crate) fn adoption() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    start_many(&env)?;
    let mut ours = Samples::default();
    for _ in 0..5 {
        env.kill_daemon();
        let (boxes, took) = timed(|| env.boxes());
        ensure!(boxes.len() == BOXES, "{} boxes", boxes.len());
        ensure!(boxes.iter().all(|record| record["state"] == "running"), "not all of them run");
        ours.push_ms(took);
    }
    let met = ours.p50().map(|p50| p50 <= 200.0);
    Ok(vec![Row {
        name: "killed daemon to a right min ls, 200 boxes",
        unit: "ms",
        goal: "at most 200 ms (1,000: under 1 s):",
        ours,
        beside: Vec::new(),
        met,
    }])
}

pub(crate) fn burst() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    ok(min(&env, &["run", "--", "true"]))?;
    let mut single = Samples::default();
    for _ in 0..20 {
        let (outcome, took) = timed(|| ok(min(&env, &["run", "-d", "--", "sleep", "100000"])));
        outcome?;
        single.push_ms(took);
    }
    let start = std::time::Instant::now();
    let mut waiting: Vec<Child> = (0..BOXES)
        .map(|_| min(&env, &["run", "-d", "--", "sleep", "100000"]).spawn())
        .collect::<Result<_, _>>()?;
    let mut ours = Samples::default();
    wait_until("every box has started", LIMIT * 4, || {
        let mut left = Vec::new();
        for mut child in waiting.drain(..) {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => ours.push_ms(start.elapsed()),
                Ok(Some(status)) => return Err(format!("a start failed: {status}")),
                Ok(None) | Err(_) => left.push(child),
            }
        }
        waiting = left;
        if waiting.is_empty() { Ok(()) } else { Err(format!("{} still start", waiting.len())) }
    });
    let met = ours.quantile(0.99).zip(single.p50()).map(|(p99, single)| p99 <= 20.0 * single);
    Ok(vec![Row {
        name: "200 boxes created at once",
        unit: "ms",
        goal: "none fails; p99 at most 20 x one alone:",
        ours,
        beside: vec![("one alone", single)],
        met,
    }])
}
