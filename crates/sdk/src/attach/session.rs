//! What both sides have said so far. Sans I/O: the driver feeds it and does what it says.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use minimal_proto::stream::{ClientMessage, ServerMessage};
use minimal_proto::{Ending, ErrorCode, TerminalSize};
use tokio::sync::Semaphore;

use super::connection::{Attached, Incoming};
use super::cursor::{Cursor, Missing};
use super::handle::Command;
use super::input::{InputRing, Next};
use super::{AttachOptions, StreamError, StreamEvent};

/// How much output is passed on between two `read` messages: what the protocol asks for.
const READ_STEP: u64 = 256 << 10;

/// The state of an attach over all its connections.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(super) struct Session {
    cursor: Cursor,
    /// What has come of the screen that was asked for; none: none was, or it was passed on.
    screen: Option<BytesMut>,
    input: InputRing,
    window: Arc<Semaphore>,
    outbox: VecDeque<ClientMessage>,
    /// Taken from the outbox, but not known to be written.
    unflushed: Vec<ClientMessage>,
    pin: bool,
    read_to: u64,
    read_told: u64,
    live_told: bool,
    detaching: bool,
    /// Whether this connection was told so.
    detach_sent: bool,
    /// The last size of the terminal that was said: whoever serves us next hears it again.
    size: Option<TerminalSize>,
    progressed: bool,
    events: VecDeque<StreamEvent>,
    last: Option<Result<StreamEvent, StreamError>>,
}

/// What is to be sent.
#[derive(Debug)]
pub(super) enum Outgoing {
    Input(u64, Bytes),
    Message(ClientMessage),
}

/// Whether a message ended the stream, or only this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    GoOn,
    Reconnect,
}

impl Session {
    pub(super) fn new(
        options: &AttachOptions,
        attached: &Attached,
        window: Arc<Semaphore>,
    ) -> Self {
        let mut input = InputRing::new(attached.input_offset);
        if !options.input {
            input.close();
            window.close();
        }
        Self {
            cursor: Cursor::new(if options.screen.is_some() {
                attached.from
            } else {
                options.from
            }),
            screen: options.screen.map(|_| BytesMut::new()),
            input,
            window,
            outbox: VecDeque::new(),
            unflushed: Vec::new(),
            pin: options.pin,
            read_to: options.from,
            read_told: options.from,
            live_told: false,
            detaching: false,
            detach_sent: false,
            size: options.screen.filter(|_| options.input),
            progressed: false,
            events: VecDeque::new(),
            last: None,
        }
    }

    /// Where output goes on; none: with the screen that was asked for, which has not come whole.
    pub(super) fn next_from(&self) -> Option<u64> {
        self.screen.is_none().then(|| self.cursor.next())
    }

    /// A connection has begun.
    pub(super) fn begin(&mut self, attached: &Attached) {
        for message in self.unflushed.drain(..).rev() {
            self.outbox.push_front(message);
        }
        self.detach_sent = false;
        // The last of several counts; one that came while nobody served is behind it.
        self.outbox.extend(self.size.map(resize));
        if let Some(screen) = &mut self.screen {
            screen.clear();
            self.cursor = Cursor::new(attached.from);
        }
        match self.cursor.begin(attached.from) {
            Ok(missing) => self.miss(missing),
            Err(error) => return self.violation(&error),
        }
        // A daemon takes the offset asked for as read.
        self.read_told = self.cursor.next();
        if attached.input_open {
            match self.input.resume(attached.input_offset) {
                Ok(freed) => self.free(freed),
                Err(error) => self.violation(&error),
            }
        } else {
            self.close_input();
        }
    }

