//! Serving the streams of a box or of an exec over a connection to its keeper: seats, input, growth of
//! the log, requests, and whether the keeper is there. What else a keeper says is its owner's.

mod requests;

use std::sync::Arc;
use std::time::Duration;

use minimal_proto::event::ClientNote;
use minimal_proto::keeper::{FromKeeper, ToKeeper};
use minimal_proto::{ErrorBody, ErrorCode};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use self::requests::{Kind, Requests};
use super::clocks::Pulse;
use super::flow::Outcome;
use super::line::{Command, Line, LineEnd, WriteReply};
use super::link::{Link, LinkError};
use super::seats::{Input, Pin, PinSeat, TakenOver, Writer};

/// Input is taken from the writer while the connection holds less than this: twice a pipe's size.
const BACKLOG: usize = 128 << 10;

/// How much later growth of a log is confirmed, and so heard of again, that nobody reads.
const UNREAD_DELAY: Duration = Duration::from_secs(1);

/// Serves the streams at the end of a line.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) line: Arc<Line>,
    pub(super) end: LineEnd,
    requests: Requests,
    writer: Option<Writer>,
    pin: Option<Pin>,
    pulse: Pulse,
    /// How much input was handed to the keeper's connection.
    forwarded: u64,
    /// Whose that input is, if that client has a name.
    holds_input_of: Option<Uuid>,
    /// Whether writers that come and go are noted in the journal.
    noted: bool,
    /// The next writer is the creator's first, which is not noted.
    pub(super) creator_expected: bool,
    /// Growth of the log that was not confirmed yet: nobody reads it.
    unconfirmed: Option<(u64, Instant)>,
}

/// What happens that is the owner's to handle.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, handled at once")]
pub(super) enum Happening {
    /// The keeper said this, which is not about streams.
    Message(FromKeeper),
    /// The actor is asked for this, which is not about streams.
    Command(Command),
    /// The keeper has just become silent, or is not any more.
    Silence(bool),
    /// The connection is of no further use.
    Vanished(LinkError),
}

impl Serving {
    /// Of the line's end. `noted`: whether its writers are noted in the journal.
    pub(super) fn new(line: Arc<Line>, end: LineEnd, noted: bool) -> Self {
        Self {
            line,
            end,
            requests: Requests::default(),
            writer: None,
            pin: None,
            pulse: Pulse::new(Instant::now()),
            forwarded: 0,
            holds_input_of: None,
            noted,
            creator_expected: false,
            unconfirmed: None,
        }
    }

    /// A keeper is there, and holds so much input, of this client. Over a `new` connection, what an
    /// earlier one had taken may have been lost with it.
    pub(super) fn begin(&mut self, received: u64, from: Option<Uuid>, new: bool) {
        self.pulse.heard(Instant::now());
        let before = if new { 0 } else { self.forwarded };
        self.forwarded = before.max(received);
        self.holds_input_of = from;
    }

    /// Serves until something happens that is the owner's. `pace`: how often a quiet keeper is asked
    /// whether it is there; `None`: only when it is needed.
    pub(super) async fn next(&mut self, link: &mut Link, pace: Option<Duration>) -> Happening {
        loop {
            // Looked at here and not only by the timer below: under a flood of messages that
            // would be set anew each time and never be reached.
            let now = Instant::now();
            let wake = self.next_wake(pace);
            if wake.is_some_and(|wake| now >= wake) {
                if self.on_wake(link, now, pace) {
                    return Happening::Silence(true);
                }
                continue;
            }
            let takes_input = link.backlog() < BACKLOG;
            tokio::select! {
                biased;
                message = link.next() => match message {
                    Ok(message) => {
                        let was_silent = self.pulse.is_silent();
                        self.pulse.heard(Instant::now());
                        if let Some(message) = self.on_message(link, message) {
                            return Happening::Message(message);
                        }
                        if was_silent {
                            return Happening::Silence(false);
                        }
                    }
                    Err(error) => return Happening::Vanished(error),
                },
                Some(command) = self.end.commands.recv() => {
                    if let Some(command) = self.on_command(link, command, now) {
                        return Happening::Command(command);
                    }
                }
                input = next_input(self.writer.as_mut()), if takes_input => {
                    self.on_input(link, input);
                }
                read = next_read(self.pin.as_mut()) => self.on_read(link, read),
                () = until(wake) => {}
            }
        }
    }

    /// Takes up a message, or gives back what is the owner's.
    fn on_message(&mut self, link: &mut Link, message: FromKeeper) -> Option<FromKeeper> {
        match message {
            FromKeeper::LogEnd { end } => self.on_growth(link, end),
            FromKeeper::InputAccepted { offset } => self.end.flow.send_modify(|flow| {
                flow.input_offset = flow.input_offset.max(offset);
            }),
            FromKeeper::InputClosed => self.end.flow.send_modify(|flow| flow.input_open = false),
            FromKeeper::Done { request, error } => self.requests.done(request, error),
            FromKeeper::Unknown => {}
            FromKeeper::Hello(_)
            | FromKeeper::Event { .. }
            | FromKeeper::Ended { .. }
            | FromKeeper::Exec(_)
            | FromKeeper::Refused { .. } => return Some(message),
        }
        None
    }

