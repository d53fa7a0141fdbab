//! Serving a box over a connection to its keeper.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use minimal_proto::error::Chain;
use minimal_proto::event::ClientNote;
use minimal_proto::keeper::{FromKeeper, ToKeeper};
use minimal_proto::{ErrorBody, ErrorCode};
use tokio::sync::oneshot;
use tokio::time::Instant;
use uuid::Uuid;

use super::requests::Kind;
use super::{Actor, Parting, no_keeper};
use crate::boxes::clocks::{ANSWER_LIMIT, pace};
use crate::boxes::conclude::{Absence, Conclusion};
use crate::boxes::link::Link;
use crate::boxes::live::{Command, WriteReply};
use crate::boxes::seats::{Input, Pin, PinSeat, Writer};

/// Input is taken from the writer while the connection holds less than this: twice a pipe's size.
const BACKLOG: usize = 128 << 10;

/// How much later growth of a log is confirmed, and so heard of again, that nobody reads.
const UNREAD_DELAY: Duration = Duration::from_secs(1);

impl Actor {
    /// Serves until the connection ends.
    pub(super) async fn serve(&mut self, mut link: Link) -> Parting {
        loop {
            // Looked at here and not only by the timer below: under a flood of messages that
            // would be set anew each time and never be reached.
            let now = Instant::now();
            let wake = self.next_wake();
            if wake.is_some_and(|wake| now >= wake) {
                self.on_wake(&mut link, now);
                continue;
            }
            let takes_input = link.backlog() < BACKLOG;
            tokio::select! {
                biased;
                message = link.next() => match message {
                    Ok(message) => {
                        if self.on_message(&mut link, message).await {
                            return Parting::Ended;
                        }
                    }
                    Err(error) => return Parting::Vanished(error),
                },
                Some(command) = self.commands.recv() => match command {
                    Command::GiveUp { reply } => {
                        let given_up = self.give_up_start(&mut link).await;
                        // Whoever asked may have left.
                        reply.send(given_up).ok();
                        if given_up {
                            return Parting::Ended;
                        }
                    }
                    command => self.on_command(&mut link, command),
                },
                input = next_input(self.writer.as_mut()), if takes_input => {
                    self.on_input(&mut link, input);
                }
                read = next_read(self.pin.as_mut()) => self.on_read(&mut link, read),
                () = until(wake) => {}
            }
        }
    }

    /// Takes up a message. Whether it was the last one.
    async fn on_message(&mut self, link: &mut Link, message: FromKeeper) -> bool {
        self.pulse.heard(Instant::now());
        self.view.send_if_modified(|view| view.fault.take().is_some());
        match message {
            FromKeeper::Hello(hello) => self.greeted(&hello),
            FromKeeper::Event { event } => self.apply(&event).await,
            FromKeeper::LogEnd { end } => self.on_growth(link, end),
            FromKeeper::InputAccepted { offset } => self.view.send_modify(|view| {
                view.input_offset = view.input_offset.max(offset);
            }),
            FromKeeper::InputClosed => self.view.send_modify(|view| view.input_open = false),
            FromKeeper::Done { request, error } => self.requests.done(request, error),
            FromKeeper::Ended { ending: _, log_end } => {
                self.view.send_modify(|view| view.log_end = log_end);
                return true;
            }
            // An exec's answers come on its own connection.
            FromKeeper::Exec(_) | FromKeeper::Refused { .. } | FromKeeper::Unknown => {}
        }
        false
    }

    /// Gives up a start that takes too long. Whether it is certain that nothing of it will run: a
    /// keeper that has not taken its lock finds the ending, and leaves. Another finds the stop, when
    /// it looks for one right before the command, or after.
    async fn give_up_start(&mut self, link: &mut Link) -> bool {
        let request = self.requests.number();
        link.send(&ToKeeper::Stop { request, force: true, grace_ms: None });
        let message = "its keeper has not begun in time, and the start was given up".to_owned();
        let absence = Absence::NotMade { step: "start", message, errno: None };
        match self.conclude_as(absence).await {
            Ok(Conclusion::Ended { record, log, .. }) => {
                self.take_over(*record, log);
                true
            }
            Ok(Conclusion::Alive(_)) => false,
            Err(error) => {
                tracing::error!(error = %Chain(&error), "a start could not be given up");
                false
            }
        }
    }

