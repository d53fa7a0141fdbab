//! The line to whoever serves the streams of a box or of an exec: a flow to read, commands to send.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use minimal_proto::{BoxId, BoxName, Ending, ErrorBody, ErrorCode, ExecId, Signal, TerminalSize};
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::flow::{Flow, Outcome};
use super::seats::{PinSeat, WriterSeat};

/// How long a question to an actor may take before the box counts as unresponsive. An actor answers
/// at once, except while it looks for its keeper, which takes at most three seconds.
const ASK_LIMIT: Duration = Duration::from_secs(20);

/// How many questions may wait for an actor; more of them wait outside.
pub(super) const COMMANDS: usize = 32;

/// Whose streams they are.
#[derive(Clone, Debug)]
pub(crate) struct Whose {
    pub(crate) box_id: BoxId,
    /// The box's name, which does not change while it lives.
    pub(crate) name: BoxName,
    /// Those of this exec in it; none: the box's own.
    pub(crate) exec: Option<ExecId>,
    /// Whether they are a terminal.
    pub(crate) tty: bool,
}

/// A line to an actor.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) whose: Whose,
    pub(crate) flow: watch::Receiver<Flow>,
    pub(crate) commands: mpsc::Sender<Command>,
    /// How many clients read the log as it grows.
    readers: AtomicUsize,
    /// Which sizes its terminal was given, each from an offset of the log on.
    sizes: Mutex<Vec<(u64, TerminalSize)>>,
}

/// How many sizes of a terminal are kept: the last ones. A window that is drawn larger has many in a
/// second, of which hardly any has output of its own.
const SIZES: usize = 64;

/// The actor's end of a line.
#[derive(Debug)]
pub(super) struct LineEnd {
    pub(super) flow: watch::Sender<Flow>,
    pub(super) commands: mpsc::Receiver<Command>,
}

/// What an actor is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    /// End it. Answered once its keeper has recorded that.
    Stop { force: bool, grace_ms: Option<u64>, reply: Reply },
    /// Give up a box's start. Refused once it runs.
    Cancel { reply: Reply },
    /// Have a box stand still, or go on.
    Pause { still: bool, reply: Reply },
    /// Send a signal.
    Signal { signal: Signal, group: bool, reply: Reply },
    /// Give its terminal a size.
    Resize(TerminalSize),
    /// Become the one writer of its input: of a terminal, in place of whoever is. Answered by no seat if
    /// it takes none.
    Write { client: Option<Uuid>, reply: WriteReply },
    /// Become the one client its log is pinned for.
    Pin { client: Option<Uuid>, from: u64, reply: oneshot::Sender<Option<PinSeat>> },
    /// Do not start a box any more. Answered by whether it is certain that it will not.
    GiveUp { reply: oneshot::Sender<bool> },
    /// Make sure that its keeper answers, unless it just has.
    Probe,
    /// Somebody reads the log: announce its growth at once.
    Reading,
}

/// Where the answer to a request goes.
pub(crate) type Reply = oneshot::Sender<Result<(), ErrorBody>>;

/// Where the answer to a wish to write goes.
pub(crate) type WriteReply = oneshot::Sender<Result<Option<WriterSeat>, ErrorBody>>;

/// What came of a question.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    /// This.
    Given(T),
    /// It ended first.
    Ended,
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exec {
            Some(exec) => write!(f, "exec {} of box `{}`", exec.short(), self.name),
            None => write!(f, "box `{}`", self.name),
        }
    }
}

impl Whose {
    /// An error about it.
    pub(crate) fn error(&self, code: ErrorCode, message: impl Into<String>) -> ErrorBody {
        let error = ErrorBody::new(code, message).with_detail("box", self.box_id.to_string());
        match self.exec {
            Some(exec) => error.with_detail("exec", exec.to_string()),
            None => error,
        }
    }

    pub(crate) fn unresponsive(&self, why: &str) -> ErrorBody {
        let message = match self.exec {
            Some(_) => format!("the keeper of {self} does not answer: {why}"),
            None => format!("the keeper of box `{}` does not answer: {why}", self.name),
        };
        self.error(ErrorCode::Unresponsive, message)
    }

    pub(crate) fn has_ended(&self) -> ErrorBody {
        self.error(ErrorCode::WrongState, format!("{self} has ended"))
    }
}