    fn on_growth(&mut self, link: &mut Link, end: u64) {
        self.end.flow.send_modify(|flow| flow.log_end = flow.log_end.max(end));
        if self.line.is_read() {
            link.send(&ToKeeper::Consumed { end });
        } else {
            self.unconfirmed = Some((end, Instant::now() + UNREAD_DELAY));
        }
    }

    fn confirm(&mut self, link: &mut Link) {
        if let Some((end, _)) = self.unconfirmed.take() {
            link.send(&ToKeeper::Consumed { end });
        }
    }

    /// Carries out a command, or gives back what is the owner's.
    fn on_command(&mut self, link: &mut Link, command: Command, now: Instant) -> Option<Command> {
        match command {
            Command::Stop { force, grace_ms, reply } => {
                let request = self.requests.open(Kind::Stop, reply, now);
                link.send(&ToKeeper::Stop { request, force, grace_ms });
                self.ask(link, now, Duration::ZERO);
            }
            Command::Cancel { reply } => {
                // An end that came first is not what was asked for.
                let request = self.requests.open(Kind::Signal, reply, now);
                link.send(&ToKeeper::Cancel { request });
                self.ask(link, now, Duration::ZERO);
            }
            Command::Signal { signal, group, reply } => {
                let request = self.requests.open(Kind::Signal, reply, now);
                link.send(&ToKeeper::Signal { request, signal, group });
                self.ask(link, now, Duration::ZERO);
            }
            Command::Resize(size) => link.send(&ToKeeper::Resize { size }),
            Command::Pause { still, reply } => {
                let request = self.requests.open(Kind::Signal, reply, now);
                link.send(&match still {
                    true => ToKeeper::Pause { request },
                    false => ToKeeper::Unpause { request },
                });
                self.ask(link, now, Duration::ZERO);
            }
            Command::Write { client, reply } => self.seat_writer(link, client, reply),
            Command::Pin { client, from, reply } => self.seat_pin(link, client, from, reply),
            Command::Probe => self.ask(link, now, super::clocks::pace(1)),
            Command::Reading => self.confirm(link),
            Command::GiveUp { .. } => return Some(command),
        }
        None
    }

    fn seat_writer(&mut self, link: &mut Link, client: Option<Uuid>, reply: WriteReply) {
        let (accepted, is_open) = {
            let flow = self.end.flow.borrow();
            (flow.input_offset, flow.input_open)
        };
        if !is_open {
            drop(reply.send(Ok(None)));
            return;
        }
        let taking_over = match &self.writer {
            Some(writer) => writer.is_client(client),
            // What the keeper still holds is this client's, from before a loss: it may send it again.
            None => client.is_some() && self.holds_input_of == client,
        };
        let tty = self.line.whose.tty;
        if !tty && !taking_over && (self.writer.is_some() || self.forwarded > accepted) {
            let why = match self.writer {
                Some(_) => "another client writes the input",
                None => "what the writer before has sent is still being taken up by the input",
            };
            let whose = &self.line.whose;
            let error = whose
                .error(ErrorCode::InputHeld, format!("{why} of {whose}"))
                .with_hint("watch it without input, or wait until the writer has left");
            drop(reply.send(Err(error)));
            return;
        }
        // Who takes over another's keyboard goes on behind what that one has typed.
        let (from, received) = match (tty, taking_over) {
            (false, _) => (accepted, accepted),
            (true, true) => (accepted, self.forwarded),
            (true, false) => (self.forwarded, self.forwarded),
        };
        let (writer, seat) = Writer::seat(client, from, received);
        if reply.send(Ok(Some(seat))).is_err() {
            return;
        }
        if let Some(older) = self.writer.replace(writer) {
            if taking_over {
                older.hand_over(TakenOver::ByItself);
            } else {
                older.hand_over(TakenOver::By(client));
                self.note(link, "detached");
            }
        }
        self.holds_input_of = client;
        link.send(&ToKeeper::WriterAttached { client });
        if !std::mem::take(&mut self.creator_expected) && !taking_over {
            self.note(link, "attached");
        }
    }

    fn seat_pin(
        &mut self,
        link: &mut Link,
        client: Option<Uuid>,
        from: u64,
        reply: oneshot::Sender<Option<PinSeat>>,
    ) {
        let free = self.pin.as_ref().is_none_or(|pin| pin.is_client(client));
        if !free || !self.end.flow.borrow().pinned {
            drop(reply.send(None));
            return;
        }
        let (pin, seat) = Pin::seat(client, from);
        if reply.send(Some(seat)).is_ok() {
            self.pin = Some(pin);
            link.send(&ToKeeper::Pin { offset: from });
        }
    }

