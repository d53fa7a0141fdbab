//! A further life of a box that has ended: from its stored spec and its kept files, under its id and
//! name.
//!
//! ```text
//!  held in the index (name, no deletion) ─▶ both locks ─▶ generation ─▶ `resumed` ─▶ locks let go
//!      ─▶ keeper launched ─▶ started: as a box in its first life
//!                         └─▶ failed: `resume_failed`, and the box is what it was
//! ```
//!
//! Whatever dies on the way, the box is in its former state, or in that of a start which somebody
//! concludes: nobody holds its locks then, and the journal says which it is.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use minimal_linux::socket;
use minimal_proto::api::{HostFile, ResumeBox, StartOptions};
use minimal_proto::error::Chain;
use minimal_proto::event::{Resumed, Sources};
use minimal_proto::keeper::{Start, ToKeeper};
use minimal_proto::spec::Resume;
use minimal_proto::{BoxId, ErrorBody, ErrorCode, EventData, Spec, State, Timestamp};
use minimal_store::{BoxDir, JournalWriter, LifeLock, Record};
use tokio::time::Instant;

use super::actor::{Actor, Body};
use super::birth::{self, Keeper};
use super::{Ended, Facts, Flow, Live, View, first_sign, sealed_at, unsupported};
use crate::hooks;
use crate::host::Host;
use crate::index::{Entry, NameHeld, Resumable, Resumption};

/// How long the keeper of the former life may take to leave: it tells the ending before it cleans up.
const LEAVING_LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Resumes a box, and waits until it runs.
///
/// To be run in a task of its own: a client that leaves must not cut it short.
///
/// # Errors
/// It is as it was; or its keeper hangs.
pub(crate) async fn resume(
    host: Arc<Host>,
    id: BoxId,
    request: ResumeBox,
) -> Result<Entry, ErrorBody> {
    let pass = host.begin_birth()?;
    let (resumption, ended, spec) = loop {
        let entry = host
            .index
            .get(id)
            .ok_or_else(|| ErrorBody::new(ErrorCode::NotFound, format!("box {id} was removed")))?;
        match &entry {
            Entry::Broken(broken) => {
                let message = format!("box {id} cannot be read: {}", broken.reason);
                return Err(ErrorBody::new(ErrorCode::Broken, message));
            }
            Entry::Live(live) if live.view.borrow().is_last() => {
                let gone = tokio::time::timeout(LEAVING_LIMIT, live.gone()).await;
                gone.map_err(|_elapsed| {
                    live.line.whose.unresponsive("its end is still being written down")
                })?;
            }
            Entry::Live(live) => return joined(&entry, live, request.life).await,
            Entry::Ended(ended) if request.life.is_some_and(|life| life <= ended.lives) => {
                return Ok(entry);
            }
            Entry::Ended(ended) => {
                let spec = check(&host, ended, request.life).await?;
                match host.index.resume(id).map_err(|held| name_held(&held))? {
                    Resumable::Now(resumption, ended) => break (resumption, ended, spec),
                    // Whatever came of the other one is looked at anew.
                    Resumable::Soon(mut known) => while known.changed().await.is_ok() {},
                    Resumable::Not => {}
                }
            }
        }
    };
    let outcome = begin(Arc::clone(&host), (resumption, ended), spec, request).await;
    drop(pass);
    host.make_ahead();
    outcome
}

/// A box that runs has its name.
fn name_held(held: &NameHeld) -> ErrorBody {
    let hint = format!("stop that box: `min stop {}`", held.holder);
    birth::name_held(held).with_hint(hint)
}

/// The box lives: it is waited for until that is certain.
async fn joined(entry: &Entry, live: &Arc<Live>, life: Option<u32>) -> Result<Entry, ErrorBody> {
    if life.is_some_and(|life| life > live.life) {
        let message = format!("box `{}` runs, in its life {}", live.name, live.life);
        return Err(live.line.whose.error(ErrorCode::WrongState, message));
    }
    if birth::started(entry).await?.is_none() {
        return Err(birth::may_start(entry));
    }
    outcome(live).map(|()| entry.clone())
}

