//! The one place that writes an ending nobody saw.
//!
//! Used alike when the daemon starts and finds a box without a keeper, when a keeper's connection
//! ends without a word, and when a keeper could not be made. It never believes an absence: only who
//! obtains both locks of a box knows that nobody is there (`docs/reference/wire.md`, section 9).

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use minimal_linux::socket;
use minimal_proto::api::LogFigures;
use minimal_proto::ending::{Observer, StartFault};
use minimal_proto::error::Chain;
use minimal_proto::{BoxId, Ending, Event, EventData, ExecId, State, Timestamp};
use minimal_store::{
    BoxDir, ExecDir, Holders, JournalError, JournalReader, JournalWriter, LifeLock, LockError,
    LogError, Record, hook,
};
use serde_json::json;

use super::ended::{INTERRUPTED, MAY_HAVE_RUN};

/// Why there may be no keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// It is gone: its connection ended, or nobody answers.
    Gone,
    /// It was never made.
    NotMade {
        /// What was attempted.
        step: &'static str,
        /// Why it failed.
        message: String,
        /// The kernel's answer, if it was one.
        errno: Option<i32>,
    },
}

/// What is known of a box that has no connection to a keeper.
#[derive(Debug)]
pub(crate) enum Conclusion {
    /// It has ended, and its ending is on disk. Whether it was written just now.
    Ended { record: Box<Record>, log: LogFigures, written: bool },
    /// Somebody holds a lock: it is alive.
    Alive(Holders),
}

