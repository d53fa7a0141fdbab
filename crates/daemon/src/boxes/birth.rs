//! Making a box.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use minimal_keeper::nursery::KeeperProcess;
use minimal_proto::api::{BoxRecord, CreateBox, LogFigures, StartOptions};
use minimal_proto::error::Chain;
use minimal_proto::event::{Created, Sources};
use minimal_proto::keeper::{Start, ToKeeper};
use minimal_proto::{BoxId, ErrorBody, ErrorCode, Event, EventData, Spec, State, Timestamp};
use minimal_store::{BoxDir, CreateError, Record, hook};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::actor::{Actor, Body};
use super::conclude::{Absence, Conclusion, conclude};
use super::{
    Answer, Command, Ended, Facts, Fate, Flow, Link, Live, View, first_sign, unsupported, wire,
};
use crate::hooks;
use crate::host::Host;
use crate::index::{Admission, AdmitError, Entry, NameHeld, RequestKey, Reservation};
use crate::launcher::{LaunchError, Launched, is_shortage, step_error};

/// How long a keeper may take to start a box before the creator is told that it has not. The keeper
/// bounds each step itself; this bounds a keeper that hangs, and does not answer.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The longest idempotency key, in bytes.
pub(crate) const MAX_KEY: usize = 200;

/// What came of a create.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A new box, running or with a failed start.
    Made(Box<BoxRecord>),
    /// The box that an earlier request with the same key has made.
    Repeated(Entry),
}

/// Makes a box and waits until it runs or its start has failed.
///
/// To be run in a task of its own: a client that leaves must not cut it short.
///
/// # Errors
/// Nothing was made; or the box was made and its keeper hangs.
pub(crate) async fn create(
    host: Arc<Host>,
    request: CreateBox,
    key: Option<String>,
) -> Result<Outcome, ErrorBody> {
    request.spec.check(request.values.iter()).map_err(|error| {
        ErrorBody::new(ErrorCode::InvalidSpec, format!("the spec cannot be run: {error}"))
    })?;
    check_mounts(&request)?;
    let spec_digest = check_digest(&request)?;
    minimal_spec::check_root(&request.spec).map_err(|violation| {
        ErrorBody::new(
            ErrorCode::ConstraintViolation,
            format!("the spec cannot be run: {violation}"),
        )
        .with_detail("key", violation.path.as_str())
        .with_detail("type", violation.type_name.as_str())
    })?;
    unsupported::check(&request.spec)?;
    let pass = host.begin_birth()?;
    let key = key.map(|key| RequestKey { key, digest: digest(&request) });
    let spec = &request.spec;
    // Called after its entry, its program, or its type.
    let entry = spec.identity.entry.as_ref().map(|entry| entry.as_str().into());
    let base = entry.or_else(|| spec.execution.exec.first().cloned());
    let base = base.unwrap_or_else(|| spec.identity.box_type.as_str().into());
    let reservation = loop {
        let id = BoxId::from_uuid(Uuid::now_v7());
        let asked = request.spec.identity.name.as_ref();
        match host.index.admit(id, asked, base.as_bytes(), key.as_ref()) {
            Ok(Admission::New(reservation)) => break reservation,
            Ok(Admission::Repeat { id, mut made }) => {
                // Closed once it is known whether the first request made it.
                while made.changed().await.is_ok() {}
                if let Some(entry) = host.index.get(id) {
                    if started(&entry).await?.is_none() {
                        return Err(may_start(&entry));
                    }
                    let Some(interrupted) = interrupted(&host, id).await else {
                        return Ok(Outcome::Repeated(entry));
                    };
                    // Nothing of it ever ran, and its creator asks again: that was a try.
                    host.reap(interrupted).await?;
                }
            }
            Err(AdmitError::IdTaken { .. }) => {}
            Err(error) => return Err(refusal(&error)),
        }
    };
    let outcome = birth(Arc::clone(&host), request, spec_digest, key, reservation).await;
    drop(pass);
    host.make_ahead();
    outcome
}

