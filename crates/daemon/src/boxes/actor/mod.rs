//! The actor of one box: the only owner of the connection to its keeper.
//!
//! ```text
//!  born, with a connection ─────────▶ serve ──── `ended` ───────────────▶ finish
//!                                     ▲   │                                 ▲
//!  adopted ─▶ connect, 3 s ─ hello ───┘   └─ end of file, fault ─▶ conclude ┤ an ending is on disk
//!              ▲      │                                               │
//!              │      └── nobody answers ────────────────────────────▶│
//!              └──────── wait ◀──────────────── somebody holds a lock ┘  (unresponsive)
//! ```
//!
//! What it may tell, it publishes as a [`View`]. It does no blocking work itself, and it waits for
//! nothing without a limit.

mod serve;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use minimal_proto::api::LogFigures;
use minimal_proto::error::Chain;
use minimal_proto::keeper::{FromKeeper, Hello};
use minimal_proto::{BoxId, ErrorBody, ErrorCode, Event, EventData, State};
use minimal_store::{BoxDir, Denied, JournalReader, Record};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::conclude::{Absence, ConcludeError, Conclusion, clean_up_after, conclude};
use super::execs::{self, Execs};
use super::facts::Facts;
use super::flow::{Flow, Outcome};
use super::line::{Line, Whose};
use super::link::{Link, LinkError};
use super::live::Live;
use super::resume;
use super::serving::Serving;
use super::view::{Fate, View};
use super::{Ended, sealed_at};
use crate::hooks;
use crate::host::Host;
use crate::index::Entry;

/// How long a keeper may take to answer a connection with its hello.
pub(super) const HELLO_LIMIT: Duration = Duration::from_secs(3);

/// How long after the end a keeper has surely cleaned up after its box, if it lives.
const CLEANED_UP: Duration = Duration::from_secs(1);

/// Waits between looks at a box that somebody holds but nobody answers for. The first are short: the
/// init of a keeper that was killed takes some milliseconds to follow it, and a keeper that is giving
/// birth does not listen yet. Only who is still there after all of them does not answer.
pub(super) const LOOK_AGAIN: [Duration; 6] = [
    Duration::from_millis(5),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
];

/// The actor of one box.
#[derive(Debug)]
pub(crate) struct Actor {
    host: Arc<Host>,
    live: Arc<Live>,
    view: watch::Sender<View>,
    serving: Serving,
}

/// How a connection to a keeper came to its end.
#[derive(Debug)]
enum Parting {
    /// The keeper said that the box has ended.
    Ended,
    /// It is gone, or of no use, without that.
    Vanished(LinkError),
}

/// What became of a box without a connection to its keeper.
enum Look {
    /// It has ended, and its ending is on disk.
    Ended,
    /// Its directory is gone, and with it everything that could be known.
    Removed,
    /// Somebody is there, or nothing could be found out.
    Open,
}

/// What an actor is made of.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) facts: Facts,
    pub(crate) dir: BoxDir,
    pub(crate) view: View,
    pub(crate) flow: Flow,
}

impl Actor {
    /// Makes the actor of a box, and the handle by which others reach it.
    pub(crate) fn new(host: Arc<Host>, body: Body) -> (Self, Arc<Live>) {
        host.live.fetch_add(1, Ordering::Relaxed);
        let (id, name) = (body.view.id(), body.view.record.name.clone());
        let life = body.view.record.life();
        let tty = body.facts.tty;
        let whose = Whose { box_id: id, name: name.clone(), exec: None, tty };
        let (line, end) = Line::new(whose, body.flow);
        let (view, published) = watch::channel(body.view);
        let live = Arc::new(Live {
            id,
            name,
            life,
            facts: body.facts,
            dir: Arc::new(body.dir),
            view: published,
            line: Arc::clone(&line),
            execs: Execs::default(),
        });
        let serving = Serving::new(line, end, true);
        let actor = Self { host, live: Arc::clone(&live), view, serving };
        (actor, live)
    }

