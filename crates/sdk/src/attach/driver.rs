//! The task that owns an attach's connection.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::connection::{Attached, Closed, Connection, Incoming};
use super::handle::{Command, Commands};
use super::session::{After, Outgoing, Session};
use super::{AttachOptions, StreamError, StreamEvent};
use crate::backoff::Backoff;
use crate::{CallError, Client, Subject};

/// How long a daemon may take to hear what was typed before a detach, and to answer it, before the client leaves
/// anyway.
const DETACH_LIMIT: Duration = Duration::from_secs(2);

type Last = Result<StreamEvent, StreamError>;

#[derive(Debug)]
pub(super) struct Driver {
    client: Client,
    subject: Subject,
    options: AttachOptions,
    identity: Uuid,
    events: mpsc::Sender<Last>,
    commands: Commands,
    handles_gone: bool,
    leave_by: Option<Instant>,
    backoff: Backoff,
}

/// One thing that happens.
enum Step {
    Command(Option<Command>),
    Incoming(Result<Incoming, Closed>),
    Delivered,
    ConsumerGone,
    LeaveNow,
}

/// How a connection was used up.
enum Served {
    /// The stream is over; `None` if nobody wants to know.
    Over(Option<Last>),
    /// The connection is of no further use; the box is another matter.
    Closed { since: Instant },
}

impl Driver {
    pub(super) fn new(
        client: Client,
        subject: Subject,
        options: AttachOptions,
        identity: Uuid,
        events: mpsc::Sender<Last>,
        commands: Commands,
    ) -> Self {
        let backoff = Backoff::new(options.retry);
        Self {
            client,
            subject,
            options,
            identity,
            events,
            commands,
            handles_gone: false,
            leave_by: None,
            backoff,
        }
    }

    pub(super) async fn run(mut self, connection: Connection, attached: Attached) {
        let window = std::sync::Arc::clone(&self.commands.window);
        let mut session = Session::new(&self.options, &attached, window);
        if let Some(last) = self.drive(&mut session, connection, attached).await {
            // The consumer may have left.
            drop(self.events.send(last).await);
        }
    }

    async fn drive(
        &mut self,
        session: &mut Session,
        mut connection: Connection,
        mut attached: Attached,
    ) -> Option<Last> {
        loop {
            session.begin(&attached);
            let since = match self.serve(session, connection).await {
                Served::Over(last) => return last,
                Served::Closed { since } => since,
            };
            if session.is_detaching() && session.input_waiting() == 0 {
                return Some(Ok(StreamEvent::Detached));
            }
            self.backoff.lost(since);
            // A consumer that is busy has enough to do; this is for one that waits.
            drop(self.events.try_send(Ok(StreamEvent::Lost)));
            (connection, attached) = match self.reconnect(session).await {
                Ok(open) => open,
                Err(last) => return last,
            };
            drop(self.events.try_send(Ok(StreamEvent::Resumed)));
        }
    }

    async fn serve(&mut self, session: &mut Session, mut connection: Connection) -> Served {
        let since = connection.since;
        loop {
            if let Some(last) = session.take_last() {
                return Served::Over(Some(last));
            }
            let (has_event, handles_gone) = (session.has_event(), self.handles_gone);
            let leave_by = self.leave_by;
            let step = tokio::select! {
                command = self.commands.receiver.recv(), if !handles_gone => Step::Command(command),
                room = self.events.reserve(), if has_event => match room {
                    Ok(room) => {
                        if let Some(event) = session.take_event() {
                            room.send(Ok(event));
                        }
                        Step::Delivered
                    }
                    Err(_closed) => Step::ConsumerGone,
                },
                incoming = poll_fn(|cx| poll_exchange(cx, &mut connection, session)) => {
                    Step::Incoming(incoming)
                }
                () = self.events.closed() => Step::ConsumerGone,
                () = leave(leave_by) => Step::LeaveNow,
            };
            match step {
                Step::Command(command) => self.command(session, command),
                Step::Delivered => {}
                Step::Incoming(Ok(incoming)) => {
                    let after = session.incoming(incoming);
                    // Who has lost the keyboard does not take it back by connecting again.
                    self.options.input &= session.writes();
                    if session.take_progress() {
                        self.backoff.progress();
                    }
                    if after == After::Reconnect {
                        return Served::Closed { since };
                    }
                }
                Step::Incoming(Err(Closed)) => return Served::Closed { since },
                Step::ConsumerGone => return Served::Over(None),
                Step::LeaveNow => return Served::Over(Some(left(&self.events, session))),
            }
        }
    }