    fn on_growth(&mut self, link: &mut Link, end: u64) {
        self.view.send_modify(|view| view.log_end = view.log_end.max(end));
        if self.live.readers.load(Ordering::Acquire) > 0 {
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

    fn on_command(&mut self, link: &mut Link, command: Command) {
        let now = Instant::now();
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
            Command::Write { client, reply } => self.seat_writer(link, client, reply),
            Command::Pin { client, from, reply } => self.seat_pin(link, client, from, reply),
            Command::Probe => self.ask(link, now, pace(1)),
            Command::Reading => self.confirm(link),
            // It is no request to the keeper, and handled before.
            Command::GiveUp { reply } => {
                reply.send(false).ok();
            }
        }
    }

    fn seat_writer(&mut self, link: &mut Link, client: Option<Uuid>, reply: WriteReply) {
        if !self.view.borrow().input_open {
            drop(reply.send(Ok(None)));
            return;
        }
        let taking_over = match &self.writer {
            Some(writer) => writer.is_client(client),
            // What the keeper still holds is this client's, from before a loss: it may send it again.
            None => client.is_some() && self.holds_input_of == client,
        };
        let accepted = self.view.borrow().input_offset;
        if !taking_over && (self.writer.is_some() || self.forwarded > accepted) {
            let why = match self.writer {
                Some(_) => "another client writes the input",
                None => "what the writer before has sent is still being taken up by the input",
            };
            let error =
                ErrorBody::new(ErrorCode::InputHeld, format!("{why} of box `{}`", self.live.name))
                    .with_hint("watch it without input, or wait until the writer has left")
                    .with_detail("box", self.live.id.to_string());
            drop(reply.send(Err(error)));
            return;
        }
        let (writer, seat) = Writer::seat(client, accepted);
        if reply.send(Ok(Some(seat))).is_err() {
            return;
        }
        if let Some(older) = self.writer.replace(writer) {
            older.hand_over();
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
        if !free || !self.view.borrow().pinned {
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
            Some(Input::Bytes { offset, bytes }) => {
                // Sent again after a reconnect: the keeper has it already.
                let known = usize::try_from(self.forwarded.saturating_sub(offset));
                let known = known.unwrap_or(usize::MAX).min(bytes.len());
                let new = &bytes[known..];
                if !new.is_empty() {
                    link.send_input(offset + known as u64, new);
                    self.forwarded = offset + bytes.len() as u64;
                }
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
                self.view.send_modify(|view| view.pinned = false);
                link.send(&ToKeeper::Unpin);
            }
        }
    }

    /// Has the keeper append that a writer came or went. Nobody waits for it.
    fn note(&mut self, link: &mut Link, event_type: &str) {
        let request = self.requests.number();
        let data = serde_json::to_value(ClientNote { input: true });
        let data = data.expect("a note has string keys only");
        link.send(&ToKeeper::Note { request, event_type: event_type.to_owned(), data });
    }

    /// Asks the keeper whether it is there, if it has been silent for that long.
    fn ask(&mut self, link: &mut Link, now: Instant, silence: Duration) {
        if self.pulse.should_ask(now, silence) {
            let request = self.requests.number();
            link.send(&ToKeeper::Ping { request });
        }
    }

    /// When something is due. Each of these is moved on by [`Actor::on_wake`].
    fn next_wake(&self) -> Option<Instant> {
        let pulse = self.pulse.next(pace(self.host.live_boxes()));
        let requests = self.requests.next_limit(self.pulse.is_silent());
        let unconfirmed = self.unconfirmed.map(|(_, at)| at);
        [pulse, requests, unconfirmed].into_iter().flatten().min()
    }

    fn on_wake(&mut self, link: &mut Link, now: Instant) {
        self.ask(link, now, pace(self.host.live_boxes()));
        if self.pulse.falls_silent(now) {
            let fault = format!("its keeper has not answered for {} s", ANSWER_LIMIT.as_secs());
            tracing::warn!(fault, "unresponsive");
            self.view.send_modify(|view| view.fault = Some(fault.into()));
        }
        let live = Arc::clone(&self.live);
        self.requests.expire(&live, self.pulse.is_silent(), now);
        if self.unconfirmed.is_some_and(|(_, at)| now >= at) {
            self.confirm(link);
        }
    }

    /// Answers commands for a while in which there is no keeper to ask. While it is still being
    /// looked for they wait: for it, or for the box's end.
    pub(super) async fn answer_without_keeper(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        if self.view.borrow().fault.is_none() {
            return tokio::time::sleep_until(until).await;
        }
        while let Ok(Some(command)) = tokio::time::timeout_at(until, self.commands.recv()).await {
            let error = no_keeper(&self.live, &self.view.borrow());
            match command {
                Command::Stop { reply, .. }
                | Command::Cancel { reply }
                | Command::Signal { reply, .. } => {
                    drop(reply.send(Err(error)));
                }
                Command::Write { reply, .. } => drop(reply.send(Err(error))),
                Command::Pin { reply, .. } => drop(reply.send(None)),
                Command::GiveUp { reply } => {
                    reply.send(false).ok();
                }
                Command::Probe | Command::Reading => {}
            }
        }
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
