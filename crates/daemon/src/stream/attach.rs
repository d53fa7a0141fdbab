//! An attached client: the protocol of `docs/reference/wire.md`, section 8.
//!
//! Two halves over one connection, in one task. The output half owns what is said to the client,
//! and says the one terminal message. The input half ends when the client is gone, and with it
//! everything: no terminal message, since nobody is there to hear it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use minimal_proto::error::Chain;
use minimal_proto::stream::{ClientMessage, InputFrame, ServerMessage};
use minimal_proto::{BoxId, Ending, ErrorBody, ErrorCode, ExecId, Signal, TerminalSize};
use minimal_store::Chunk;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::input::InputGate;
use super::outlet::Outlet;
use super::output;
use super::source::LogSource;
use crate::boxes::{Command, Line, Outcome, PinSeat, TakenOver, WriterSeat};
use crate::hooks;
use crate::host::Host;

/// How long a client may take to close its side after the terminal message.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// What the input half may have to say at a time.
const SAYINGS: usize = 4;

/// What a client is attached to, and as what.
#[derive(Debug)]
pub(crate) struct Attachment {
    pub(crate) id: BoxId,
    /// The exec in it; none: the box itself.
    pub(crate) exec: Option<ExecId>,
    pub(crate) source: LogSource,
    /// Whether it is a terminal's.
    pub(crate) tty: bool,
    /// Whoever serves it; none for what has ended.
    pub(crate) line: Option<Arc<Line>>,
    pub(crate) writer: Option<WriterSeat>,
    pub(crate) pin: Option<PinSeat>,
    /// What brings the client's terminal to show what is there.
    pub(crate) repaint: Option<Bytes>,
}

/// Why the output half stopped.
enum Stop {
    /// It has said the terminal message.
    Said,
    /// The connection or the actor is gone.
    Lost,
}

type Sink = SplitSink<WebSocket, Message>;

/// Serves an attached client until one of both has nothing more to say.
pub(crate) async fn serve(host: Arc<Host>, socket: WebSocket, attachment: Attachment) {
    host.streams.fetch_add(1, Ordering::Relaxed);
    let Attachment { id, exec, source, tty, line, writer, pin, repaint } = attachment;
    let (mut sink, mut incoming) = socket.split();
    let (say, said) = mpsc::channel(SAYINGS);
    let output = OutputHalf { id, exec, source, tty, writes: writer.is_some(), repaint, said };
    let from = writer.as_ref().map(|seat| seat.from);
    let gate = InputGate::new(writer.as_ref().map_or(0, |seat| seat.received));
    let (outlet, room) = (writer.map(Outlet::new), Arc::clone(&host.input_room));
    let input = InputHalf { line, gate, outlet, room, pin, say };
    let stop = tokio::select! {
        stop = output.run(&mut sink, from) => stop,
        () = input.run(&mut incoming) => Stop::Lost,
    };
    if let Stop::Said = stop {
        let closing = async {
            if sink.send(Message::Close(None)).await.is_ok() {
                while let Some(Ok(_)) = incoming.next().await {}
            }
        };
        // A client that does not close is closed.
        drop(tokio::time::timeout(CLOSE_LIMIT, closing).await);
    }
    host.streams.fetch_sub(1, Ordering::Relaxed);
}

struct OutputHalf {
    id: BoxId,
    exec: Option<ExecId>,
    source: LogSource,
    tty: bool,
    writes: bool,
    repaint: Option<Bytes>,
    said: mpsc::Receiver<ServerMessage>,
}

impl OutputHalf {
    async fn run(mut self, sink: &mut Sink, input_from: Option<u64>) -> Stop {
        match self.talk(sink, input_from).await {
            Ok(stop) => stop,
            // The client is gone.
            Err(_) => Stop::Lost,
        }
    }

