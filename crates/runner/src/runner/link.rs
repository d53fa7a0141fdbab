//! The runner's side of one socket.

use std::fmt;
use std::time::Duration;

use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::wire::{Refusal, Reply, Request, StreamFrame};

/// How often the hub is pinged.
const PING: Duration = Duration::from_secs(10);

/// How long nothing may be heard: a ping, and five seconds for its pong. A host that was suspended
/// leaves a socket that looks well for ever.
const SILENCE: Duration = Duration::from_secs(15);

/// How long a frame may take to be written.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// How long the last frame may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// How many frames wait to be written. Whoever has another waits, and so does what it reads from.
const FRAMES_AHEAD: usize = 16;

/// How a connection ended.
#[derive(Debug)]
pub enum Ended {
    /// The hub closed it, with this code and reason if it gave any.
    ByHub(Option<(u16, String)>),
    /// This end did, and said why.
    ByRunner(&'static str),
    /// Nothing was heard, or nothing taken, for too long.
    Silent,
    /// The socket failed.
    Failed(Error),
    /// This end was asked to leave.
    Left,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByHub(None) => f.write_str("the hub closed the connection"),
            Self::ByHub(Some((code, reason))) if reason.is_empty() => {
                write!(f, "the hub closed the connection with code {code}")
            }
            Self::ByHub(Some((code, reason))) => {
                // Foreign words.
                let reason: String = reason.chars().filter(|c| !c.is_control()).collect();
                write!(f, "the hub closed the connection with code {code}: {reason}")
            }
            Self::ByRunner(why) => write!(f, "this runner closed the connection: {why}"),
            Self::Silent => f.write_str("the hub is silent"),
            Self::Failed(error) => write!(f, "the connection broke: {error}"),
            Self::Left => f.write_str("this runner has left"),
        }
    }
}

/// What became of a connection.
#[derive(Debug)]
pub struct Served {
    /// How it ended.
    pub ended: Ended,
    /// Whether the hub has used it: a request has come, or an answer to a ping.
    pub was_healthy: bool,
}

/// Where replies and stream frames of one connection go. Once it has ended they go nowhere.
#[derive(Clone, Debug)]
pub(super) struct Link {
    frames: mpsc::Sender<Outgoing>,
}

#[derive(Debug)]
enum Outgoing {
    Frame(String),
    Close(&'static str),
}

impl Link {
    /// Answers a request, unless it asked for no answer.
    pub(super) async fn reply(&self, id: u64, result: Result<Map<String, Value>, Refusal>) {
        if id != 0 {
            self.put(Outgoing::Frame(Reply { id, result }.text())).await;
        }
    }

    pub(super) async fn stream(&self, frame: &StreamFrame) {
        if let Some(text) = frame.text() {
            self.put(Outgoing::Frame(text)).await;
        }
    }

    /// Closes the connection.
    pub(super) async fn close(&self, why: &'static str) {
        self.put(Outgoing::Close(why)).await;
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        self.frames.closed().await;
    }

    async fn put(&self, outgoing: Outgoing) {
        // Nobody is there any more to be told.
        drop(self.frames.send(outgoing).await);
    }
}

/// Serves a socket until `leave` is done: hands each request to `take`, and writes what comes by the
/// link.
pub(super) async fn drive<T>(
    socket: WebSocketStream<T>,
    leave: impl Future<Output = ()> + Send,
    take: impl FnMut(Request, &Link) + Send,
) -> Served
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let mut was_healthy = false;
    let (mut sink, mut stream) = socket.split();
    let (sender, mut frames) = mpsc::channel(FRAMES_AHEAD);
    let link = Link { frames: sender };
    // Apart: a hub that reads slowly must still be heard, or two peers with full buffers would wait
    // for each other.
    let ended = tokio::select! {
        ended = read(&mut stream, &link, take, &mut was_healthy) => ended,
        ended = write(&mut sink, &mut frames) => ended,
        () = leave => Ended::Left,
    };
    let close = match &ended {
        Ended::ByRunner(why) => Some((CloseCode::Error, *why)),
        Ended::Left => Some((CloseCode::Away, "the runner leaves")),
        Ended::ByHub(_) | Ended::Silent | Ended::Failed(_) => None,
    };
    if let Some((code, why)) = close {
        let frame = CloseFrame { code, reason: why.into() };
        drop(timeout(CLOSE_LIMIT, goodbye(&mut sink, &mut stream, frame)).await);
    }
    Served { ended, was_healthy }
}

/// Says why, and waits until the hub has heard it: a socket that is closed while bytes of the other
/// side are unread is reset, and takes with it what was said last.
async fn goodbye(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    stream: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    frame: CloseFrame,
) {
    if sink.send(Message::Close(Some(frame))).await.is_ok() {
        while stream.next().await.is_some_and(|message| message.is_ok()) {}
    }
}

async fn read(
    stream: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    link: &Link,
    mut take: impl FnMut(Request, &Link),
    was_healthy: &mut bool,
) -> Ended {
    loop {
        let Ok(message) = timeout(SILENCE, stream.next()).await else { return Ended::Silent };
        *was_healthy |= matches!(message, Some(Ok(Message::Text(_) | Message::Pong(_))));
        match message {
            Some(Ok(Message::Text(text))) => match Request::read(&text) {
                Ok(request) => take(request, link),
                // Without the frame: it may hold what nobody should read in a log.
                Err(error) => tracing::warn!("a frame is left aside: {error}"),
            },
            Some(Ok(Message::Binary(bytes))) => {
                tracing::warn!("a binary frame of {} bytes is left aside", bytes.len());
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(frame))) => {
                let told = |frame: CloseFrame| (u16::from(frame.code), frame.reason.to_string());
                return Ended::ByHub(frame.map(told));
            }
            Some(Err(Error::ConnectionClosed)) | None => return Ended::ByHub(None),
            Some(Err(error)) => return Ended::Failed(error),
        }
    }
}

async fn write(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    frames: &mut mpsc::Receiver<Outgoing>,
) -> Ended {
    let mut ping = interval_at(Instant::now() + PING, PING);
    loop {
        let message = tokio::select! {
            frame = frames.recv() => match frame {
                Some(Outgoing::Frame(text)) => Message::text(text),
                Some(Outgoing::Close(why)) => return Ended::ByRunner(why),
                // The reader holds a link for as long as it reads.
                None => return Ended::ByHub(None),
            },
            _ = ping.tick() => Message::Ping(Vec::new().into()),
        };
        match timeout(WRITE_LIMIT, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Ended::Failed(error),
            Err(_elapsed) => return Ended::Silent,
        }
    }
}