async fn birth(
    host: Arc<Host>,
    request: CreateBox,
    spec_digest: String,
    key: Option<RequestKey>,
    reservation: Reservation,
) -> Result<Outcome, ErrorBody> {
    let CreateBox { spec, digest: client_digest, values, start } = request;
    let (id, name) = (reservation.id(), reservation.name().clone());
    let facts = Facts::from(&spec);
    let (idempotency_key, request_digest) =
        key.map(|RequestKey { key, digest }| (key, digest)).unzip();
    let created = Created {
        name: name.clone(),
        remove: start.remove,
        idempotency_key,
        request_digest,
        spec_digest: Some(spec_digest),
        client_digest,
        sources: sources(&start),
    };
    let made = {
        let host = Arc::clone(&host);
        tokio::task::spawn_blocking(move || make(&host, id, spec, created))
    };
    let Made { dir, record, spec, keeper } = made.await.expect("making a box does not panic")?;
    tracing::info!(
        box_id = %id, box_name = %name, program = facts.program, arguments = facts.arguments, "created",
    );
    if let Keeper::NotMade(ended) = keeper {
        let ended = Ended::new(&ended, &facts, LogFigures::default(), &host.name);
        let ended = Arc::new(ended.expect("its start has failed"));
        reservation.publish(Entry::Ended(Arc::clone(&ended)));
        host.reap_later(&ended);
        return Ok(Outcome::Made(Box::new(ended.record())));
    }
    let (view, mut flow) = (View::new(record), Flow::new(0));
    flow.input_open = start.input;
    flow.pinned = start.pin;
    let (actor, live) = Actor::new(Arc::clone(&host), Body { facts, dir, view, flow });
    reservation.publish(Entry::Live(Arc::clone(&live)));
    match keeper {
        Keeper::Launched(link, process) => {
            let (input, options) = (start.input, start);
            let (life, generation) = (1, Some(1));
            let start = Start { box_id: id, name, life, generation, spec, values, options };
            let start = ToKeeper::Start(Box::new(start));
            let link = first_sign::start(&host, id, (link, process), &start).await;
            actor.born(link, input);
        }
        // It finds out, and the wait below ends with what it finds.
        Keeper::NotMade(_) | Keeper::Unknown => actor.adopted(),
    }

    if started(&Entry::Live(Arc::clone(&live))).await?.is_none() {
        give_up(&live).await?;
    }
    hooks::pass("daemon.create.after_started")
        .await
        .map_err(|error| internal("pass a fault point", &error))?;
    let view = live.view.borrow().clone();
    let bytes = live.line.flow.borrow().log_end;
    let log = LogFigures { bytes, dropped_bytes: 0 };
    Ok(Outcome::Made(Box::new(wire::live(&live, &view, log, &host.name))))
}

/// That a start has come to something.
pub(super) struct Settled;

/// Waits until a box's entrypoint was executed or its start has failed; `None`: neither, in time.
pub(super) async fn started(entry: &Entry) -> Result<Option<Settled>, ErrorBody> {
    let Entry::Live(live) = entry else { return Ok(Some(Settled)) };
    let is_up = |view: &View| match view.record.state {
        State::Running => true,
        _ => view.is_last(),
    };
    // A fault here is the limit that has passed.
    let limit =
        hooks::pass("daemon.create.start_limit").await.map_or(Duration::ZERO, |()| START_LIMIT);
    loop {
        match tokio::time::timeout(limit, live.wait_for(is_up)).await {
            Ok(view) if view.fate == Fate::Removed => return Err(live.removed()),
            Ok(_) => return Ok(Some(Settled)),
            // It answers, so it is at work: it copies a project, which takes as long as it takes.
            Err(_) if !limit.is_zero() && live.view.borrow().fault.is_none() => {}
            Err(_) => return Ok(None),
        }
    }
}

/// Gives up the start of the box that is made under a key. Whether there was a start to give up.
///
/// # Errors
/// Its keeper does not answer.
pub(crate) async fn cancel(host: &Host, key: &str) -> Result<bool, ErrorBody> {
    let Some(Entry::Live(live)) = host.index.made_under(key) else { return Ok(false) };
    match live.line.ask(|reply| Command::Cancel { reply }).await? {
        Answer::Given(Ok(())) => Ok(true),
        Answer::Given(Err(error)) if error.code == ErrorCode::WrongState => Ok(false),
        Answer::Given(Err(error)) => Err(error),
        Answer::Ended => Ok(false),
    }
}

/// Gives up a start that takes too long: its box has an ending then, by which nothing of it will run.
///
/// # Errors
/// That is not certain.
pub(super) async fn give_up(live: &Arc<Live>) -> Result<(), ErrorBody> {
    match live.line.ask(|reply| Command::GiveUp { reply }).await? {
        // It has ended meanwhile, or does now.
        Answer::Ended | Answer::Given(true) => live.ended().await.map(drop),
        Answer::Given(false) => Err(may_start(&Entry::Live(Arc::clone(live)))),
    }
}

