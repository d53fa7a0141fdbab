//! The client in the foreground of a box or of an exec: one loop, one kind of event at a time.

use std::io;
use std::time::{Duration, Instant};

use minimal_proto::api::{BoxRecord, StopBox};
use minimal_proto::{Ending, ErrorCode, Signal};
use minimal_sdk::{
    AttachHandle, AttachOptions, AttachStream, CallError, Client, StreamError, StreamEvent, Subject,
};
use tokio::task::JoinSet;

use super::input::pass_on;
use super::relay::{Act, Relay};
use super::writer::{Writer, Written};
use super::{Created, Signals};
use crate::addressee::Addressee;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Printer;

/// How long to ask what became of a box whose reader has left, before saying that it runs on.
const LOOK_LIMIT: Duration = Duration::from_millis(500);

/// How a box ended under its client's eyes.
#[derive(Debug)]
pub struct Attended {
    /// The ending.
    pub ending: Ending,
    /// The exit status of the client.
    pub exit: Exit,
}

/// Everything the loop waits for.
enum Event {
    Stream(Result<StreamEvent, StreamError>),
    Written(Written),
    Signal(Signal),
    Stopped(Result<Option<Ending>, CallError>),
    InputFailed(Option<io::Error>),
}

/// What the client is there for, which decides what its signals and its leaving mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It has made the box, which runs on without it.
    OfBox,
    /// It has made the exec, which ends with it.
    OfExec,
    /// It looks on, and leaves at a signal.
    Visitor,
}

/// Streams that were joined.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) client: Client,
    pub(crate) whose: Addressee,
    pub(crate) role: Role,
    pub(crate) stream: AttachStream,
    pub(crate) handle: AttachHandle,
    /// Whether standard input is passed on.
    pub(crate) input: bool,
    /// Signals that came before.
    pub(crate) pending: Vec<Signal>,
}

struct Foreground<'a> {
    context: &'a Context,
    client: Client,
    whose: Addressee,
    role: Role,
    handle: AttachHandle,
    writer: Writer,
    relay: Relay,
    /// The signal at which a visitor has asked to leave.
    left_at: Option<Signal>,
    stops: JoinSet<Result<Option<Ending>, CallError>>,
    inputs: JoinSet<Option<io::Error>>,
    missing: Missing,
    /// How it ended, once all its output has come.
    ended: Option<Ending>,
    /// The same as a stop answered it, which may be before the output has been passed on.
    stopped: Option<Ending>,
}

/// Attaches to the box that was just made, and stays until it has ended.
///
/// # Errors
/// The ending is not known, or the output cannot be written: the box runs on.
pub async fn attend(
    context: &Context,
    created: Created,
    input: bool,
    signals: &mut Signals,
) -> Result<Attended, Failure> {
    let Created { client, record, pending } = created;
    let from = record.log_begin;
    let options = AttachOptions { from, input, pin: true, ..AttachOptions::default() };
    let whose = Addressee::from(&record);
    let (stream, handle) = client
        .attach(record.id, options)
        .await
        .map_err(|error| unknown(&whose, StreamError::Lost(error)))?;
    let joined = Joined { client, whose, role: Role::OfBox, stream, handle, input, pending };
    attend_to(context, joined, signals).await
}

/// Stays with streams until they have ended.
///
/// # Errors
/// The ending is not known, or the output cannot be written.
pub(crate) async fn attend_to(
    context: &Context,
    joined: Joined,
    signals: &mut Signals,
) -> Result<Attended, Failure> {
    let Joined { client, whose, role, mut stream, handle, input, pending } = joined;
    let mut foreground = Foreground {
        context,
        client,
        whose,
        role,
        handle,
        writer: Writer::new(),
        relay: Relay::default(),
        left_at: None,
        stops: JoinSet::new(),
        inputs: JoinSet::new(),
        missing: Missing::default(),
        ended: None,
        stopped: None,
    };
    if input {
        foreground.inputs.spawn(pass_on(foreground.handle.clone()));
    }
    for signal in pending {
        foreground.signal(signal);
    }
    foreground.attend(&mut stream, signals).await
}

