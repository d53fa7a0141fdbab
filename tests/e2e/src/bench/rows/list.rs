//! Listing ten thousand ended boxes. They are made by the store, as a keeper would have.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use minimal_proto::event::{Created, Started};
use minimal_proto::{BoxId, BoxName, Ending, EventData, Spec, Timestamp};
use minimal_sdk::{Client, ListQuery, SocketConnector};
use minimal_store::{JournalWriter, StateDir};
use minimal_testkit::TestEnv;
use serde_json::json;

use super::{min, ok};
use crate::samples::{Samples, timed};
use crate::table::Row;

const BOXES: u32 = 10_000;
const ROUNDS: usize = 30;

fn make(state: &StateDir, number: u32) -> Result<()> {
    let micros = 1_700_000_000_000_000 + i64::from(number) * 1_000_000;
    let ts = Timestamp::from_micros(micros);
    let id = BoxId::from_uuid(uuid::Uuid::now_v7());
    let created = Created {
        name: BoxName::ad_hoc(b"true", u64::from(number) + 1),
        remove: false,
        idempotency_key: None,
        request_digest: None,
        client_digest: None,
        sources: None,
        spec_digest: None,
    };
    let dir = state.create_box(id, &Spec::task(vec!["true".into()]), created, ts)?;
    let mut journal = JournalWriter::open(&dir)?;
    let enforcement = json!({
        "namespaces": ["user", "mnt", "pid", "uts", "ipc", "cgroup", "net"], "users": "single",
        "uid_map": [[0, 1000, 1]], "network": "none", "no_new_privs": true, "capabilities": [],
    });
    let started = Started {
        life: 1,
        boot_id: "6ab3ba68-6d4a-4c9b-a2ab-d59e1b4f2d0e".to_owned(),
        keeper_pid: 1,
        enforcement: serde_json::from_value(enforcement)?,
    };
    journal.append(EventData::Started(started), ts)?;
    let ending: Ending = serde_json::from_value(json!({
        "reason": "exit", "exit_code": 0, "signal": null, "signal_number": null, "core_dumped": false,
        "at": ts, "observed_by": "keeper", "detail": {"log_end": 0},
    }))?;
    journal.append(EventData::Exited(ending), ts)?;
    Ok(())
}

pub(crate) fn bench() -> Result<Vec<Row>> {
    let env = TestEnv::new();
    {
        let state = StateDir::open(env.state_dir()).context("make the state directory")?;
        for number in 0..BOXES {
            make(&state, number)?;
        }
    }
    let (first, cold) = timed(|| env.boxes());
    ensure!(first.len() == BOXES as usize, "{} boxes are listed", first.len());
    let mut from_cold = Samples::default();
    from_cold.push_ms(cold);
    for _ in 0..4 {
        env.kill_daemon();
        let (again, took) = timed(|| env.boxes());
        ensure!(again.len() == BOXES as usize, "{} boxes are listed", again.len());
        from_cold.push_ms(took);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = Client::new(Arc::new(SocketConnector::new(env.state_dir().join("minimald.sock"))));
    let (mut all, mut short, mut api) =
        (Samples::default(), Samples::default(), Samples::default());
    let query = ListQuery { limit: Some(BOXES), ..ListQuery::default() };
    for _ in 0..ROUNDS {
        let (outcome, took) = timed(|| ok(min(&env, &["ls", "--all"])));
        outcome?;
        all.push_ms(took);
        let (outcome, took) = timed(|| ok(min(&env, &["ls"])));
        outcome?;
        short.push_ms(took);
        let (list, took) = timed(|| runtime.block_on(client.list(&query)));
        ensure!(list?.boxes.len() == BOXES as usize, "the API lists another number");
        api.push_ms(took);
    }
    let met = all.p50().map(|p50| p50 <= 30.0);
    Ok(vec![
        Row {
            name: "min ls --all, 10,000 ended boxes",
            unit: "ms",
            goal: "under 30 ms:",
            ours: all,
            beside: vec![("min ls, the last ones", short), ("API, all as records", api)],
            met,
        },
        Row {
            name: "no daemon to min ls --all, 10,000 ended",
            unit: "ms",
            goal: "",
            ours: from_cold,
            beside: Vec::new(),
            met: None,
        },
    ])
}
