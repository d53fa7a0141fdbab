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
use minimal_proto::{BoxId, Ending, ErrorBody, ErrorCode, ExecId, Signal};
use minimal_store::Chunk;
use tokio::sync::{mpsc, oneshot};

use super::input::{InputFault, InputGate};
use super::output;
use super::source::LogSource;
use crate::boxes::{Command, Input, Line, Outcome, PinSeat, Unseated, WriterSeat};
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
    /// Whoever serves it; none for what has ended.
    pub(crate) line: Option<Arc<Line>>,
    pub(crate) writer: Option<WriterSeat>,
    pub(crate) pin: Option<PinSeat>,
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
    let Attachment { id, exec, source, line, writer, pin } = attachment;
    let (mut sink, mut incoming) = socket.split();
    let (say, said) = mpsc::channel(SAYINGS);
    let output = OutputHalf { id, exec, source, writes: writer.is_some(), said };
    let from = writer.as_ref().map(|seat| seat.from);
    let input = InputHalf { line, gate: InputGate::new(from.unwrap_or(0)), writer, pin, say };
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
    writes: bool,
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
            tty: false,
        };
        sink.send(text(&attached)).await?;
        let mut told_live = false;
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
                    Outcome::Open => sink.flush().await?,
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
    writer: Option<WriterSeat>,
    pin: Option<PinSeat>,
    say: mpsc::Sender<ServerMessage>,
}

impl InputHalf {
    /// Completes when the client is gone, or has to connect again.
    async fn run(mut self, incoming: &mut SplitStream<WebSocket>) {
        loop {
            let message = tokio::select! {
                message = incoming.next() => message,
                taken_over = unseated(self.writer.as_ref()) => {
                    if taken_over {
                        self.end(ErrorBody::new(
                            ErrorCode::InputHeld,
                            "a newer connection of this client writes the input",
                        ))
                        .await;
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
            match handled {
                Ok(()) => {}
                Err(Refusal::Fault(error)) => self.end(error).await,
                Err(Refusal::Unseated) => {}
            }
        }
    }

    async fn on_input(&mut self, message: &Bytes) -> Result<(), Refusal> {
        let frame = InputFrame::parse(message).ok_or_else(|| {
            ErrorBody::new(ErrorCode::BadRequest, "an input message is too short")
        })?;
        let (Some(writer), Some(line)) = (&self.writer, &self.line) else {
            // The box takes no input, as `attached` has said, or this client asked not to write.
            return Ok(());
        };
        let accepted = line.flow.borrow().input_offset;
        let known = self.gate.take(frame.offset, frame.bytes.len(), accepted)?;
        let offset = frame.offset + known as u64;
        let bytes = message.slice_ref(&frame.bytes[known..]);
        if !bytes.is_empty() {
            writer.send(Input::Bytes { offset, bytes }).await?;
        }
        Ok(())
    }

    async fn on_text(&mut self, words: &str) -> Result<(), Refusal> {
        let message = serde_json::from_str(words).map_err(|error| {
            ErrorBody::new(ErrorCode::BadRequest, format!("a message cannot be read: {error}"))
        })?;
        match message {
            ClientMessage::Eof => {
                if let Some(writer) = &self.writer {
                    writer.send(Input::Eof { offset: self.gate.received() }).await?;
                }
            }
            ClientMessage::Signal { name } => self.signal(name).await,
            ClientMessage::Read { offset } => {
                if let Some(pin) = &self.pin {
                    pin.read(offset);
                }
            }
            ClientMessage::Detach => {
                // Left before it is said, so that the seats are free once the client hears it.
                self.writer = None;
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
                let text = format!("{signal} was not sent: {}", error.message);
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

/// Why a message was not taken.
enum Refusal {
    Fault(ErrorBody),
    Unseated,
}

impl From<ErrorBody> for Refusal {
    fn from(fault: ErrorBody) -> Self {
        Self::Fault(fault)
    }
}

impl From<InputFault> for Refusal {
    fn from(fault: InputFault) -> Self {
        Self::Fault(fault.into())
    }
}

impl From<Unseated> for Refusal {
    fn from(_: Unseated) -> Self {
        Self::Unseated
    }
}

/// Completes once the writer's seat is lost; never, without one.
async fn unseated(writer: Option<&WriterSeat>) -> bool {
    match writer {
        Some(seat) => {
            seat.unseated().await;
            seat.is_taken_over()
        }
        None => std::future::pending().await,
    }
}

fn text(message: &ServerMessage) -> Message {
    Message::text(serde_json::to_string(message).expect("messages have string keys only"))
}