    async fn talk(
        &mut self,
        sink: &mut Sink,
        input_from: Option<u64>,
    ) -> Result<Stop, axum::Error> {
        let first = self.source.standing();
        let live_at = first.log_end;
        let mut told_input = (input_from.unwrap_or(first.input_offset), first.input_open);
        let attached = ServerMessage::Attached {
            box_id: self.id,
            exec: self.exec,
            from: self.source.position(),
            end: first.log_end,
            input_offset: told_input.0,
            input_open: told_input.1,
            tty: self.tty,
        };
        sink.send(text(&attached)).await?;
        if let Some(repaint) = self.repaint.take() {
            for message in output::repaint(&repaint, self.source.position()) {
                sink.feed(Message::Binary(message)).await?;
            }
        }
        let mut told_live = false;
        let mut told_notice = None;
        loop {
            let standing = self.source.standing();
            if self.writes {
                if standing.input_offset > told_input.0 {
                    told_input.0 = standing.input_offset;
                    let accepted = ServerMessage::InputAccepted { offset: standing.input_offset };
                    sink.feed(text(&accepted)).await?;
                }
                if told_input.1 && !standing.input_open {
                    told_input.1 = false;
                    sink.feed(text(&ServerMessage::InputClosed)).await?;
                }
            }
            let read = match self.source.read(standing.log_end).await {
                Ok(read) => read,
                Err(error) => {
                    let body = ErrorBody::new(ErrorCode::Broken, Chain(&error).to_string());
                    sink.send(text(&ServerMessage::Error(body))).await?;
                    return Ok(Stop::Said);
                }
            };
            let caught_up = read.is_none();
            if let Some(chunk) = read {
                self.send(sink, &chunk).await?;
            }
            if !told_live && self.source.position() >= live_at {
                told_live = true;
                sink.feed(text(&ServerMessage::Live)).await?;
            }
            if caught_up {
                match standing.outcome {
                    Outcome::Open => {
                        if told_notice != standing.notice {
                            told_notice.clone_from(&standing.notice);
                            if let Some(words) = &standing.notice {
                                let text = words.to_string();
                                sink.feed(self::text(&ServerMessage::Notice { text })).await?;
                            }
                        }
                        sink.flush().await?;
                    }
                    Outcome::Ended(ending) => return say_ending(sink, &ending).await,
                    Outcome::Unknown(error) => {
                        sink.send(text(&ServerMessage::Error((*error).clone()))).await?;
                        return Ok(Stop::Said);
                    }
                }
            }
            if let Some(stop) = self.wait(sink, caught_up).await? {
                return Ok(stop);
            }
        }
    }

    async fn send(&self, sink: &mut Sink, chunk: &Chunk) -> Result<(), axum::Error> {
        match chunk {
            Chunk::Frames(frames) => {
                for message in output::messages(frames) {
                    sink.feed(Message::Binary(message)).await?;
                }
                Ok(())
            }
            Chunk::Gap { from, to } => {
                sink.feed(text(&ServerMessage::Gap { from: *from, to: *to })).await
            }
        }
    }

    /// Passes on what the input half has to say; if everything was read, waits for that or for
    /// something to change.
    async fn wait(&mut self, sink: &mut Sink, idle: bool) -> Result<Option<Stop>, axum::Error> {
        let message = if idle {
            tokio::select! {
                message = self.said.recv() => message,
                changed = self.source.changed() => {
                    // An actor that goes has sealed, unless the daemon is leaving.
                    let known = changed || !self.source.standing().is_open();
                    return Ok((!known).then_some(Stop::Lost));
                }
            }
        } else {
            self.said.try_recv().ok()
        };
        let Some(message) = message else { return Ok(None) };
        if let ServerMessage::KeyboardLost { .. } = message {
            self.writes = false;
        }
        sink.send(text(&message)).await?;
        Ok(message.is_terminal().then_some(Stop::Said))
    }
}

async fn say_ending(sink: &mut Sink, ending: &Ending) -> Result<Stop, axum::Error> {
    if hooks::pass("daemon.stream.before_exited").await.is_err() {
        return Ok(Stop::Lost);
    }
    sink.send(text(&ServerMessage::Exited { ending: ending.clone() })).await?;
    Ok(Stop::Said)
}

struct InputHalf {
    line: Option<Arc<Line>>,
    gate: InputGate,
    outlet: Option<Outlet>,
    room: Arc<Semaphore>,
    pin: Option<PinSeat>,
    say: mpsc::Sender<ServerMessage>,
}

impl InputHalf {
    /// Completes when the client is gone, or has to connect again.
    async fn run(mut self, incoming: &mut SplitStream<WebSocket>) {
        self.serve(incoming).await;
        if let Some(outlet) = self.outlet.take() {
            outlet.leave();
        }
    }

    async fn serve(&mut self, incoming: &mut SplitStream<WebSocket>) {
        loop {
            let message = tokio::select! {
                message = incoming.next() => message,
                taken_over = pass_on(self.outlet.as_mut()) => {
                    match taken_over {
                        Some(TakenOver::By(to)) => {
                            self.outlet = None;
                            self.tell(ServerMessage::KeyboardLost { to }).await;
                            continue;
                        }
                        Some(TakenOver::ByItself) => {
                            self.end(ErrorBody::new(
                                ErrorCode::InputHeld,
                                "a newer connection of this client writes the input",
                            ))
                            .await;
                        }
                        None => {}
                    }
                    return;
                }
            };
            let handled = match message {
                Some(Ok(Message::Binary(bytes))) => self.on_input(&bytes).await,
                Some(Ok(Message::Text(words))) => self.on_text(words.as_str()).await,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
            };
            if let Err(fault) = handled {
                self.end(fault).await;
            }
        }
    }