    /// Runs the actor of a box that was just launched, over its first connection.
    pub(crate) fn born(mut self, link: Link, takes_input: bool) {
        self.serving.creator_expected = takes_input;
        self.spawn(Some(link));
    }

    /// Runs the actor of a box that was found on disk.
    pub(crate) fn adopted(self) {
        self.spawn(None);
    }

    fn spawn(self, link: Option<Link>) {
        let span = tracing::info_span!("box", box_id = %self.live.id, box_name = %self.live.name);
        tokio::spawn(self.run(link).instrument(span));
    }

    async fn run(mut self, mut link: Option<Link>) {
        let mut looks = 0;
        let look = loop {
            let parting = match link.take() {
                Some(link) => self.serve(link).await,
                None => match self.connect().await {
                    Ok(connected) => {
                        looks = 0;
                        link = Some(connected);
                        continue;
                    }
                    Err(error) => Parting::Vanished(error),
                },
            };
            self.serving.leave_seats();
            match &parting {
                Parting::Ended if self.has_ending() || self.read_journal().await => {
                    break Look::Ended;
                }
                Parting::Ended => tracing::error!("the keeper told an ending that is not on disk"),
                Parting::Vanished(error) if looks == 0 => {
                    tracing::info!(error = %Chain(error), "no connection to the keeper");
                }
                Parting::Vanished(_) => {}
            }
            let silent = matches!(parting, Parting::Vanished(LinkError::Silent));
            match self.conclude(silent || looks >= LOOK_AGAIN.len()).await {
                Look::Open => {}
                look => break look,
            }
            self.serving.link_lost();
            let pause = LOOK_AGAIN[looks.min(LOOK_AGAIN.len() - 1)];
            looks += 1;
            self.answer_without_keeper(pause).await;
            self.serving.expire_requests();
        };
        match look {
            Look::Removed => self.give_up(),
            Look::Ended | Look::Open => self.finish().await,
        }
    }

    async fn connect(&mut self) -> Result<Link, LinkError> {
        hooks::pass("daemon.adopt.before_connect").await.map_err(LinkError::Io)?;
        let live = Arc::clone(&self.live);
        let greeting = async {
            let mut link = Link::connect(&live.dir).await.map_err(LinkError::Io)?;
            let hello = link.hello(live.id).await?;
            Ok((link, hello))
        };
        let (link, hello) =
            tokio::time::timeout(HELLO_LIMIT, greeting).await.unwrap_or(Err(LinkError::Silent))?;
        self.greeted(&hello, true);
        // Events from before the hello are on disk only.
        self.read_journal().await;
        tracing::info!(keeper = hello.pid, life = hello.life, "adopted");
        Ok(link)
    }

    /// Takes over what a keeper says of itself, on a `new` connection or again.
    fn greeted(&mut self, hello: &Hello, new: bool) {
        let received = hello.input_received.unwrap_or(hello.input_offset);
        self.serving.begin(received, hello.input_writer, new);
        if let Some(ids) = hello.execs.clone().filter(|ids| !ids.is_empty()) {
            tokio::spawn(execs::join_all(Arc::clone(&self.live), ids));
        }
        let unsaved = hello.unsaved_ending.as_ref().map(|ending| {
            let reason = ending.reason();
            tracing::error!(%reason, "the ending cannot be written to disk");
            format!("it has ended ({reason}), and its keeper cannot write that to disk yet").into()
        });
        self.serving.end.flow.send_modify(|flow| flow.greeted(hello));
        self.view.send_modify(|view| {
            view.fault = None;
            view.unsaved = unsaved;
        });
    }

    /// Applies an event that the keeper has appended.
    async fn apply(&mut self, event: &Event) {
        let mut outcome = Ok(());
        self.view.send_if_modified(|view| {
            outcome = Arc::make_mut(&mut view.record).apply(event);
            outcome.is_ok()
        });
        match outcome {
            Ok(()) => self.tell_readers(),
            // It was read from disk already.
            Err(Denied::SeqGap { expected, found }) if found < expected => {}
            Err(denied) => {
                tracing::warn!(%denied, "an event does not follow; the journal is read again");
                self.read_journal().await;
            }
        }
        if let EventData::Started(started) = &event.data {
            tracing::info!(keeper = started.keeper_pid, life = started.life, "started");
        }
    }

