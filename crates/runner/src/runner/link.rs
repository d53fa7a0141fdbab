//! The runner's side of one socket.

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

/// Serves a socket: hands each request to `take`, and writes what comes by the link.
pub(super) async fn drive<T>(
    socket: WebSocketStream<T>,
    take: impl FnMut(Request, &Link) + Send,
) -> Ended
where
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut stream) = socket.split();
    let (sender, mut frames) = mpsc::channel(FRAMES_AHEAD);
    let link = Link { frames: sender };
    // Apart: a hub that reads slowly must still be heard, or two peers with full buffers would wait
    // for each other.
    let ended = tokio::select! {
        ended = read(&mut stream, &link, take) => ended,
        ended = write(&mut sink, &mut frames) => ended,
    };
    if let Ended::ByRunner(why) = ended {
        let frame = CloseFrame { code: CloseCode::Error, reason: why.into() };
        drop(timeout(CLOSE_LIMIT, sink.send(Message::Close(Some(frame)))).await);
    }
    ended
}

async fn read(
    stream: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    link: &Link,
    mut take: impl FnMut(Request, &Link),
) -> Ended {
    loop {
        let Ok(message) = timeout(SILENCE, stream.next()).await else { return Ended::Silent };
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
