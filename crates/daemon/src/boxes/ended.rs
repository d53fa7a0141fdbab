//! A box that has ended, as the daemon holds it: little, since there may be ten thousand.

use std::time::Duration;

use minimal_proto::api::{BoxRecord, BriefRecord, LogFigures};
use minimal_proto::spec::BoxType;
use minimal_proto::{BoxId, BoxName, ByteString, Ending, Health, State, Timestamp};
use minimal_store::Record;

use super::facts::Facts;
use super::wire;

/// How long after its ending a box made with `remove` is kept for its creator to ask.
pub(crate) const REMOVE_AFTER: Duration = Duration::from_secs(60);

/// The detail that tells a start that was cut short.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// The detail that tells that the command may have run all the same.
pub(crate) const MAY_HAVE_RUN: &str = "may_have_run";

/// A box without an actor. Its record is held as the JSON that listings consist of, whole and brief, so
/// that listing many is copying text.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) id: BoxId,
    pub(crate) name: BoxName,
    pub(crate) state: State,
    pub(crate) box_type: BoxType,
    pub(crate) project_root: Option<ByteString>,
    pub(crate) parent: Option<BoxId>,
    pub(crate) created_at: Timestamp,
    pub(crate) lives: u32,
    /// The log's end, for good.
    pub(crate) log_end: u64,
    /// Where the output of its last life begins.
    pub(crate) log_begin: u64,
    /// Whether that was a terminal's.
    pub(crate) tty: bool,
    /// Its start was cut short, and nothing of it ran; nobody refused it.
    pub(crate) interrupted: bool,
    /// When it is to be reaped; none: when somebody says so.
    pub(crate) reap_at: Option<Timestamp>,
    json: Box<str>,
    brief: Box<str>,
}

impl Ended {
    /// `None` if the record has no ending.
    pub(crate) fn new(record: &Record, facts: &Facts, log: LogFigures, host: &str) -> Option<Self> {
        let ending = record.ending.as_ref()?;
        let wire = wire::record(record, facts, health(record), log, host);
        let json = serde_json::to_string(&wire).expect("a record has string keys only");
        let brief = serde_json::to_string(&BriefRecord::from(wire)).expect("so has a part of it");
        let ended_at = record.ended_at.unwrap_or(ending.at());
        Some(Self {
            id: record.id,
            name: record.name.clone(),
            state: record.state,
            box_type: facts.box_type.clone(),
            project_root: facts.project_root.clone(),
            parent: record.parent,
            created_at: record.created_at,
            lives: record.lives,
            log_end: log.bytes,
            log_begin: record.log_begin,
            tty: facts.tty,
            interrupted: says(ending, INTERRUPTED) && !says(ending, MAY_HAVE_RUN),
            reap_at: record.remove.then(|| later(ended_at, REMOVE_AFTER)),
            json: json.into_boxed_str(),
            brief: brief.into_boxed_str(),
        })
    }

    /// The record as JSON.
    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    /// What a listing shows of it, as JSON.
    pub(crate) fn brief(&self) -> &str {
        &self.brief
    }

    /// The record.
    pub(crate) fn record(&self) -> BoxRecord {
        serde_json::from_str(&self.json).expect("it was written from a record")
    }

    /// How it ended.
    pub(crate) fn ending(&self) -> Ending {
        self.record().ending.expect("it was made from a record with an ending")
    }
}

/// What was degraded while it ran stays worth knowing.
fn health(record: &Record) -> (Health, Option<String>) {
    match &record.degraded {
        Some(cause) => (Health::Degraded, Some(cause.clone())),
        None => (Health::Ok, None),
    }
}

fn says(ending: &Ending, detail: &str) -> bool {
    ending.detail().get(detail).is_some_and(|value| *value == true)
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(time.as_micros().saturating_add(micros))
}

/// The log of a record with an ending: its end is where its keeper sealed it, and what the files do
/// not hold before that was dropped.
pub(crate) fn sealed_at(record: &Record, files: LogFigures) -> LogFigures {
    record.ending.as_ref().map_or(files, |ending| sealed(ending, files))
}

/// The same for an ending.
pub(super) fn sealed(ending: &Ending, files: LogFigures) -> LogFigures {
    let end = ending.detail().get("log_end").and_then(serde_json::Value::as_u64);
    let bytes = end.unwrap_or(files.bytes);
    let kept = files.bytes.saturating_sub(files.dropped_bytes);
    LogFigures { bytes, dropped_bytes: bytes.saturating_sub(kept) }
}
