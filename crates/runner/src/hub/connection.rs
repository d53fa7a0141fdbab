//! One runner's socket.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

use super::routes::{Routes, malformed};
use crate::contract::{
    Answer, CommandStream, SandboxError, StreamFault, Unavailable, command_stream,
};
use crate::wire::{Op, Request, Results, ToHub, close};

/// How often the runner is pinged.
const PING: Duration = Duration::from_secs(20);

/// How long a connection may be silent.
const IDLE: Duration = Duration::from_secs(120);

/// How long a frame may take to be written.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// How long the last frame of a connection may take.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// A runner that is connected. Clones are the same one. Calls on it answer `runner_offline` once the
/// connection is closed.
#[derive(Clone, Debug)]
pub struct Connection {
    routes: Arc<Mutex<Routes>>,
    to_runner: mpsc::UnboundedSender<ToRunner>,
}

#[derive(Debug)]
enum ToRunner {
    Frame(String),
    Close(Hangup),
}

/// Why a hub hangs up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hangup {
    /// The hub is done.
    Normal,
    /// The runner has sent what is no JSON text.
    NotJsonText,
    /// The runner was deleted.
    Deleted,
    /// Another connection has its name.
    AlreadyConnected,
}

impl Hangup {
    fn frame(self) -> CloseFrame {
        let (code, reason) = match self {
            Self::Normal => (1000, "done"),
            Self::NotJsonText => (close::NOT_JSON_TEXT, "frames must be JSON text"),
            Self::Deleted => (close::DELETED, "runner deleted"),
            Self::AlreadyConnected => {
                (close::ALREADY_CONNECTED, "a runner of that name is already connected")
            }
        };
        CloseFrame { code: CloseCode::from(code), reason: reason.into() }
    }
}

/// How a connection ended.
#[derive(Debug)]
pub enum Served {
    /// The runner closed it, or was gone.
    ByRunner,
    /// This side did.
    ByHub(Hangup),
    /// Nothing came for two minutes, or nothing was taken for half of one.
    Silent,
    /// The socket failed.
    Failed(Error),
}

impl Connection {
    /// A connection, and the future that serves its socket until it ends. When that is dropped the
    /// connection is closed.
    pub fn serve<S>(socket: WebSocketStream<S>) -> (Self, impl Future<Output = Served> + Send)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (to_runner, frames) = mpsc::unbounded_channel();
        let connection = Self { routes: Arc::default(), to_runner };
        let closing = CloseOnDrop(connection.clone());
        (connection, async move { drive(socket, frames, &closing.0).await })
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, text: String) {
        // A socket that is gone has told, or tells, everybody who waits.
        drop(self.to_runner.send(ToRunner::Frame(text)));
    }

    /// Closes it.
    pub fn hang_up(&self, why: Hangup) {
        drop(self.to_runner.send(ToRunner::Close(why)));
    }

    /// Asks for something and waits for the answer; for at most `limit`, if there is one.
    ///
    /// # Errors
    /// The runner's, or `Unavailable`: `runner_offline`, `runner_disconnected`, `runner_timeout`.
    pub async fn call(&self, op: &Op, limit: Option<Duration>) -> Answer<Map<String, Value>> {
        self.ask(op, limit, None).await.map(|(result, _)| result)
    }

    async fn ask(
        &self,
        op: &Op,
        limit: Option<Duration>,
        subscribe: Option<crate::contract::Emitter>,
    ) -> Answer<(Map<String, Value>, u64)> {
        let (id, answer) = {
            let mut routes = self.routes();
            let noted = routes.note(subscribe)?;
            // Under the lock, so that ids are on the wire in their order.
            self.send(Request::text(noted.0, op));
            noted
        };
        let answer = match limit {
            None => answer.await,
            Some(limit) => timeout(limit, answer)
                .await
                .map_err(|_elapsed| SandboxError::Unavailable(Unavailable::RunnerTimeout))?,
        };
        let lost = SandboxError::Unavailable(Unavailable::RunnerDisconnected);
        answer.map_err(|_gone| lost)?.map(|result| (result, id))
    }

    /// Opens a session by `spawn` or `attach`: its id, the subscription's, and its events.
    ///
    /// # Errors
    /// As for [`Self::call`]; and if the answer names no session, or another one.
    pub async fn open(
        &self,
        op: &Op,
        limit: Option<Duration>,
    ) -> Answer<(String, u64, CommandStream)> {
        let (emitter, stream) = command_stream(StreamFault::RunnerDisconnected);
        let (result, id) = self.ask(op, limit, Some(emitter)).await?;
        let word = op.word();
        let wrong =
            || malformed(&format!("malformed_{word}_reply"), &Value::Object(result.clone()));
        let session = Results::read_session(&result).ok_or_else(wrong)?;
        if let Op::Attach { session_id, .. } = op
            && *session_id != session
        {
            self.unsubscribe(&session, id);
            return Err(wrong());
        }
        Ok((session, id, stream))
    }

    /// Ends a subscription. As often as one likes.
    pub fn unsubscribe(&self, session: &str, id: u64) {
        let mut routes = self.routes();
        if let Some(op) = routes.unsubscribe(session, id) {
            self.send(Request::text(0, &op));
        }
    }
}

/// Tells everybody who waits, however the serving ends.
struct CloseOnDrop(Connection);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.routes().close();
    }
}

async fn drive<S>(
    socket: WebSocketStream<S>,
    mut frames: mpsc::UnboundedReceiver<ToRunner>,
    connection: &Connection,
) -> Served
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (mut sink, mut stream) = socket.split();
    // Apart: a runner that reads slowly must still be heard, or two peers with full buffers would
    // wait for each other.
    let served = tokio::select! {
        served = read(&mut stream, connection) => served,
        served = write(&mut sink, &mut frames) => served,
    };
    if let Served::ByHub(hangup) = served {
        // A peer that does not take it is left with a socket that closes.
        drop(timeout(CLOSE_LIMIT, goodbye(&mut sink, &mut stream, hangup.frame())).await);
    }
    served
}

/// Says why, and waits until the runner has heard it: a socket that is closed while bytes of the other
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
    connection: &Connection,
) -> Served {
    loop {
        let Ok(message) = timeout(IDLE, stream.next()).await else { return Served::Silent };
        match message {
            Some(Ok(Message::Text(text))) => {
                let Ok(frame) = ToHub::read(&text) else {
                    return Served::ByHub(Hangup::NotJsonText);
                };
                let mut routes = connection.routes();
                if let Some(op) = routes.take(frame) {
                    connection.send(Request::text(0, &op));
                }
            }
            Some(Ok(Message::Binary(_))) => return Served::ByHub(Hangup::NotJsonText),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
            Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed)) | None => {
                return Served::ByRunner;
            }
            Some(Err(error)) => return Served::Failed(error),
        }
    }
}

async fn write(
    sink: &mut (impl Sink<Message, Error = Error> + Unpin),
    frames: &mut mpsc::UnboundedReceiver<ToRunner>,
) -> Served {
    let mut ping = interval_at(Instant::now() + PING, PING);
    loop {
        let message = tokio::select! {
            frame = frames.recv() => match frame {
                Some(ToRunner::Frame(text)) => Message::text(text),
                Some(ToRunner::Close(why)) => return Served::ByHub(why),
                None => return Served::ByHub(Hangup::Normal),
            },
            _ = ping.tick() => Message::Ping(Vec::new().into()),
        };
        match timeout(WRITE_LIMIT, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Served::Failed(error),
            Err(_elapsed) => return Served::Silent,
        }
    }
}
