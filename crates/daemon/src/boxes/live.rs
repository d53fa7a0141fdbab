//! A box that has not ended, as the daemon holds it: a view to read, and a way to ask its actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use minimal_proto::{BoxId, BoxName, Ending, ErrorBody, ErrorCode, Signal};
use minimal_store::BoxDir;
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::facts::Facts;
use super::seats::{PinSeat, WriterSeat};
use super::view::{Fate, View};

/// How long a question to an actor may take before the box counts as unresponsive. An actor answers
/// at once, except while it looks for its keeper, which takes at most three seconds.
const ASK_LIMIT: Duration = Duration::from_secs(20);

/// How many questions may wait for an actor; more of them wait outside.
pub(crate) const COMMANDS: usize = 32;

/// A box with an actor.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: BoxId,
    /// Its name, which does not change while it lives.
    pub(crate) name: BoxName,
    pub(crate) facts: Facts,
    pub(crate) dir: Arc<BoxDir>,
    pub(crate) view: watch::Receiver<View>,
    pub(crate) commands: mpsc::Sender<Command>,
    /// How many clients read its log as it grows.
    pub(crate) readers: AtomicUsize,
}

/// What an actor is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    /// End the box. Answered once its keeper has recorded it.
    Stop { force: bool, grace_ms: Option<u64>, reply: Reply },
    /// Give up its start. Refused once it runs.
    Cancel { reply: Reply },
    /// Send a signal.
    Signal { signal: Signal, group: bool, reply: Reply },
    /// Become the one writer of its input. Answered by no seat if it takes none.
    Write { client: Option<Uuid>, reply: WriteReply },
    /// Become the one client its log is pinned for.
    Pin { client: Option<Uuid>, from: u64, reply: oneshot::Sender<Option<PinSeat>> },
    /// Do not start it any more. Answered by whether it is certain that it will not.
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
    /// The box ended first.
    Ended,
}

impl Live {
    /// Asks the actor and waits for the answer, or the box's end.
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
            .map_err(|_elapsed| self.unresponsive("it has not taken up the request"))
    }

    /// Waits until a view satisfies the condition, or the last one is there, and returns it.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&View) -> bool) -> View {
        let mut view = self.view.clone();
        match view.wait_for(condition).await {
            Ok(view) => return view.clone(),
            // The actor is gone: what it published last is what there is.
            Err(_closed) => {}
        }
        view.borrow().clone()
    }

    /// Waits for the ending.
    ///
    /// # Errors
    /// There will be none: the box's directory was deleted, or the daemon is leaving.
    pub(crate) async fn ended(&self) -> Result<(View, Ending), ErrorBody> {
        let view = self.wait_for(View::is_last).await;
        match view.ending().cloned() {
            Some(ending) => Ok((view, ending)),
            None => Err(self.no_ending(&view)),
        }
    }

    /// Why there is no ending though nothing will follow.
    pub(crate) fn no_ending(&self, view: &View) -> ErrorBody {
        if view.fate != Fate::Removed {
            return ErrorBody::new(ErrorCode::SteppingDown, "the daemon is leaving");
        }
        let name = &self.name;
        let message = format!("the directory of box `{name}` was deleted while it ran");
        ErrorBody::new(ErrorCode::ExitUnknown, message)
            .with_hint("remove boxes with `min rm`, which ends them first")
            .with_detail("box", self.id.to_string())
    }

    /// Waits until the actor has left the box to the index.
    pub(crate) async fn gone(&self) {
        let mut view = self.view.clone();
        while view.changed().await.is_ok() {}
    }

    /// Becomes the writer of the box's input, if it takes any.
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

    /// Becomes the client the box's log is pinned for, if it still is for anyone.
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

    /// Asks the actor to look after its keeper, without waiting.
    pub(crate) fn probe(&self) {
        // A full queue has an actor that is busy with its keeper as it is.
        drop(self.commands.try_send(Command::Probe));
    }

    /// Counts the caller among the readers until the guard is dropped.
    pub(crate) fn reading(self: &Arc<Self>) -> Reading {
        if self.readers.fetch_add(1, Ordering::AcqRel) == 0 {
            drop(self.commands.try_send(Command::Reading));
        }
        Reading(Arc::clone(self))
    }

    pub(crate) fn unresponsive(&self, why: &str) -> ErrorBody {
        ErrorBody::new(
            ErrorCode::Unresponsive,
            format!("the keeper of box `{}` does not answer: {why}", self.name),
        )
        .with_detail("box", self.id.to_string())
    }
}

/// That somebody reads a box's log.
#[derive(Debug)]
pub(crate) struct Reading(Arc<Live>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, Ordering::AcqRel);
    }
}