    /// Has those who read the log told that nothing may follow though the box runs.
    fn tell_readers(&self) {
        let notice = notice(&self.view.borrow().record, &self.live);
        self.serving.end.flow.send_if_modified(|flow| {
            let is_new = flow.notice.as_deref() != notice.as_deref();
            flow.notice = notice.map(Arc::from);
            is_new
        });
    }

    /// Reads the record from disk. Whether it holds an ending.
    async fn read_journal(&mut self) -> bool {
        let dir = Arc::clone(&self.live.dir);
        let read = move || -> Result<(Record, _), ReadError> {
            let record = Record::fold(&JournalReader::open(&dir)?.read_new()?)?;
            let log = record.ending.is_some().then(|| minimal_store::figures(&dir));
            Ok((record, log))
        };
        match tokio::task::spawn_blocking(read).await.expect("reading a journal does not panic") {
            Ok((record, log)) => {
                let ended = record.ending.is_some();
                if let Some(Ok(log)) = log {
                    let end = sealed_at(&record, log).bytes;
                    self.serving.end.flow.send_modify(|flow| flow.log_end = flow.log_end.max(end));
                }
                self.view.send_modify(|view| view.record = Arc::new(record));
                self.tell_readers();
                ended
            }
            Err(error) => {
                tracing::error!(error = %Chain(&error), "the journal cannot be read");
                false
            }
        }
    }

    /// With no connection to a keeper: learns from the disk, and from who holds the locks, whether
    /// the box has ended. `patience_is_over`: who is there and does not answer is at fault.
    async fn conclude(&mut self, patience_is_over: bool) -> Look {
        let fault = match self.conclude_as(Absence::Gone).await {
            Ok(Conclusion::Ended { record, log, written }) => {
                if written {
                    tracing::warn!("nobody saw the box end: its keeper is gone");
                }
                self.take_over(*record, log);
                return Look::Ended;
            }
            Ok(Conclusion::Alive(_)) if !patience_is_over => return Look::Open,
            Ok(Conclusion::Alive(holders)) if holders.keeper => {
                "its keeper holds its lock but does not answer".to_owned()
            }
            Ok(Conclusion::Alive(_)) => {
                "its keeper is gone, and its processes are not yet".to_owned()
            }
            Err(_) if !self.live.dir.is_linked() => return Look::Removed,
            Err(error) => describe(&error),
        };
        if self.view.borrow().fault.as_deref() != Some(fault.as_str()) {
            tracing::warn!(fault, "unresponsive");
            self.view.send_modify(|view| view.fault = Some(fault.into()));
        }
        Look::Open
    }

    /// Calls [`conclude`], which blocks. An actor is the only one who does for its box.
    async fn conclude_as(&self, absence: Absence) -> Result<Conclusion, ConcludeError> {
        let (dir, boot_id) = (Arc::clone(&self.live.dir), self.host.boot_id.clone());
        let concluded = tokio::task::spawn_blocking(move || conclude(&dir, &absence, &boot_id));
        concluded.await.expect("concluding does not panic")
    }

    /// Takes over a record with an ending, as it is on disk.
    fn take_over(&mut self, record: Record, log: LogFigures) {
        let end = sealed_at(&record, log).bytes;
        self.serving.end.flow.send_modify(|flow| flow.log_end = end);
        self.view.send_modify(|view| view.record = Arc::new(record));
    }

    /// There is no box any more, and nobody who could say how it ended.
    fn give_up(mut self) {
        tracing::error!("the box's directory was deleted while it ran");
        drop(self.host.index.remove(self.live.id));
        self.host.live.fetch_sub(1, Ordering::Relaxed);
        self.serving.finish(Outcome::Unknown(Arc::new(self.live.removed())));
        self.view.send_modify(|view| view.fate = Fate::Removed);
    }

