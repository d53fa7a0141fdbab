//! The loop of a client that shows another terminal in the caller's: one kind of event at a time.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytes::Bytes;
use minimal_proto::stream::Stream;
use minimal_proto::{Ending, ErrorCode, Signal};
use minimal_sdk::{AttachHandle, AttachStream, StreamError, StreamEvent};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{Receiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

use super::leader::{Leader, Typed};
use super::modes::Modes;
use super::raw::RawTerminal;
use crate::addressee::Addressee;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::foreground::unknown;
use crate::run::input::{self, Read};
use crate::run::writer::{Writer, Written};
use crate::settings::LeaderKey;

/// How long the box has for what was typed before the client was told to leave it.
const TAKE_LIMIT: Duration = Duration::from_secs(2);

/// What a terminal sends for Ctrl-C, which a client that only watches heeds itself.
const INTERRUPT: u8 = 0x03;

/// Signals at which the client leaves, and the box runs on.
const LEAVE: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// What the screen holds when the client comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// All output, from this offset on.
    Fresh(u64),
    /// What is there, which comes first.
    AsItStands,
}

/// A terminal that was joined.
#[derive(Debug)]
pub(crate) struct Screen {
    pub(crate) whose: Addressee,
    pub(crate) stream: AttachStream,
    pub(crate) handle: AttachHandle,
    pub(crate) begin: Begin,
    /// Whether the keyboard is ours; else we only watch.
    pub(crate) keyboard: bool,
}

/// How the client came to leave.
#[derive(Debug)]
pub(crate) enum Watched {
    /// The box or exec has ended.
    Ended(Ending),
    /// The person has left it; it runs on.
    Detached,
}

enum Event {
    Stream(Result<StreamEvent, StreamError>),
    Written(Written),
    Typed(Option<Read>),
    Resized,
    Continued,
    Leave(Signal),
    LeaveNow,
}

struct Loop<'a> {
    context: &'a Context,
    whose: Addressee,
    handle: AttachHandle,
    keyboard: bool,
    writer: Writer,
    modes: Modes,
    leader: Leader,
    /// It has never had the keyboard.
    only_watches: bool,
    /// When it leaves though the box has not taken what was typed before.
    leave_by: Option<Instant>,
    raw: &'a RawTerminal,
    typed: UnboundedSender<ToSend>,
    ended: Option<Ending>,
}

/// Shows it until it has ended or the person leaves. The terminal is then as it was before.
///
/// # Errors
/// What has become of it is not known, or a signal came, or the caller's terminal is gone.
pub(crate) async fn watch(
    context: &Context,
    screen: Screen,
    signals: &mut TerminalSignals,
) -> Result<Watched, Failure> {
    let Screen { whose, mut stream, handle, begin, keyboard } = screen;
    let fault = |what: &str, error: &io::Error| {
        whose.in_details(Failure::new(ErrorCode::Internal, what.to_owned()).because(error))
    };
    let (reader, keys) = input::start().map_err(|error| fault("read the keyboard", &error))?;
    let raw = RawTerminal::enter().map_err(|error| fault("take the terminal", &error))?;
    let (typed, mut to_send) = unbounded_channel::<ToSend>();
    let sending = handle.clone();
    // Apart from the loop, which hears the leader also while the box takes nothing.
    let sender = tokio::spawn(async move {
        while let Some(next) = to_send.recv().await {
            match next {
                ToSend::Keys(keys) => {
                    if sending.input(keys).await.is_err() {
                        // A box that takes none is left all the same.
                        to_send.close();
                    }
                }
                ToSend::Leave => sending.detach(),
            }
        }
    });
    let mut state = Loop {
        context,
        whose: whose.clone(),
        handle,
        keyboard,
        writer: Writer::new(),
        modes: Modes::default(),
        leader: Leader::new(signals.leader.byte()),
        only_watches: !keyboard,
        leave_by: None,
        raw: &raw,
        typed,
        ended: None,
    };
    if begin == Begin::AsItStands {
        state.say(&format!("{}: leave it with {} d", whose.words(), signals.leader.words()));
    }
    let watched = state.run(&mut stream, signals, Keys { _reader: reader, keys }, begin).await;
    sender.abort();
    let mut take_back = state.modes.take_back();
    if let Ok(Watched::Detached) = watched {
        // Words follow, on a line of their own.
        take_back.extend(b"\r\n");
    }
    raw.leave(&take_back);
    watched
}

/// What is on its way to the box, in the order in which it was typed.
enum ToSend {
    Keys(Bytes),
    /// What was typed before is the box's; then we leave.
    Leave,
}

/// What is typed, and the descriptor whose end lets go of it.
struct Keys {
    _reader: OwnedFd,
    keys: Receiver<Read>,
}

