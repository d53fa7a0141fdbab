//! A box as the API shows it.

use minimal_proto::api::{BoxRecord, Entrypoint, EntrypointState, LogFigures};
use minimal_proto::{BoxId, Health, State};
use minimal_store::Record;

use super::Live;
use super::facts::Facts;
use super::view::View;

/// Who offers this host, until there are others.
pub(crate) const PROVIDER: &str = "local0";

/// The record of a box that can be read.
pub(crate) fn record(
    record: &Record,
    facts: &Facts,
    (health, health_reason): (Health, Option<String>),
    log: LogFigures,
    host: &str,
) -> BoxRecord {
    BoxRecord {
        schema: "min/v1/box".to_owned(),
        id: record.id,
        name: Some(record.name.clone()),
        box_type: Some(facts.box_type.name()),
        root_type: Some(facts.box_type.root()),
        state: Some(record.state),
        health,
        health_reason,
        ending: record.ending.clone(),
        parent: record.parent,
        project_root: facts.project_root.clone(),
        provider: PROVIDER.to_owned(),
        host: host.to_owned(),
        created_at: Some(record.created_at),
        started_at: record.started_at,
        ended_at: record.ended_at,
        lives: record.lives,
        log_begin: record.log_begin,
        spec_digest: record.spec_digest.clone(),
        client_digest: record.client_digest.clone(),
        identity: "none".to_owned(),
        program: facts.has_entrypoint().then(|| facts.program.clone()),
        entrypoint: entrypoint(record, facts),
        paused: record.paused,
        enforcement: record.enforcement.clone(),
        execs: Vec::new(),
        log,
        disk_bytes: None,
    }
}

fn entrypoint(record: &Record, facts: &Facts) -> Option<Entrypoint> {
    let state = match &record.entrypoint.returned {
        _ if record.state != State::Running => return None,
        _ if !facts.has_entrypoint() => EntrypointState::None,
        Some(_) if !record.entrypoint.runs_again => EntrypointState::Returned,
        Some(_) | None => EntrypointState::Running,
    };
    let minimal_store::record::Entrypoint { returned, restarts, ready, .. } =
        record.entrypoint.clone();
    let ready = facts.has_probe.then_some(ready);
    Some(Entrypoint { state, returned, restarts, ready })
}

/// The record of a box that has an actor.
pub(crate) fn live(live: &Live, view: &View, log: LogFigures, host: &str) -> BoxRecord {
    let execs = live.execs.ids();
    BoxRecord { execs, ..record(&view.record, &live.facts, view.health(), log, host) }
}

/// The record of a directory that cannot be read.
pub(crate) fn broken(id: BoxId, reason: &str, host: &str) -> BoxRecord {
    BoxRecord {
        schema: "min/v1/box".to_owned(),
        id,
        name: None,
        box_type: None,
        root_type: None,
        state: None,
        health: Health::Broken,
        health_reason: Some(reason.to_owned()),
        ending: None,
        parent: None,
        project_root: None,
        provider: PROVIDER.to_owned(),
        host: host.to_owned(),
        created_at: None,
        started_at: None,
        ended_at: None,
        lives: 0,
        log_begin: 0,
        spec_digest: None,
        client_digest: None,
        identity: "none".to_owned(),
        program: None,
        entrypoint: None,
        paused: false,
        enforcement: None,
        execs: Vec::new(),
        log: LogFigures::default(),
        disk_bytes: None,
    }
}