    /// The client wants something.
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Input(bytes) => self.input.push(bytes),
            Command::Eof => self.input.finish(),
            Command::Signal(name) => self.outbox.push_back(ClientMessage::Signal { name }),
            Command::Resize(size) => self.resized(size),
            Command::Read(offset) => self.read_to = self.read_to.max(offset),
            Command::Detach => self.detaching = true,
        }
    }

    fn resized(&mut self, size: TerminalSize) {
        self.size = Some(size);
        self.outbox.push_back(resize(size));
    }

    /// Whether this client may still write, should it have been the writer.
    pub(super) fn writes(&self) -> bool {
        self.input.is_open()
    }

    /// What to send next: signals before input, since they may be about it.
    pub(super) fn take_outgoing(&mut self) -> Option<Outgoing> {
        if let Some(message) = self.outbox.pop_front() {
            self.unflushed.push(message.clone());
            return Some(Outgoing::Message(message));
        }
        if self.pin && self.read_to >= self.read_told.saturating_add(READ_STEP) {
            self.read_told = self.read_to;
            return Some(Outgoing::Message(ClientMessage::Read { offset: self.read_to }));
        }
        match self.input.take_next() {
            Some(Next::Bytes(offset, bytes)) => Some(Outgoing::Input(offset, bytes)),
            Some(Next::Eof) => Some(Outgoing::Message(ClientMessage::Eof)),
            // Behind all input: a daemon that has it hands it on.
            None if self.detaching && !self.detach_sent => {
                self.detach_sent = true;
                Some(Outgoing::Message(ClientMessage::Detach))
            }
            None => None,
        }
    }

    /// Everything taken so far was written.
    pub(super) fn flushed(&mut self) {
        self.unflushed.clear();
    }

    /// The daemon said something.
    pub(super) fn incoming(&mut self, incoming: Incoming) -> After {
        if let Incoming::Repaint(part) = incoming {
            match &mut self.screen {
                Some(screen) => screen.extend_from_slice(&part),
                None => self.violation(&"a repaint that nobody has asked for"),
            }
            return After::GoOn;
        }
        // Whatever follows it says that it is whole.
        if let Some(screen) = self.screen.take().filter(|screen| !screen.is_empty()) {
            self.events.push_back(StreamEvent::Screen(screen.freeze()));
        }
        match incoming {
            Incoming::Repaint(_) => After::GoOn,
            Incoming::Output { stream, offset, bytes } => {
                match self.cursor.output(offset, bytes.len()) {
                    Ok(()) if bytes.is_empty() => {}
                    Ok(()) => {
                        self.progressed = true;
                        self.events.push_back(StreamEvent::Output { stream, offset, bytes });
                    }
                    Err(error) => self.violation(&error),
                }
                After::GoOn
            }
            Incoming::Message(message) => self.message(message),
            Incoming::Nonsense(why) => {
                self.violation(&why);
                After::GoOn
            }
        }
    }

    fn message(&mut self, message: ServerMessage) -> After {
        match message {
            ServerMessage::Attached { .. } => self.violation(&"`attached` came twice"),
            ServerMessage::Live => {
                if !std::mem::replace(&mut self.live_told, true) {
                    self.events.push_back(StreamEvent::Live);
                }
            }
            ServerMessage::Gap { from, to } => match self.cursor.gap(from, to) {
                Ok(missing) => self.miss(missing),
                Err(error) => self.violation(&error),
            },
            ServerMessage::InputAccepted { offset } => match self.input.accept(offset) {
                Ok(freed) => self.free(freed),
                Err(error) => self.violation(&error),
            },
            ServerMessage::InputClosed => self.close_input(),
            ServerMessage::KeyboardLost { .. } => {
                self.size = None;
                if self.input.close() {
                    self.window.close();
                    self.events.push_back(StreamEvent::KeyboardLost);
                }
            }
            ServerMessage::Notice { text } => self.events.push_back(StreamEvent::Notice(text)),
            ServerMessage::Exited { ending } => self.exited(ending),
            ServerMessage::Detached => self.end(Ok(StreamEvent::Detached)),
            ServerMessage::Error(body) if body.code == ErrorCode::SteppingDown => {
                return After::Reconnect;
            }
            ServerMessage::Error(body) => self.end(Err(StreamError::Fault(Box::new(body)))),
            ServerMessage::Unknown => {}
        }
        After::GoOn
    }

    fn exited(&mut self, ending: Ending) {
        // The ending comes after every byte of output. Should bytes be missing all the same, they
        // are said to be; the ending is what it is.
        if let Some(end) = ending.detail().get("log_end").and_then(serde_json::Value::as_u64) {
            let missing = self.cursor.seal(end);
            self.miss(missing);
        }
        self.end(Ok(StreamEvent::Exited(ending)));
    }

    fn miss(&mut self, missing: Option<Missing>) {
        if let Some(Missing { from, to }) = missing {
            self.progressed = true;
            self.events.push_back(StreamEvent::Gap { from, to });
        }
    }

    fn free(&mut self, bytes: u64) {
        if bytes > 0 {
            self.progressed = true;
            self.window.add_permits(usize::try_from(bytes).expect("at most the window"));
        }
    }

    fn close_input(&mut self) {
        if self.input.close() {
            self.window.close();
            self.events.push_back(StreamEvent::InputClosed);
        }
    }

    fn violation(&mut self, error: &impl ToString) {
        self.end(Err(StreamError::Violation(error.to_string())));
    }

    fn end(&mut self, last: Result<StreamEvent, StreamError>) {
        self.last.get_or_insert(last);
    }

    /// Whether something waits for the consumer, or the stream is over: nothing more is read then.
    pub(super) fn has_event(&self) -> bool {
        !self.events.is_empty() || self.last.is_some()
    }

    /// The next event for the consumer that is not the last.
    pub(super) fn take_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }

    /// The last event, once all before it were taken.
    pub(super) fn take_last(&mut self) -> Option<Result<StreamEvent, StreamError>> {
        if self.events.is_empty() { self.last.take() } else { None }
    }

    /// Whether the client has asked to leave.
    pub(super) fn is_detaching(&self) -> bool {
        self.detaching
    }

    /// How much input was given that the box has not taken, as far as is known.
    pub(super) fn input_waiting(&self) -> u64 {
        self.input.waiting()
    }

    /// Whether there was progress since this was last asked.
    pub(super) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progressed)
    }
}

fn resize(TerminalSize { cols, rows }: TerminalSize) -> ClientMessage {
    ClientMessage::Resize { cols, rows }
}