    fn command(&mut self, session: &mut Session, command: Option<Command>) {
        match command {
            Some(command) => session.command(command),
            None => self.handles_gone = true,
        }
        note_leaving(&mut self.leave_by, session);
    }

    /// Connects again. `Err`: the stream is over.
    async fn reconnect(
        &mut self,
        session: &mut Session,
    ) -> Result<(Connection, Attached), Option<Last>> {
        let mut cause = CallError::Closed { what: format!("the stream of {}", self.subject) };
        loop {
            let attempted = {
                let from = session.next_from();
                let attempt = async {
                    if !self.backoff.pause().await {
                        return None;
                    }
                    let (client, options) = (&self.client, &self.options);
                    Some(Connection::open(client, self.subject, options, self.identity, from).await)
                };
                tokio::pin!(attempt);
                loop {
                    tokio::select! {
                        attempted = &mut attempt => break attempted,
                        command = self.commands.receiver.recv(), if !self.handles_gone => {
                            match command {
                                Some(command) => session.command(command),
                                None => self.handles_gone = true,
                            }
                            note_leaving(&mut self.leave_by, session);
                            if session.is_detaching() && session.input_waiting() == 0 {
                                return Err(Some(Ok(StreamEvent::Detached)));
                            }
                        }
                        () = leave(self.leave_by) => {
                            return Err(Some(left(&self.events, session)));
                        }
                        () = self.events.closed() => return Err(None),
                    }
                }
            };
            match attempted {
                Some(Ok(open)) => return Ok(open),
                Some(Err(error)) if error.is_loss() || error.is_passing() => {
                    cause = error;
                }
                Some(Err(error)) => return Err(Some(Err(StreamError::Lost(error)))),
                None => {
                    let after = self.backoff.since_loss();
                    let error = CallError::GaveUp { after, source: Box::new(cause) };
                    return Err(Some(Err(StreamError::Lost(error))));
                }
            }
        }
    }
}

fn note_leaving(leave_by: &mut Option<Instant>, session: &Session) {
    if session.is_detaching() {
        leave_by.get_or_insert_with(|| Instant::now() + DETACH_LIMIT);
    }
}

/// Leaves without an answer: what was not taken is told.
fn left(events: &mpsc::Sender<Last>, session: &Session) -> Last {
    let bytes = session.input_waiting();
    if bytes > 0 {
        // A consumer that is too busy to hear it does not want to know.
        drop(events.try_send(Ok(StreamEvent::InputLost(bytes))));
    }
    Ok(StreamEvent::Detached)
}

async fn leave(by: Option<Instant>) {
    match by {
        Some(by) => sleep_until(by).await,
        None => std::future::pending().await,
    }
}

/// Writes what is to be written, and reads a message unless one waits for the consumer. Both in
/// one poll, so that neither side can wait for the other.
fn poll_exchange(
    cx: &mut Context<'_>,
    connection: &mut Connection,
    session: &mut Session,
) -> Poll<Result<Incoming, Closed>> {
    while connection.poll_ready(cx).is_ready() {
        match session.take_outgoing() {
            Some(Outgoing::Input(offset, bytes)) => connection.start_input(offset, &bytes),
            Some(Outgoing::Message(message)) => connection.start_message(&message),
            None => break,
        }
    }
    if connection.poll_flush(cx).is_ready() && !connection.is_broken() {
        session.flushed();
    }
    if session.has_event() { Poll::Pending } else { connection.poll_next(cx) }
}