/// There is a box, and nobody knows what becomes of it.
pub(super) fn may_start(entry: &Entry) -> ErrorBody {
    let (id, name) = match entry {
        Entry::Live(live) => (live.id, live.name.to_string()),
        entry => (entry.id(), entry.id().to_string()),
    };
    let limit = START_LIMIT.as_secs();
    let message = format!(
        "the keeper of box `{name}` has not started it within {limit} s; it was told not to, and may have begun"
    );
    ErrorBody::new(ErrorCode::Unresponsive, message)
        .with_hint(format!("`min show {name}` tells what becomes of it, `min stop {name}` ends it"))
        .with_detail("box", id.to_string())
}

/// The box, if its start was cut short by the death of its daemon or keeper.
async fn interrupted(host: &Host, id: BoxId) -> Option<BoxId> {
    if let Some(Entry::Live(live)) = host.index.get(id)
        && live.view.borrow().is_last()
    {
        live.gone().await;
    }
    match host.index.get(id) {
        Some(Entry::Ended(ended)) if ended.interrupted => Some(id),
        _ => None,
    }
}

/// What is on disk and in memory of a new box.
struct Made {
    dir: BoxDir,
    record: Record,
    spec: Spec,
    keeper: Keeper,
}

pub(super) enum Keeper {
    Launched(Link, Option<KeeperProcess>),
    /// There is none, and the box's record says so.
    NotMade(Box<Record>),
    /// There may be one, to which there is no connection.
    Unknown,
}

/// The blocking half: directory, first event, keeper.
fn make(host: &Host, id: BoxId, spec: Spec, created: Created) -> Result<Made, ErrorBody> {
    pass("daemon.create.before_dir")?;
    host.launcher.prepare().map_err(|error| error.to_body())?;
    let ts = Timestamp::now();
    let ahead = host.blank_dirs.take(|_| true).and_then(|blank| {
        // One that somebody has removed, or a disk that has filled up since: seen, and told, below.
        host.state.create_box_in(blank, id, &spec, created.clone(), ts).ok()
    });
    let made = match ahead {
        Some(dir) => Ok(dir),
        None => host.state.create_box(id, &spec, created.clone(), ts),
    };
    let dir = made.map_err(|error| {
        let code = match error {
            CreateError::NoSpace { .. } => ErrorCode::NoSpace,
            CreateError::LongSpec { .. } => ErrorCode::InvalidSpec,
            CreateError::Io { ref source, .. }
                if source.raw_os_error().is_some_and(is_shortage) =>
            {
                ErrorCode::NoResources
            }
            CreateError::Exists { .. } | CreateError::Io { .. } => ErrorCode::Internal,
        };
        ErrorBody::new(code, Chain(&error).to_string())
    })?;
    let first = Event { seq: 1, ts, box_id: id, parent: None, data: EventData::Created(created) };
    let record = Record::begin(&first).expect("it was built as a first event");
    let points = ("daemon.create.after_dir", "daemon.create.after_launch");
    let keeper = launch(host, &dir, points);
    Ok(Made { dir, record, spec, keeper })
}

/// Has a keeper made for a box, with a fault point before and after.
pub(super) fn launch(
    host: &Host,
    dir: &BoxDir,
    (before, after): (&'static str, &'static str),
) -> Keeper {
    let failed = |attempt| move |error: io::Error| step_error(attempt, &error);
    let launched = hook::point(before)
        .map_err(failed("pass a fault point"))
        .and_then(|()| host.launcher.launch())
        .and_then(|Launched { connection, process }| match Link::new(connection) {
            Ok(link) => Ok((link, process)),
            Err(error) => Err(step_error("watch the keeper", &error)),
        })
        .and_then(|launched| match hook::point(after) {
            Ok(()) => Ok(launched),
            Err(error) => Err(step_error("pass a fault point", &error)),
        });
    match launched {
        Ok((link, process)) => Keeper::Launched(link, process),
        Err(error) => not_made(dir, &error, &host.boot_id),
    }
}

/// Where its creator has found what a box takes of the host.
fn sources(start: &StartOptions) -> Option<Sources> {
    let mounts: Vec<_> = start.mounts.iter().map(|found| found.path.clone()).collect();
    let rootfs = start.rootfs.as_ref().map(|found| found.path.clone());
    (!mounts.is_empty() || rootfs.is_some()).then_some(Sources { mounts, rootfs })
}