/// The box could not be looked at, or its ending not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConcludeError {
    /// Its locks.
    #[error("find out who holds the box")]
    Lock(#[from] LockError),
    /// Its journal.
    #[error("write the ending of a box without a keeper")]
    Journal(#[from] JournalError),
    /// Its log.
    #[error("find the end of the log")]
    Log(#[from] LogError),
    /// Whether a keeper listens, or a fault point.
    #[error("find out whether a keeper listens")]
    Look(#[from] io::Error),
    /// The journal does not hold together.
    #[error("fold the journal")]
    Fold(#[from] minimal_store::Denied),
}

/// Finds out whether a box without a connection to a keeper has ended, and if nobody is there who
/// could ever say how, writes that. Blocking.
///
/// At most one call per box at a time: record locks do not tell threads apart.
///
/// # Errors
/// The box could not be looked at or written to; it can be tried again.
pub(crate) fn conclude(
    dir: &BoxDir,
    absence: &Absence,
    boot_id: &str,
) -> Result<Conclusion, ConcludeError> {
    // Dropped last, so that the locks are held until the ending is on disk.
    let lock = LifeLock::open(dir)?;
    if !lock.try_both()? {
        return match already_ended(dir)? {
            Some((record, log)) => Ok(Conclusion::Ended { record, log, written: false }),
            None => {
                let holders = lock.holders()?;
                if !holders.keeper {
                    thaw(dir);
                }
                Ok(Conclusion::Alive(holders))
            }
        };
    }
    let mut journal = JournalReader::open(dir)?;
    let events = journal.read_new()?;
    let record = Record::fold(&events)?;
    let log = minimal_store::figures(dir)?;
    // The lock file may have been replaced under a keeper, which holds the locks of the old one.
    if record.ending.is_none()
        && (socket::is_listening(dir.dir_fd(), minimal_keeper::SOCKET)?
            || is_keeper(record.id, &events))
    {
        return Ok(Conclusion::Alive(Holders { keeper: true, init: true }));
    }
    if record.ending.is_some() {
        // Its keeper was killed, perhaps before it had synced what it wrote.
        journal.sync()?;
        clean_up(dir, &record);
        return Ok(Conclusion::Ended { record: Box::new(record), log, written: false });
    }
    hook::point("daemon.reconcile.before_lost")?;
    // Before the box's own ending, after which nobody looks. One that cannot be written must not cost
    // the box its ending: an exec of an ended box without an ending is lost, written or not.
    if let Err(error) = ExecDir::conclude_all(dir, Timestamp::now(), &executed(&events)) {
        tracing::warn!(box_id = %record.id, error = %Chain(&error), "an exec's ending cannot be written");
    }
    let mut journal = JournalWriter::open(dir)?;
    let begun = lock.has_begun()?;
    let data = ending_event(&record, events.last(), absence, begun, log, boot_id);
    journal.append_durable(data, Timestamp::now())?;
    hook::point("daemon.reconcile.after_lost")?;
    clean_up(dir, &record);
    Ok(Conclusion::Ended { record: Box::new(journal.record().clone()), log, written: true })
}

/// When the programs of execs were executed, as far as their keeper has written that.
fn executed(events: &[Event]) -> BTreeMap<ExecId, Timestamp> {
    let started = events.iter().filter_map(|event| match &event.data {
        EventData::ExecStarted(started) => Some((started.exec, event.ts)),
        _ => None,
    });
    started.collect()
}

/// Whether the process that was the box's keeper at its start still is: by its title, which it has
/// for as long as it lives. A pid alone may be another's by now.
fn is_keeper(id: BoxId, events: &[Event]) -> bool {
    let started = events.iter().rev().find_map(|event| match &event.data {
        EventData::Started(started) => Some(started.keeper_pid),
        _ => None,
    });
    let title = started.and_then(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok());
    title.is_some_and(|title| title.starts_with(format!("min-keeper {id}").as_bytes()))
}

/// The record of a box that somebody holds, if it has ended all the same: a keeper closes its socket
/// after the ending is written, and cleans up before it lets go of its lock. Read after the socket
/// was found closed, the journal is complete; one that was stopped may not have synced it.
fn already_ended(dir: &BoxDir) -> Result<Option<(Box<Record>, LogFigures)>, ConcludeError> {
    // What cannot be read says nothing about who is there.
    let Ok(mut journal) = JournalReader::open(dir) else { return Ok(None) };
    let Ok(events) = journal.read_new() else { return Ok(None) };
    let ended = Record::fold(&events).ok().filter(|record| record.ending.is_some());
    let Some(record) = ended else { return Ok(None) };
    journal.sync()?;
    Ok(Some((Box::new(record), minimal_store::figures(dir)?)))
}

/// Lets what is left of a box die that its keeper had paused.
fn thaw(dir: &BoxDir) {
    let events = JournalReader::open(dir).and_then(|mut journal| journal.read_new());
    let record = events.ok().and_then(|events| Record::fold(&events).ok());
    let enforcement = record.filter(|record| record.paused).and_then(|it| it.enforcement);
    // `<state>/boxes/<id>`
    if let (Some(enforcement), Some(state_dir)) = (enforcement, dir.path().ancestors().nth(2)) {
        minimal_keeper::thaw_left_behind(state_dir, &enforcement);
    }
}

/// Removes what a keeper has left that was killed after it had told the ending, and before it had
/// cleaned up. Blocking.
pub(crate) fn clean_up_after(dir: &BoxDir, record: &Record) {
    let limits = record.enforcement.iter().flat_map(|enforcement| &enforcement.limits);
    if limits.filter_map(|limit| limit.cgroup.as_ref()).any(|group| Path::new(group).exists()) {
        clean_up(dir, record);
    }
}

/// Removes what a keeper that was killed has left outside its box's directory.
fn clean_up(dir: &BoxDir, record: &Record) {
    // `<state>/boxes/<id>`
    if let Some(state_dir) = dir.path().ancestors().nth(2) {
        minimal_keeper::remove_cgroups_left_behind(state_dir, record.enforcement.as_ref());
    }
}

/// The ending of a box that nobody saw end: `lost` if it had started, else a start that failed, or the
/// failed resume of one that had ended before.
fn ending_event(
    record: &Record,
    last: Option<&Event>,
    absence: &Absence,
    begun: bool,
    log: LogFigures,
    boot_id: &str,
) -> EventData {
    let at = Timestamp::now();
    if record.state == State::Running {
        let boot_changed = record.boot_id.as_ref().map(|started_in| started_in != boot_id);
        let mut ending = Ending::lost(at, serde_json::Map::new())
            .with_detail("keeper", "gone")
            .with_detail("boot_changed", boot_changed)
            .with_detail("last_event", last.map(describe))
            .with_detail("log_end", log.bytes);
        // Of a box that lives on after it; it may have run again since.
        if let Some(returned) = &record.entrypoint.returned {
            ending = ending.with_detail("entrypoint_returned", json!(returned));
        }
        return EventData::Exited(ending);
    }
    let (step, message, errno) = match absence {
        Absence::Gone if begun => {
            ("start", "its keeper was killed while the command was being executed", None)
        }
        Absence::Gone => ("start", "the start was interrupted", None),
        Absence::NotMade { step, message, errno } => (*step, message.as_str(), *errno),
    };
    let mut ending =
        Ending::start_failed(StartFault::Other, step, message, errno, at, Observer::Daemon)
            .with_detail("log_end", log.bytes);
    if *absence == Absence::Gone {
        ending = ending.with_detail(INTERRUPTED, true);
        if begun {
            ending = ending.with_detail(MAY_HAVE_RUN, true);
        }
    }
    match record.is_resuming() {
        true => EventData::ResumeFailed(ending),
        false => EventData::Failed(ending),
    }
}

fn describe(event: &Event) -> serde_json::Value {
    json!({"seq": event.seq, "type": event.data.type_name(), "ts": event.ts})
}
