//! Finding the boxes again: the index from the directories, and an actor for each that lives.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use minimal_proto::error::Chain;
use minimal_proto::{BoxId, Spec, Timestamp};
use minimal_store::state_dir::Entry as Name;
use minimal_store::{BoxDir, BoxDirError, JournalReader, ListError, Record};

use super::actor::{Actor, Body};
use super::conclude::{Absence, Conclusion, conclude};
use super::{Ended, Facts, Flow, View, sealed_at};
use crate::host::Host;
use crate::index::{Broken, Entry, RequestKey};

/// How many directories are read at once. More than there are processors: an ending that nobody saw
/// is written with a sync, which waits for the disk.
const THREADS: usize = 8;

/// What a directory turned out to be.
enum Found {
    Ended(Ended, Option<RequestKey>),
    Alive(Box<Body>, Option<RequestKey>),
    Broken(Broken),
    /// It has gone meanwhile.
    Gone,
}

/// Rebuilds the index. Boxes that nobody keeps any more get their ending here; those that somebody
/// keeps get an actor, which looks for their keeper by itself. Returns how many are kept.
///
/// # Errors
/// The boxes cannot be listed.
pub(crate) async fn load(host: &Arc<Host>) -> Result<usize, ListError> {
    let reading = Arc::clone(host);
    let found = tokio::task::spawn_blocking(move || read_all(&reading));
    let mut kept = 0;
    for found in found.await.expect("reading boxes does not panic")? {
        match found {
            Found::Ended(ended, key) => {
                let ended = Arc::new(ended);
                host.index.put(Entry::Ended(Arc::clone(&ended)));
                note_key(host, ended.id, key);
                host.reap_later(&ended);
            }
            Found::Alive(body, key) => {
                let (actor, live) = Actor::new(Arc::clone(host), *body);
                note_key(host, live.id, key);
                host.index.put(Entry::Live(live));
                actor.adopted();
                kept += 1;
            }
            Found::Broken(broken) => {
                tracing::error!(box_id = %broken.id, reason = broken.reason, "broken");
                host.index.put(Entry::Broken(Arc::new(broken)));
            }
            Found::Gone => {}
        }
    }
    Ok(kept)
}

fn note_key(host: &Host, id: BoxId, key: Option<RequestKey>) {
    if let Some(key) = key {
        host.index.put_key(id, key);
    }
}

fn read_all(host: &Host) -> Result<Vec<Found>, ListError> {
    let names = host.state.box_ids()?;
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        match name {
            Name::Box(id) => ids.push(id),
            Name::Foreign(name) => {
                tracing::warn!(?name, "what is among the boxes and is none was left alone");
            }
        }
    }
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Vec::with_capacity(ids.len()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS.min(ids.len()) {
            scope.spawn(|| {
                let mut own = Vec::new();
                while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
                    own.push(read(host, *id));
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut own);
            });
        }
    });
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn read(host: &Host, id: BoxId) -> Found {
    let dir = match host.state.box_dir(id) {
        Ok(dir) => dir,
        Err(BoxDirError::Missing { .. }) => return Found::Gone,
        Err(error) => return broken(id, &error),
    };
    let spec = match dir.read_spec() {
        Ok(spec) => spec,
        Err(error) => return broken(id, &error),
    };
    let mut journal = match JournalReader::open(&dir) {
        Ok(journal) => journal,
        Err(error) => return broken(id, &error),
    };
    let events = match journal.read_new() {
        Ok(events) => events,
        Err(error) => return broken(id, &error),
    };
    match Record::fold(&events) {
        Ok(record) if record.id == id => {
            if record.ending.as_ref().is_some_and(|ending| is_recent(ending.at()))
                && let Err(error) = journal.sync()
            {
                tracing::error!(box_id = %id, error = %Chain(&error), "its ending may not last");
            }
            settle(host, dir, &spec, record)
        }
        Ok(record) => Found::Broken(Broken {
            id,
            reason: format!("its journal is that of box {}", record.id),
        }),
        Err(error) => broken(id, &error),
    }
}

/// How long what was written may not be on disk yet: the kernel writes it 30 s later at the latest
/// (vm.dirty_expire_centisecs, proc_sys_vm(5)), or an administrator's while.
const WRITTEN_BACK: Duration = Duration::from_secs(300);

/// Whether an ending may have been written by a keeper that was killed before it could sync it.
pub(super) fn is_recent(at: Timestamp) -> bool {
    // A clock that was set back makes old ones of the future: to sync once more harms nothing.
    Timestamp::now().since(at) < WRITTEN_BACK
}

/// Finds out whether a box that can be read lives.
fn settle(host: &Host, dir: BoxDir, spec: &Spec, record: Record) -> Found {
    let id = record.id;
    let facts = Facts::from(spec);
    let key = record.idempotency_key.clone().zip(record.request_digest.clone());
    let key = key.map(|(key, digest)| RequestKey { key, digest });
    let log = match minimal_store::figures(&dir) {
        Ok(log) => log,
        Err(error) => return broken(id, &error),
    };
    let mut record = record;
    if record.ending.is_none() {
        match conclude(&dir, &Absence::Gone, &host.boot_id) {
            Ok(Conclusion::Ended { record: ended, written, .. }) => {
                if written {
                    tracing::warn!(box_id = %id, box_name = %ended.name, "nobody saw the box end");
                }
                record = *ended;
            }
            Ok(Conclusion::Alive(_)) => {}
            // Its actor tries again, and says so.
            Err(error) => tracing::error!(box_id = %id, error = %Chain(&error), "not concluded"),
        }
    }
    match Ended::new(&record, &facts, sealed_at(&record, log), &host.name) {
        Some(ended) => Found::Ended(ended, key),
        None => {
            let (view, flow) = (View::new(record), Flow::new(log.bytes));
            Found::Alive(Box::new(Body { facts, dir, view, flow }), key)
        }
    }
}

fn broken(id: BoxId, error: &(dyn std::error::Error + 'static)) -> Found {
    Found::Broken(Broken { id, reason: Chain(error).to_string() })
}