/// There is a directory but no connection to a keeper: the box's start has failed.
fn not_made(dir: &BoxDir, error: &LaunchError, boot_id: &str) -> Keeper {
    let errno = match error {
        LaunchError::Isolation { .. } => None,
        LaunchError::Step { errno, .. } => *errno,
    };
    let absence = Absence::NotMade { step: "make the keeper", message: error.to_string(), errno };
    match conclude(dir, &absence, boot_id) {
        Ok(Conclusion::Ended { record, .. }) => Keeper::NotMade(record),
        Ok(Conclusion::Alive(_)) => Keeper::Unknown,
        Err(error) => {
            tracing::error!(error = %Chain(&error), "a failed start cannot be written down");
            Keeper::Unknown
        }
    }
}

/// The digest of the spec; if the client has sent one, it must be the same.
fn check_digest(request: &CreateBox) -> Result<String, ErrorBody> {
    let ours = minimal_spec::digest(&request.spec);
    match &request.digest {
        Some(theirs) if *theirs != ours => {
            let message = format!(
                "the digest of the spec is {ours}, and the client says {}: it is not the spec that was meant",
                theirs.chars().take(80).collect::<String>()
            );
            let error = ErrorBody::new(ErrorCode::DigestMismatch, message);
            Err(error.with_detail("daemon", ours).with_detail("client", theirs.as_str()))
        }
        Some(_) | None => Ok(ours),
    }
}

/// What the caller has found must be for each mount of the spec, or not be said.
fn check_mounts(request: &CreateBox) -> Result<(), ErrorBody> {
    let (found, asked) = (&request.start.mounts, &request.spec.files.mounts);
    let wrong = |why: String| Err(ErrorBody::new(ErrorCode::BadRequest, why));
    if !found.is_empty() && found.len() != asked.len() {
        return wrong(format!(
            "start.mounts says what {} sources are, and the spec has {} mounts",
            found.len(),
            asked.len()
        ));
    }
    let is_absolute = |path: &[u8]| path.starts_with(b"/") && !path.contains(&0);
    let (patches, asked) = (&request.start.patches, &request.spec.files.patches);
    if !patches.is_empty() && patches.len() != asked.len() {
        return wrong(format!(
            "start.patches says what {} patches stand for, and the spec has {}",
            patches.len(),
            asked.len()
        ));
    }
    let mut patched = patches.iter().flatten();
    if !patched.all(|found| is_absolute(found.file.path.as_bytes())) {
        return wrong("start.patches has a path that is not absolute".to_owned());
    }
    match found.iter().position(|found| !is_absolute(found.path.as_bytes())) {
        Some(index) => wrong(format!("start.mounts[{index}].path is not an absolute path")),
        None => Ok(()),
    }
}

/// What tells a repeat from another request: everything but the values, which are not stored.
fn digest(request: &CreateBox) -> String {
    let body = serde_json::to_vec(&(&request.spec, &request.start));
    let body = body.expect("a spec has string keys only");
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A box that runs has the name.
pub(super) fn name_held(held: &NameHeld) -> ErrorBody {
    ErrorBody::new(ErrorCode::NameHeld, held.to_string())
        .with_hint("choose another name, or stop that box")
        .with_detail("holder", held.holder.to_string())
}

fn refusal(error: &AdmitError) -> ErrorBody {
    match error {
        AdmitError::Name(held) => name_held(held),
        AdmitError::KeyReused { id } => ErrorBody::new(ErrorCode::KeyReused, error.to_string())
            .with_detail("box", id.to_string()),
        AdmitError::IdTaken { .. } => ErrorBody::new(ErrorCode::Internal, error.to_string()),
    }
}

pub(super) fn pass(point: &'static str) -> Result<(), ErrorBody> {
    hook::point(point).map_err(|error| internal("pass a fault point", &error))
}

pub(super) fn internal(attempt: &str, error: &io::Error) -> ErrorBody {
    ErrorBody::new(ErrorCode::Internal, format!("{attempt}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_of_what_is_asked_for_and_not_of_the_values() {
        let request = CreateBox {
            digest: None,
            spec: Spec::task(vec!["sh".into(), "-c".into(), "true".into()]),
            values: std::collections::BTreeMap::default(),
            start: StartOptions::default(),
        };
        let mut with_value = request.clone();
        with_value.values.insert("TOKEN".into(), "x".into());
        assert_eq!(digest(&request), digest(&with_value));
        let mut other = request.clone();
        other.start.input = true;
        assert_ne!(digest(&request), digest(&other));
        assert_eq!(digest(&request).len(), 64);
    }
}