impl Line {
    /// A line, and the actor's end of it.
    pub(super) fn new(whose: Whose, flow: Flow) -> (Arc<Self>, LineEnd) {
        let (command_sender, commands) = mpsc::channel(COMMANDS);
        let (flow, published) = watch::channel(flow);
        let line = Self {
            whose,
            flow: published,
            commands: command_sender,
            readers: 0.into(),
            sizes: Mutex::default(),
        };
        (Arc::new(line), LineEnd { flow, commands })
    }

    /// Asks the actor and waits for the answer, or the end.
    ///
    /// # Errors
    /// No answer in time.
    pub(crate) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<Answer<T>, ErrorBody> {
        let (reply, answer) = oneshot::channel();
        let asked = async {
            if self.commands.send(command(reply)).await.is_err() {
                return Answer::Ended;
            }
            // An actor that ends leaves questions unanswered.
            answer.await.map_or(Answer::Ended, Answer::Given)
        };
        tokio::time::timeout(ASK_LIMIT, asked)
            .await
            .map_err(|_elapsed| self.whose.unresponsive("it has not taken up the request"))
    }

    /// Waits for the ending.
    ///
    /// # Errors
    /// There will be none: nobody can say it, or the daemon is leaving.
    pub(crate) async fn ended(&self) -> Result<Arc<Ending>, ErrorBody> {
        let mut flow = self.flow.clone();
        // An actor that is gone has said last what there is.
        let outcome = match flow.wait_for(|flow| !flow.is_open()).await {
            Ok(flow) => flow.outcome.clone(),
            Err(_closed) => self.flow.borrow().outcome.clone(),
        };
        match outcome {
            Outcome::Ended(ending) => Ok(ending),
            Outcome::Unknown(error) => Err((*error).clone()),
            Outcome::Open => Err(ErrorBody::new(ErrorCode::SteppingDown, "the daemon is leaving")),
        }
    }

    /// Becomes the writer of the input, if any is taken.
    ///
    /// # Errors
    /// Another client is; or the keeper cannot be asked.
    pub(crate) async fn seat_writer(
        &self,
        client: Option<Uuid>,
    ) -> Result<Option<WriterSeat>, ErrorBody> {
        match self.ask(|reply| Command::Write { client, reply }).await? {
            Answer::Given(seat) => seat,
            Answer::Ended => Ok(None),
        }
    }

    /// Becomes the client the log is pinned for, if it still is for anyone.
    ///
    /// # Errors
    /// The keeper cannot be asked.
    pub(crate) async fn seat_pin(
        &self,
        client: Option<Uuid>,
        from: u64,
    ) -> Result<Option<PinSeat>, ErrorBody> {
        match self.ask(|reply| Command::Pin { client, from, reply }).await? {
            Answer::Given(seat) => Ok(seat),
            Answer::Ended => Ok(None),
        }
    }

    /// Gives its terminal a size.
    pub(crate) async fn resize(&self, size: TerminalSize) {
        self.note_size(size);
        // An actor that is gone has no terminal.
        self.commands.send(Command::Resize(size)).await.ok();
    }

    /// Notes which size its terminal has from here on.
    pub(crate) fn note_size(&self, size: TerminalSize) {
        let at = self.flow.borrow().log_end;
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.retain(|(offset, _)| *offset < at);
        if sizes.last().is_none_or(|(_, last)| *last != size) {
            if sizes.len() == SIZES {
                sizes.remove(0);
            }
            sizes.push((at, size));
        }
    }

    /// Which sizes its terminal has had, each from an offset of the log on, as far as that is known.
    pub(crate) fn sizes(&self) -> Vec<(u64, TerminalSize)> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the actor to look after its keeper, without waiting.
    pub(crate) fn probe(&self) {
        // A full queue has an actor that is busy with its keeper as it is.
        drop(self.commands.try_send(Command::Probe));
    }

    /// Whether anybody reads the log as it grows.
    pub(super) fn is_read(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Counts the caller among the readers until the guard is dropped.
    pub(crate) fn reading(self: &Arc<Self>) -> Reading {
        if self.readers.fetch_add(1, Ordering::AcqRel) == 0 {
            drop(self.commands.try_send(Command::Reading));
        }
        Reading(Arc::clone(self))
    }
}

/// That somebody reads a log.
#[derive(Debug)]
pub(crate) struct Reading(Arc<Line>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::AcqRel);
    }
}