    async fn on_input(&mut self, message: &Bytes) -> Result<(), ErrorBody> {
        let frame = InputFrame::parse(message).ok_or_else(|| {
            ErrorBody::new(ErrorCode::BadRequest, "an input message is too short")
        })?;
        let (Some(outlet), Some(line)) = (&mut self.outlet, &self.line) else {
            // No input is taken, as `attached` has said, or this client asked not to write.
            return Ok(());
        };
        let accepted = line.flow.borrow().input_offset;
        let known = self.gate.take(frame.offset, frame.bytes.len(), accepted)?;
        outlet.take(&message.slice_ref(&frame.bytes[known..]), &self.room).await;
        Ok(())
    }

    async fn on_text(&mut self, words: &str) -> Result<(), ErrorBody> {
        let message = serde_json::from_str(words).map_err(|error| {
            ErrorBody::new(ErrorCode::BadRequest, format!("a message cannot be read: {error}"))
        })?;
        match message {
            ClientMessage::Eof => {
                if let Some(outlet) = &mut self.outlet {
                    outlet.end(self.gate.received());
                }
            }
            ClientMessage::Signal { name } => self.signal(name).await,
            ClientMessage::Resize { cols, rows } => {
                let size = TerminalSize { cols, rows };
                if let (Some(_), Some(line)) = (&self.outlet, &self.line) {
                    line.resize(size).await;
                }
            }
            ClientMessage::Read { offset } => {
                if let Some(pin) = &self.pin {
                    pin.read(offset);
                }
            }
            ClientMessage::Detach => {
                // Left before it is said, so that the seats are free once the client hears it.
                if let Some(outlet) = self.outlet.take() {
                    outlet.leave();
                }
                self.pin = None;
                self.tell(ServerMessage::Detached).await;
            }
            ClientMessage::Unknown => {}
        }
        Ok(())
    }

    async fn signal(&self, signal: Signal) {
        let Some(line) = &self.line else { return };
        let (reply, answer) = oneshot::channel();
        // In order with the client's other signals; its answer is waited for elsewhere.
        if line.commands.send(Command::Signal { signal, group: true, reply }).await.is_err() {
            return;
        }
        let say = self.say.clone();
        tokio::spawn(async move {
            if let Ok(Err(error)) = answer.await {
                let text = unsent(signal, &error);
                // The stream may have ended.
                drop(say.send(ServerMessage::Notice { text }).await);
            }
        });
    }

    async fn end(&self, error: ErrorBody) {
        self.tell(ServerMessage::Error(error)).await;
    }

    /// Has the output half say it. After a terminal message that half ends the connection.
    async fn tell(&self, message: ServerMessage) {
        let is_terminal = message.is_terminal();
        if self.say.send(message).await.is_ok() && is_terminal {
            std::future::pending::<()>().await;
        }
    }
}

/// Hands input on, and completes once the writer's seat is lost: to whom, if anybody has taken it. Never,
/// without a seat.
async fn pass_on(outlet: Option<&mut Outlet>) -> Option<TakenOver> {
    let Some(outlet) = outlet else { return std::future::pending().await };
    while !outlet.is_empty() {
        if outlet.pass_on().await.is_err() {
            return outlet.seat().taken_over();
        }
    }
    outlet.seat().unseated().await;
    outlet.seat().taken_over()
}

fn text(message: &ServerMessage) -> Message {
    Message::text(serde_json::to_string(message).expect("messages have string keys only"))
}

/// What a client is told of a signal that was not sent, or may not have been.
fn unsent(signal: Signal, error: &ErrorBody) -> String {
    match error.code {
        // Nobody has said that it was not.
        ErrorCode::Unresponsive => {
            format!("it is not known whether {signal} was sent: {}", error.message)
        }
        _ => format!("{signal} was not sent: {}", error.message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_nobody_has_answered_may_have_been_sent() {
        let words = |code| unsent(Signal::INT, &ErrorBody::new(code, "why"));
        assert_eq!(words(ErrorCode::WrongState), "SIGINT was not sent: why");
        assert_eq!(words(ErrorCode::Unresponsive), "it is not known whether SIGINT was sent: why");
    }
}