impl Loop<'_> {
    async fn run(
        &mut self,
        stream: &mut AttachStream,
        signals: &mut TerminalSignals,
        mut keys: Keys,
        begin: Begin,
    ) -> Result<Watched, Failure> {
        if let Begin::Fresh(_) = begin {
            self.tell_size();
        }
        let mut has_keys = true;
        loop {
            if self.writer.is_idle()
                && let Some(ending) = self.ended.take()
            {
                return Ok(Watched::Ended(ending));
            }
            let may_read = self.ended.is_none() && self.writer.has_room();
            let event = tokio::select! {
                event = stream.next(), if may_read => Event::Stream(event),
                written = self.writer.written(), if !self.writer.is_idle() => Event::Written(written),
                typed = keys.keys.recv(), if has_keys => Event::Typed(typed),
                event = signals.next() => event,
                () = at(self.leave_by) => Event::LeaveNow,
            };
            match event {
                Event::Stream(event) => {
                    if self.stream(event)? {
                        return Ok(Watched::Detached);
                    }
                }
                Event::Written(Written::UpTo(_)) => {}
                Event::Written(Written::Failed(error)) => return Err(self.gone(&error)),
                Event::Typed(Some(Read::Bytes(bytes))) => self.type_in(&bytes),
                // The terminal is gone: a hang-up follows, or was not heard.
                Event::Typed(Some(Read::Failed(error))) => return Err(self.gone(&error)),
                Event::Typed(Some(Read::End)) => {
                    return Err(self.gone(&io::ErrorKind::UnexpectedEof.into()));
                }
                Event::Typed(None) => has_keys = false,
                Event::Resized => self.tell_size(),
                Event::Continued => {
                    self.raw.renew().map_err(|error| self.gone(&error))?;
                    self.tell_size();
                }
                Event::LeaveNow => {
                    self.leave_by = None;
                    self.tell("what was typed last was not taken by the box");
                    self.handle.detach();
                }
                Event::Leave(signal) => {
                    let failure = Failure::new(ErrorCode::Interrupted, self.runs_on());
                    let failure = failure.exit(Exit::Interrupted(signal));
                    return Err(self.whose.in_details(failure));
                }
            }
        }
    }

    /// Takes up what the stream says. Whether that was that we have left.
    fn stream(&mut self, event: Result<StreamEvent, StreamError>) -> Result<bool, Failure> {
        match event {
            Ok(StreamEvent::Output { stream, offset, bytes }) => {
                let end = offset + bytes.len() as u64;
                self.modes.see(&bytes);
                self.writer.write(stream, bytes, end).map_err(|error| self.gone(&error))?;
            }
            Ok(StreamEvent::Screen(bytes)) => {
                self.modes.see(&bytes);
                self.writer.write(Stream::Pty, bytes, 0).map_err(|error| self.gone(&error))?;
            }
            Ok(StreamEvent::Gap { from, to }) => {
                self.tell(&format!("{} bytes of output are missing here", to - from));
            }
            Ok(StreamEvent::InputLost(bytes)) => {
                self.tell(&format!(
                    "{bytes} bytes that were typed last may not have reached the box"
                ));
            }
            Ok(StreamEvent::Notice(text)) => self.say(&text),
            Ok(StreamEvent::KeyboardLost) => {
                self.keyboard = false;
                self.say("another client has the keyboard now; you go on watching");
            }
            Ok(
                StreamEvent::Lost
                | StreamEvent::Resumed
                | StreamEvent::InputClosed
                | StreamEvent::Live,
            ) => {}
            Ok(StreamEvent::Exited(ending)) => self.ended = Some(ending),
            Ok(StreamEvent::Detached) => return Ok(true),
            Err(error) => return Err(unknown(&self.whose, error)),
        }
        Ok(false)
    }

    fn type_in(&mut self, typed: &[u8]) {
        let Typed { keys, mut detach } = self.leader.take(typed);
        if self.keyboard && !keys.is_empty() {
            // Its end is the stream's, and that is heard there.
            self.typed.send(ToSend::Keys(keys.into())).ok();
        } else if self.only_watches {
            detach |= keys.contains(&INTERRUPT);
        }
        if detach && self.leave_by.is_none() {
            self.leave_by = Some(Instant::now() + TAKE_LIMIT);
            if self.typed.send(ToSend::Leave).is_err() {
                self.handle.detach();
            }
        }
    }

    fn tell_size(&self) {
        if self.keyboard {
            self.handle.resize(super::size());
        }
    }

    /// Words between the lines of a program, unless the caller wants none.
    fn say(&mut self, text: &str) {
        if !self.context.printer.is_quiet() && self.writer.has_room() {
            self.tell(text);
        }
    }

    /// The same, of what must not go untold: with the carriage returns that a raw terminal needs.
    fn tell(&mut self, text: &str) {
        let plain: String = text.chars().filter(|letter| !letter.is_control()).collect();
        let line = format!("\r\n[{plain}]\r\n");
        // Words that cannot be said cost nothing.
        self.writer.write(Stream::Stderr, line.into(), 0).ok();
    }

    fn runs_on(&self) -> String {
        let (words, stop) = (self.whose.words(), self.whose.command("stop"));
        format!("{words} runs on: stop it with `{stop}`")
    }

    fn gone(&self, error: &io::Error) -> Failure {
        let message = format!("the terminal is gone; {}", self.runs_on());
        self.whose.in_details(Failure::new(ErrorCode::OutputFailed, message).because(error))
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// What means something to who has a terminal: the leader, and the signals that come from now on.
#[derive(Debug)]
pub(crate) struct TerminalSignals {
    /// The key before those that are ours.
    leader: LeaderKey,
    resized: tokio::signal::unix::Signal,
    continued: tokio::signal::unix::Signal,
    leave: Vec<(Signal, tokio::signal::unix::Signal)>,
}

impl TerminalSignals {
    /// Takes them.
    ///
    /// # Errors
    /// What sigaction(2) says.
    pub(crate) fn listen(leader: LeaderKey) -> io::Result<Self> {
        let leave = LEAVE
            .into_iter()
            .map(|it| Ok((it, signal(SignalKind::from_raw(it.number()))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            leader,
            resized: signal(SignalKind::window_change())?,
            continued: signal(SignalKind::from_raw(Signal::CONT.number()))?,
            leave,
        })
    }

    /// The next of them. Cancelling loses none.
    async fn next(&mut self) -> Event {
        let leave = std::future::poll_fn(|cx| {
            for (which, stream) in &mut self.leave {
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*which);
                }
            }
            std::task::Poll::Pending
        });
        tokio::select! {
            which = leave => Event::Leave(which),
            _ = self.resized.recv() => Event::Resized,
            _ = self.continued.recv() => Event::Continued,
        }
    }
}