impl Foreground<'_> {
    async fn attend(
        mut self,
        stream: &mut AttachStream,
        signals: &mut Signals,
    ) -> Result<Attended, Failure> {
        loop {
            if let Some(ending) = self.ended.take_if(|_| self.writer.is_idle()) {
                let died_of_int = ending.signal() == Some(Signal::INT);
                let exit = match died_of_int && self.relay.was_interrupted() {
                    true => Exit::DieOf(Signal::INT),
                    false => Exit::Ending(ending.shell_status()),
                };
                return Ok(Attended { ending, exit });
            }
            match self.next(stream, signals).await {
                Event::Stream(event) => self.stream(event)?,
                Event::Written(Written::UpTo(offset)) => self.handle.read(offset),
                Event::Written(Written::Failed(error)) => return Err(self.leave(&error).await),
                Event::Signal(signal) => match self.ended.take().or(self.stopped.take()) {
                    // What is left is to write to a reader that does not read.
                    Some(ending) => {
                        return Ok(Attended { ending, exit: Exit::Interrupted(signal) });
                    }
                    None => self.signal(signal),
                },
                Event::Stopped(Ok(ending)) => self.stopped = ending,
                Event::Stopped(Err(error)) => {
                    let attempt = format!("stop {}", self.whose.words());
                    let failure = Failure::from(error).while_trying(attempt);
                    self.context.printer.warn(&failure.in_one_line());
                }
                Event::InputFailed(Some(error)) => {
                    self.context
                        .printer
                        .warn(&format!("read standard input: {error}; it ends here"));
                }
                Event::InputFailed(None) => {}
            }
        }
    }

    async fn next(&mut self, stream: &mut AttachStream, signals: &mut Signals) -> Event {
        let may_read = self.ended.is_none() && self.writer.has_room();
        tokio::select! {
            event = stream.next(), if may_read => Event::Stream(event),
            written = self.writer.written(), if !self.writer.is_idle() => Event::Written(written),
            signal = signals.next() => Event::Signal(signal),
            Some(stopped) = self.stops.join_next() => {
                let stopped = stopped.expect("a call does not panic");
                Event::Stopped(stopped)
            }
            // One that was aborted has nothing to tell.
            Some(failed) = self.inputs.join_next() => Event::InputFailed(failed.unwrap_or(None)),
        }
    }

    fn stream(&mut self, event: Result<StreamEvent, StreamError>) -> Result<(), Failure> {
        let printer = &self.context.printer;
        match event {
            Ok(StreamEvent::Output { stream, offset, bytes }) => {
                let end = offset + bytes.len() as u64;
                self.missing.tell(printer);
                self.writer.write(stream, bytes, end).map_err(|error| {
                    let failure = Failure::new(ErrorCode::OutputFailed, "start a thread");
                    self.runs_on(failure.because(&error))
                })?;
            }
            Ok(StreamEvent::Gap { from, to }) => self.missing.add(to - from),
            Ok(StreamEvent::Notice(text)) => printer.note(&text),
            Ok(StreamEvent::Lost) => printer.detail("the daemon is gone; looking for another"),
            Ok(StreamEvent::Resumed) => printer.detail("the daemon answers again"),
            // Whoever writes to our standard input is to hear that nobody reads.
            Ok(StreamEvent::InputClosed) => self.inputs.abort_all(),
            // Only of terminals, which are not shown so.
            Ok(StreamEvent::Live | StreamEvent::KeyboardLost | StreamEvent::Screen(_)) => {}
            Ok(StreamEvent::InputLost(bytes)) => {
                printer.warn(&format!("{bytes} bytes of input may not have reached the box"));
            }
            Ok(StreamEvent::Exited(ending)) => {
                self.missing.tell(printer);
                self.ended = Some(ending);
            }
            Ok(StreamEvent::Detached) => {
                return Err(match self.left_at {
                    Some(signal) => self.left(signal),
                    None => unknown(&self.whose, StreamError::Over),
                });
            }
            Err(error) => return Err(unknown(&self.whose, error)),
        }
        Ok(())
    }

    fn signal(&mut self, signal: Signal) {
        if self.role == Role::Visitor {
            self.left_at = Some(signal);
            return self.handle.detach();
        }
        let force = match self.relay.act(signal, Instant::now()) {
            Act::Relay => return self.handle.signal(signal),
            Act::Stop => {
                let words = self.whose.words();
                self.context.printer.note(&format!("stopping {words}; once more kills it"));
                false
            }
            Act::Kill => true,
        };
        let (client, Subject { box_id, exec }) = (self.client.clone(), self.whose.subject());
        let stop = StopBox { force, grace_ms: None };
        self.stops.spawn(async move {
            match exec {
                Some(exec) => Ok(client.stop_exec(box_id, exec, stop).await?.ending),
                None => Ok(client.stop(box_id, stop).await?.ending),
            }
        });
    }

    /// Standard output cannot be written: says what becomes of the command.
    async fn leave(self, error: &io::Error) -> Failure {
        let whose = &self.whose;
        let has_ended = async {
            match whose.subject() {
                Subject { box_id, exec: Some(exec) } => {
                    Ok::<_, CallError>(self.client.exec(box_id, &exec.to_string()).await?.ending)
                }
                Subject { box_id, exec: None } => {
                    Ok(self.client.get(&box_id.to_string()).await?.ending)
                }
            }
        };
        let looked = tokio::time::timeout(LOOK_LIMIT, has_ended).await;
        let then = match matches!(looked, Ok(Ok(Some(_)))) {
            true => format!("{} has ended: see `{}`", whose.words(), whose.command("logs")),
            false => self.what_becomes_of_it(),
        };
        if error.kind() == io::ErrorKind::BrokenPipe {
            let message = format!("standard output was closed; {then}");
            return whose
                .in_details(Failure::new(ErrorCode::OutputFailed, message))
                .exit(Exit::StdoutClosed);
        }
        let message = format!("write to standard output; {then}");
        whose.in_details(Failure::new(ErrorCode::OutputFailed, message).because(error))
    }

    /// A visitor leaves at a signal.
    fn left(&self, signal: Signal) -> Failure {
        let failure = Failure::new(ErrorCode::Interrupted, self.what_becomes_of_it());
        self.whose.in_details(failure).exit(Exit::Interrupted(signal))
    }

    fn what_becomes_of_it(&self) -> String {
        let words = self.whose.words();
        match self.role {
            Role::OfExec => format!("{words} ends with its client"),
            Role::OfBox | Role::Visitor => {
                format!("{words} runs on: stop it with `{}`", self.whose.command("stop"))
            }
        }
    }

    fn runs_on(&self, failure: Failure) -> Failure {
        self.whose.in_details(failure).hint(self.what_becomes_of_it())
    }
}

/// Output that is missing between two pieces of it: told as one, however many pieces it was.
#[derive(Clone, Copy, Debug, Default)]
struct Missing(u64);

impl Missing {
    fn add(&mut self, bytes: u64) {
        self.0 += bytes;
    }

    fn tell(&mut self, printer: &Printer) {
        let bytes = std::mem::take(&mut self.0);
        if bytes > 0 {
            printer.warn(&format!("{bytes} bytes of output are missing here"));
        }
    }
}

/// What to call a box: its name, which may be another's later, or its id.
pub(crate) fn address(record: &BoxRecord) -> String {
    record.name.as_ref().map_or_else(|| record.id.to_string(), ToString::to_string)
}

/// The ending is not known. Never a number that a command could have returned by itself.
pub(crate) fn unknown(whose: &Addressee, error: StreamError) -> Failure {
    let mut failure = Failure::from(error);
    failure.code = ErrorCode::ExitUnknown;
    let full = Addressee { name: None, ..whose.clone() };
    let failure = failure
        .while_trying(format!("how {} ended is not known", whose.words()))
        .hint(format!("ask again with `{}`", full.command("wait")))
        .exit(Exit::Unknown);
    whose.in_details(failure)
}