    /// Publishes the ending and hands the box to the index.
    async fn finish(mut self) {
        let record = Arc::clone(&self.view.borrow().record);
        let ending = record.ending.clone().expect("the actor finishes with an ending");
        // That of a former life is not this one's.
        let outcome = match resume::failure(&record, self.live.life) {
            Some(error) => {
                tracing::warn!(error = error.message, "not resumed");
                Outcome::Unknown(Arc::new(error))
            }
            None => {
                tracing::info!(
                    reason = %ending.reason(),
                    exit_code = ending.exit_code(),
                    signal = ending.signal().map(tracing::field::display),
                    "ended",
                );
                Outcome::Ended(Arc::new(ending))
            }
        };
        self.serving.finish(outcome);
        self.view.send_modify(|view| {
            view.fate = Fate::Sealed;
            view.fault = None;
            view.unsaved = None;
        });
        let view = self.view.borrow().clone();
        let dir = Arc::clone(&self.live.dir);
        let files = tokio::task::spawn_blocking(move || minimal_store::figures(&dir));
        let files = files.await.expect("looking at a log does not panic").unwrap_or_default();
        let log = sealed_at(&view.record, files);
        let ended = Ended::new(&view.record, &self.live.facts, log, &self.host.name);
        let ended = Arc::new(ended.expect("the actor finishes with an ending"));
        self.host.index.put(Entry::Ended(Arc::clone(&ended)));
        self.host.live.fetch_sub(1, Ordering::Relaxed);
        self.host.reap_later(&ended);
        let (dir, host) = (Arc::clone(&self.live.dir), Arc::clone(&self.host));
        tokio::spawn(async move {
            // Whichever comes first: a daemon that leaves does not leave it to the next.
            drop(tokio::time::timeout(CLEANED_UP, host.asked_to_leave()).await);
            tokio::task::spawn_blocking(move || clean_up_after(&dir, &view.record));
        });
        // Dropping the view's sender tells those who wait for this actor to be gone.
    }

    fn has_ending(&self) -> bool {
        self.view.borrow().record.ending.is_some()
    }
}

/// A journal cannot be read as one.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Journal(#[from] minimal_store::JournalError),
    #[error("fold the journal")]
    Fold(#[from] Denied),
}

fn describe(error: &ConcludeError) -> String {
    format!("its keeper is gone, and its ending cannot be written: {}", Chain(error))
}

impl Link {
    /// Waits for the first message on a connection.
    pub(super) async fn hello(&mut self, id: BoxId) -> Result<Hello, LinkError> {
        match self.next().await? {
            FromKeeper::Hello(hello) if hello.box_id == id => Ok(hello),
            FromKeeper::Hello(_) => Err(LinkError::Stranger),
            _ => Err(LinkError::NoHello),
        }
    }
}

/// What there is to say of a box whose entrypoint does not run.
fn notice(record: &Record, live: &Live) -> Option<String> {
    let name = &live.name;
    let ends = format!("`min stop {name}` ends it");
    if record.state != State::Running {
        None
    } else if !live.facts.has_entrypoint() {
        Some(format!("Box {name} has no command of its own, and runs on: {ends}."))
    } else {
        let returned =
            record.entrypoint.returned.as_ref().filter(|_| !record.entrypoint.runs_again)?;
        let how = match (returned.exit_code(), returned.signal()) {
            (Some(code), _) => format!("returned {code}"),
            (None, Some(signal)) => format!("was ended by {signal}"),
            (None, None) => "has ended".to_owned(),
        };
        Some(format!("The command of box {name} {how}. The box runs on: {ends}."))
    }
}

/// What is said while there is no keeper to ask.
fn no_keeper(live: &Live, view: &View) -> ErrorBody {
    let why = view.fault.as_deref().unwrap_or("it is being looked for");
    ErrorBody::new(
        ErrorCode::Unresponsive,
        format!("the keeper of box `{}` cannot be reached: {why}", live.name),
    )
    .with_detail("box", live.id.to_string())
}
