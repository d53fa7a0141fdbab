//! One WebSocket of an attach.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Sink, Stream};
use minimal_proto::TerminalSize;
use minimal_proto::stream;
use minimal_proto::stream::{
    ClientMessage, InputFrame, MAX_BINARY, OUTPUT_HEADER, OutputFrame, REPAINT, SUBPROTOCOL,
    ServerMessage,
};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use uuid::Uuid;

use super::AttachOptions;
use crate::http::{ANSWER_LIMIT, Call};
use crate::{CallError, Client, Subject};

/// An open WebSocket whose first message was read.
#[derive(Debug)]
pub(super) struct Connection {
    socket: WebSocketStream<UnixStream>,
    pub(super) since: Instant,
    /// Whether something was handed to the socket that it has not written.
    dirty: bool,
    /// Whether writing has failed.
    broken: bool,
}

/// The first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) from: u64,
    pub(super) input_offset: u64,
    pub(super) input_open: bool,
    pub(super) tty: bool,
}

/// A message of the daemon.
#[derive(Debug)]
pub(super) enum Incoming {
    Output {
        stream: stream::Stream,
        offset: u64,
        bytes: Bytes,
    },
    /// A part of what brings a terminal to show what was there.
    Repaint(Bytes),
    Message(ServerMessage),
    /// Bytes that are no message of this protocol.
    Nonsense(&'static str),
}

/// How the connection is given up: it tells nothing about the box.
#[derive(Debug)]
pub(super) struct Closed;

impl Connection {
    /// Connects, and waits for `attached`. Without `from` the screen is asked for that the options name.
    pub(super) async fn open(
        client: &Client,
        subject: Subject,
        options: &AttachOptions,
        identity: Uuid,
        from: Option<u64>,
    ) -> Result<(Self, Attached), CallError> {
        let mut target = subject.target("/attach").with_some("from", from);
        if let (None, Some(TerminalSize { cols, rows })) = (from, options.screen) {
            target = target.with_some("cols", Some(cols)).with_some("rows", Some(rows));
        }
        if options.input {
            target = target.with("input", "true");
        }
        if options.pin {
            target = target.with("pin", "true");
        }
        let call = Call::get(target.with_some("client", Some(identity)));
        let what = call.what();
        let (socket, read) = client.http().upgrade(call, SUBPROTOCOL).await?;
        let socket = WebSocketStream::from_partially_read(
            socket,
            read.to_vec(),
            Role::Client,
            Some(config()),
        )
        .await;
        let mut connection = Self { socket, since: Instant::now(), dirty: false, broken: false };
        let wrong = |why| CallError::Upgrade { what: what.clone(), why };
        let first = std::future::poll_fn(|cx| connection.poll_next(cx));
        match timeout(ANSWER_LIMIT, first).await {
            Err(_elapsed) => Err(CallError::Silent { what, limit: ANSWER_LIMIT }),
            Ok(Err(Closed)) => Err(CallError::Closed { what }),
            Ok(Ok(Incoming::Message(ServerMessage::Attached {
                box_id,
                exec,
                from,
                input_offset,
                input_open,
                tty,
                ..
            }))) => match (Subject { box_id, exec }) == subject {
                true => Ok((connection, Attached { from, input_offset, input_open, tty })),
                false => Err(wrong("it is another's")),
            },
            Ok(Ok(Incoming::Message(ServerMessage::Error(body)))) => {
                Err(CallError::Api(Box::new(body)))
            }
            Ok(Ok(_)) => Err(wrong("its first message is not `attached`")),
        }
    }

    /// Whether something more may be handed to the socket. Never once writing has failed: what
    /// can still be read is read first, it may be the ending.
    pub(super) fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.broken {
            return Poll::Pending;
        }
        let ready = Pin::new(&mut self.socket).poll_ready(cx);
        self.unless_failed(&ready)
    }

    /// Hands input to the socket.
    pub(super) fn start_input(&mut self, offset: u64, bytes: &[u8]) {
        let frame = InputFrame { offset, bytes }.encode();
        self.start_send(Message::Binary(frame.into()));
    }

    /// Hands a message to the socket.
    pub(super) fn start_message(&mut self, message: &ClientMessage) {
        let text = serde_json::to_string(message).expect("messages have text keys");
        self.start_send(Message::Text(text.into()));
    }

    fn start_send(&mut self, message: Message) {
        self.dirty = true;
        self.broken |= Pin::new(&mut self.socket).start_send(message).is_err();
    }

    /// Writes what was handed to the socket.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.dirty || self.broken {
            return Poll::Ready(());
        }
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        let flushed = self.unless_failed(&flushed);
        self.dirty = flushed.is_pending();
        flushed
    }

    /// Whether writing has failed.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    fn unless_failed(&mut self, poll: &Poll<Result<(), Error>>) -> Poll<()> {
        match poll {
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Ready(Err(_)) => {
                self.broken = true;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// The next message of the daemon.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Incoming, Closed>> {
        loop {
            let message = match Pin::new(&mut self.socket).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(message))) => message,
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(Closed)),
            };
            return Poll::Ready(Ok(match message {
                Message::Binary(bytes) => match OutputFrame::parse(&bytes) {
                    Some(OutputFrame { stream, offset, .. }) => {
                        Incoming::Output { stream, offset, bytes: bytes.slice(OUTPUT_HEADER..) }
                    }
                    None if bytes.first() == Some(&REPAINT) && bytes.len() >= OUTPUT_HEADER => {
                        Incoming::Repaint(bytes.slice(OUTPUT_HEADER..))
                    }
                    None => Incoming::Nonsense("a binary message names no output"),
                },
                Message::Text(text) => match serde_json::from_str(text.as_str()) {
                    Ok(message) => Incoming::Message(message),
                    Err(_) => Incoming::Nonsense("a text message cannot be read"),
                },
                // The socket answers pings itself; the answer is to be written.
                Message::Ping(_) => {
                    self.dirty = true;
                    continue;
                }
                Message::Pong(_) | Message::Close(_) | Message::Frame(_) => continue,
            }));
        }
    }
}

/// A read as long as a Unix socket's default buffer (`net.core.wmem_default`, 208 KiB) can give at
/// once; messages of the protocol's size, and a little for what WebSocket adds.
fn config() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(256 << 10)
        .write_buffer_size(64 << 10)
        .max_message_size(Some(MAX_BINARY + 1024))
        .max_frame_size(Some(MAX_BINARY + 1024))
}