    fn on_input(&mut self, link: &mut Link, input: Option<Input>) {
        match input {
            Some(Input::Bytes { offset, bytes, room }) => {
                // Sent again after a reconnect: the keeper has it already.
                let known = usize::try_from(self.forwarded.saturating_sub(offset));
                let known = known.unwrap_or(usize::MAX).min(bytes.len());
                let new = &bytes[known..];
                if !new.is_empty() {
                    link.send_input(offset + known as u64, new);
                    self.forwarded = offset + bytes.len() as u64;
                }
                drop(room);
            }
            Some(Input::Eof { offset }) => link.send(&ToKeeper::Eof { offset }),
            None => {
                self.writer = None;
                link.send(&ToKeeper::WriterLost);
                self.note(link, "detached");
            }
        }
    }

    fn on_read(&mut self, link: &mut Link, read: Option<u64>) {
        match read {
            Some(offset) => link.send(&ToKeeper::Pin { offset }),
            None => {
                self.pin = None;
                self.end.flow.send_modify(|flow| flow.pinned = false);
                link.send(&ToKeeper::Unpin);
            }
        }
    }

    /// Has the keeper append that a writer came or went. Nobody waits for it.
    fn note(&mut self, link: &mut Link, event_type: &str) {
        if !self.noted {
            return;
        }
        let request = self.requests.number();
        let data = serde_json::to_value(ClientNote { input: true });
        let data = data.expect("a note has string keys only");
        link.send(&ToKeeper::Note { request, event_type: event_type.to_owned(), data });
    }

    /// Asks for an end at once. Nobody waits for the answer.
    pub(super) fn kill(&mut self, link: &mut Link) {
        let request = self.requests.number();
        link.send(&ToKeeper::Stop { request, force: true, grace_ms: None });
    }

    /// Asks the keeper whether it is there, if it has been silent for that long.
    fn ask(&mut self, link: &mut Link, now: Instant, silence: Duration) {
        if self.pulse.should_ask(now, silence) {
            let request = self.requests.number();
            link.send(&ToKeeper::Ping { request });
        }
    }

    /// When something is due. Each of these is moved on by [`Serving::on_wake`].
    fn next_wake(&self, pace: Option<Duration>) -> Option<Instant> {
        let pulse = self.pulse.next(pace);
        let requests = self.requests.next_limit(self.pulse.is_silent());
        let unconfirmed = self.unconfirmed.map(|(_, at)| at);
        [pulse, requests, unconfirmed].into_iter().flatten().min()
    }

    /// Does what is due. Whether the keeper has just become silent.
    fn on_wake(&mut self, link: &mut Link, now: Instant, pace: Option<Duration>) -> bool {
        if let Some(pace) = pace {
            self.ask(link, now, pace);
        }
        let falls_silent = self.pulse.falls_silent(now);
        self.requests.expire(&self.line.whose, self.pulse.is_silent(), now);
        if self.unconfirmed.is_some_and(|(_, at)| now >= at) {
            self.confirm(link);
        }
        falls_silent
    }

    /// The connection is gone: its clients reconnect and send again what no keeper has accepted.
    pub(super) fn leave_seats(&mut self) {
        self.writer = None;
        self.pin = None;
        self.unconfirmed = None;
    }

    /// The connection is gone, and so are the answers.
    pub(super) fn link_lost(&mut self) {
        self.requests.link_lost(&self.line.whose);
    }

    /// Answers commands for a while in which there is no keeper to ask.
    pub(super) async fn answer_without_keeper(&mut self, until: Instant, error: &ErrorBody) {
        while let Ok(Some(command)) = tokio::time::timeout_at(until, self.end.commands.recv()).await
        {
            match command {
                Command::Stop { reply, .. }
                | Command::Cancel { reply }
                | Command::Pause { reply, .. }
                | Command::Signal { reply, .. } => {
                    drop(reply.send(Err(error.clone())));
                }
                Command::Write { reply, .. } => drop(reply.send(Err(error.clone()))),
                Command::Pin { reply, .. } => drop(reply.send(None)),
                Command::GiveUp { reply } => {
                    reply.send(false).ok();
                }
                Command::Resize(_) | Command::Probe | Command::Reading => {}
            }
        }
    }

    /// Gives up the requests that have waited too long for a keeper that is not there.
    pub(super) fn expire_requests(&mut self) {
        self.requests.expire(&self.line.whose, true, Instant::now());
    }

    /// Publishes that nothing follows, and answers what was asked.
    pub(super) fn finish(&mut self, outcome: Outcome) {
        self.requests.ended(&self.line.whose);
        self.end.flow.send_modify(|flow| flow.end(outcome));
    }
}

/// Completes at a time; never, without one.
async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// The writer's next input; never, without a writer.
async fn next_input(writer: Option<&mut Writer>) -> Option<Input> {
    match writer {
        Some(writer) => writer.next().await,
        None => std::future::pending().await,
    }
}

/// The pinning client's next place; never, without one.
async fn next_read(pin: Option<&mut Pin>) -> Option<u64> {
    match pin {
        Some(pin) => pin.next().await,
        None => std::future::pending().await,
    }
}