/// What came of a start.
fn outcome(live: &Live) -> Result<(), ErrorBody> {
    match failure(&live.view.borrow().record, live.life) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// That a life which was to begin has not, if so.
pub(super) fn failure(record: &Record, life: u32) -> Option<ErrorBody> {
    let failed = record.resume_failure.as_ref().filter(|_| record.lives < life)?;
    let why = failed.detail().get("message").and_then(serde_json::Value::as_str);
    let name = &record.name;
    let message = format!(
        "box `{name}` was not resumed, and is as it was: {}",
        why.unwrap_or("its start has failed")
    );
    let error = ErrorBody::new(ErrorCode::StartFailed, message)
        .with_detail("box", record.id.to_string())
        .with_detail("ending", serde_json::json!(failed));
    Some(error)
}

/// Whether a box may be resumed at all. Answers its spec.
async fn check(host: &Arc<Host>, ended: &Arc<Ended>, life: Option<u32>) -> Result<Spec, ErrorBody> {
    let (id, name) = (ended.id, &ended.name);
    let refused =
        |why: String| ErrorBody::new(ErrorCode::WrongState, why).with_detail("box", id.to_string());
    if ended.state == State::Failed {
        let why = format!("box `{name}` has never started, so that there is nothing to go on with");
        return Err(refused(why).with_hint(format!("`min show {name}` says why it did not start")));
    }
    if ended.reap_at.is_some() {
        let why = format!("box `{name}` was made to be removed once it has ended");
        return Err(refused(why).with_hint("without --rm a box is kept, and can be resumed"));
    }
    if life.is_some_and(|life| life > ended.lives.saturating_add(1)) {
        let lives = ended.lives;
        return Err(refused(format!("box `{name}` has had {lives} lives, and no more in between")));
    }
    let reading = Arc::clone(host);
    let read = tokio::task::spawn_blocking(move || {
        reading.state.box_dir(id).and_then(|dir| dir.read_spec())
    });
    let spec = read
        .await
        .expect("reading a spec does not panic")
        .map_err(|error| ErrorBody::new(ErrorCode::Broken, Chain(&error).to_string()))?;
    if spec.io.resume == Resume::Never {
        let why = format!("box `{name}` is never resumed: its spec says so (resume = \"never\")");
        return Err(refused(why).with_hint("`min run` makes a fresh box"));
    }
    Ok(spec)
}

/// Whether what this host has now is what the spec wants: as for a new box.
fn check_spec(ended: &Ended, spec: &Spec, request: &ResumeBox) -> Result<(), ErrorBody> {
    let name = &ended.name;
    let cannot = |code, why: &dyn std::fmt::Display| {
        ErrorBody::new(code, format!("box `{name}` cannot be resumed: {why}"))
            .with_detail("box", ended.id.to_string())
    };
    if let Some(digest) = ended.record().spec_digest
        && digest != minimal_spec::digest(spec)
    {
        return Err(cannot(
            ErrorCode::DigestMismatch,
            &"its stored spec is not the one that it was made from",
        ));
    }
    spec.check(request.values.iter()).map_err(|error| cannot(ErrorCode::InvalidSpec, &error))?;
    minimal_spec::check_root(spec).map_err(|violation| {
        cannot(ErrorCode::ConstraintViolation, &violation)
            .with_detail("key", violation.path.as_str())
            .with_detail("type", violation.type_name.as_str())
    })?;
    unsupported::check(spec)
}

async fn begin(
    host: Arc<Host>,
    (resumption, ended): (Resumption, Arc<Ended>),
    spec: Spec,
    request: ResumeBox,
) -> Result<Entry, ErrorBody> {
    check_spec(&ended, &spec, &request)?;
    let (id, life) = (ended.id, ended.lives.saturating_add(1));
    birth::pass("daemon.resume.before_lock")?;
    let Begun { dir, record, keeper } = write_down_once_free(&host, id, life).await?;
    tracing::info!(box_id = %id, box_name = %record.name, life, "resumed");
    if let Keeper::NotMade(former) = &keeper {
        return Err(failure(former, life).unwrap_or_else(|| {
            ErrorBody::new(ErrorCode::Internal, "no keeper was made, and nothing says why")
        }));
    }
    let ResumeBox { values, start, .. } = request;
    let name = record.name.clone();
    let options = options(&start, record.sources.clone());
    let generation = Some(record.generation);
    let mut flow = Flow::new(record.log_begin);
    flow.input_open = options.input;
    flow.pinned = options.pin;
    let body = Body { facts: Facts::from(&spec), dir, view: View::new(record), flow };
    let (actor, live) = Actor::new(Arc::clone(&host), body);
    let entry = Entry::Live(Arc::clone(&live));
    resumption.publish(entry.clone());
    match keeper {
        Keeper::Launched(link, process) => {
            let input = options.input;
            let start = Start { box_id: id, name, life, generation, spec, values, options };
            let start = ToKeeper::Start(Box::new(start));
            let link = first_sign::start(&host, id, (link, process), &start).await;
            actor.born(link, input);
        }
        // It finds out, and the wait below ends with what it finds.
        Keeper::NotMade(_) | Keeper::Unknown => actor.adopted(),
    }
    if birth::started(&entry).await?.is_none() {
        birth::give_up(&live).await?;
    }
    hooks::pass("daemon.resume.after_started")
        .await
        .map_err(|error| birth::internal("pass a fault point", &error))?;
    outcome(&live).map(|()| entry)
}

/// How to start it: from where the first life was.
fn options(start: &StartOptions, sources: Option<Sources>) -> StartOptions {
    let found = |path| HostFile { path, file: None };
    let (mounts, rootfs) = sources.map_or_else(Default::default, |it| (it.mounts, it.rootfs));
    let mounts = mounts.into_iter().map(found).collect();
    StartOptions { remove: false, mounts, rootfs: rootfs.map(found), ..start.clone() }
}

/// What is on disk of a box that is being resumed, and its keeper.
struct Begun {
    dir: BoxDir,
    record: Record,
    keeper: Keeper,
}

/// Begins the life on disk, and has a keeper made for it, once that of the former life has left.
async fn write_down_once_free(host: &Arc<Host>, id: BoxId, life: u32) -> Result<Begun, ErrorBody> {
    let until = Instant::now() + LEAVING_LIMIT;
    loop {
        let writing = Arc::clone(host);
        let begun = tokio::task::spawn_blocking(move || write_down(&writing, id, life));
        if let Some(begun) = begun.await.expect("resuming a box does not panic")? {
            return Ok(begun);
        }
        if Instant::now() >= until {
            let message = format!("the keeper of box {id} has told its ending, and does not leave");
            return Err(ErrorBody::new(ErrorCode::Unresponsive, message)
                .with_hint("a keeper that a signal has stopped goes on at SIGCONT")
                .with_detail("box", id.to_string()));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// The blocking half. None: somebody is still there.
fn write_down(host: &Host, id: BoxId, life: u32) -> Result<Option<Begun>, ErrorBody> {
    host.launcher.prepare().map_err(|error| error.to_body())?;
    let broken = |error: &(dyn std::error::Error + 'static)| {
        ErrorBody::new(ErrorCode::Broken, Chain(error).to_string())
            .with_detail("box", id.to_string())
    };
    let dir = host.state.box_dir(id).map_err(|error| broken(&error))?;
    let lock = LifeLock::open(&dir).map_err(|error| broken(&error))?;
    // The lock's file may have been replaced, so that a lock which nobody holds says little.
    if !lock.try_both().map_err(|error| broken(&error))?
        || socket::is_listening(dir.dir_fd(), minimal_keeper::SOCKET)
            .map_err(|error| broken(&error))?
    {
        return Ok(None);
    }
    let mut journal = JournalWriter::open(&dir).map_err(|error| broken(&error))?;
    let former = journal.record();
    let Some(ending) = former.ending.clone() else {
        return Err(ErrorBody::new(ErrorCode::WrongState, format!("box {id} has no ending")));
    };
    let files = minimal_store::figures(&dir).map_err(|error| broken(&error))?;
    let log_begin = sealed_at(former, files).bytes.max(files.bytes);
    let generation = former.generation.saturating_add(1);
    // A keeper of a former try that was held up until now finds out by the generation that it is too
    // late. So that comes before there is a life for it to begin.
    lock.mark_not_begun().map_err(|error| broken(&error))?;
    dir.write_generation(generation).map_err(|error| unwritten(&error))?;
    birth::pass("daemon.resume.after_generation")?;
    let resumed = Resumed { life, log_begin, former: ending.without_detail() };
    journal
        .append(EventData::Resumed(resumed), Timestamp::now())
        .map_err(|error| unwritten(&error))?;
    let record = journal.record().clone();
    // In this order: the keeper takes the lock.
    drop((journal, lock));
    let points = ("daemon.resume.after_journal", "daemon.resume.after_launch");
    let keeper = birth::launch(host, &dir, points);
    Ok(Some(Begun { dir, record, keeper }))
}

/// Something cannot be written: for want of space, if the kernel says so.
fn unwritten(error: &(dyn std::error::Error + 'static)) -> ErrorBody {
    let is_full = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    };
    let full = error.source().and_then(|source| source.downcast_ref()).is_some_and(is_full);
    let code = if full { ErrorCode::NoSpace } else { ErrorCode::Internal };
    ErrorBody::new(code, Chain(error).to_string())
}
