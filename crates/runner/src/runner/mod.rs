//! The runner's end: a provider of sandboxes, served to a hub over one socket.
//!
//! ```text
//! socket ──requests──▶ Runner ──▶ a task per request ──▶ the provider
//!    ▲                   └ of a session ──▶ its task: attach, detach and input in the order of
//!    └──────replies, stream frames──────── the wire; reply and replay in one step
//! ```
//!
//! Sessions are the provider's and outlive the socket. What this end keeps beyond one connection is
//! of which sessions it has lost sight, so that whoever attaches again is not told so twice.

mod answers;
mod input;
mod link;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;

use self::link::Link;
pub use self::link::{Ended, Served};
use self::session::{SessionRequest, SessionTask};
use crate::contract::{Sandbox, SpawnOptions};
use crate::wire::{CommandLine, Op, Request, SandboxName};

/// A provider that is served to a hub, one connection after the other.
#[derive(Debug)]
pub struct Runner<S> {
    sandbox: S,
    unknown: Mutex<BTreeSet<Key>>,
}

/// A session: its sandbox, and its id there.
type Key = (SandboxName, String);

/// A command to be started.
struct Start {
    name: SandboxName,
    command: CommandLine,
    options: SpawnOptions,
}

/// The tasks of the sessions that one connection has to do with.
type Sessions = Arc<Mutex<BTreeMap<Key, mpsc::UnboundedSender<SessionRequest>>>>;

impl<S: Sandbox + 'static> Runner<S> {
    /// A runner that serves these sandboxes.
    #[must_use]
    pub fn new(sandbox: S) -> Arc<Self> {
        Arc::new(Self { sandbox, unknown: Mutex::default() })
    }

    /// Serves a connection until it ends. Commands run on.
    pub async fn serve<T>(self: &Arc<Self>, socket: WebSocketStream<T>) -> Ended
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        self.serve_until(socket, std::future::pending()).await.ended
    }

    /// Serves a connection until it ends, or `leave` is done and it is closed in good order. Commands
    /// run on.
    pub async fn serve_until<T>(
        self: &Arc<Self>,
        socket: WebSocketStream<T>,
        leave: impl Future<Output = ()> + Send,
    ) -> Served
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let sessions = Sessions::default();
        link::drive(socket, leave, |request, link| self.take(request, link, &sessions)).await
    }

    /// Sessions whose end this runner could not tell: never told as an exit.
    fn unknown(&self) -> MutexGuard<'_, BTreeSet<Key>> {
        self.unknown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to carry out a request. Never waits, so that the hub is always listened to.
    fn take(self: &Arc<Self>, request: Request, link: &Link, sessions: &Sessions) {
        let id = request.id;
        let (key, request) = match request.op {
            Ok(Op::Attach { name, session_id, .. }) => {
                ((name, session_id), SessionRequest::Attach { id })
            }
            Ok(Op::Stdin { name, session_id, data }) => {
                ((name, session_id), SessionRequest::Input { id, data: Some(data) })
            }
            Ok(Op::StdinClose { name, session_id }) => {
                ((name, session_id), SessionRequest::Input { id, data: None })
            }
            Ok(Op::Detach { session_id }) => {
                // It names no sandbox, and asks for no reply.
                for ((_, session), task) in table(sessions).iter() {
                    if *session == session_id {
                        drop(task.send(SessionRequest::Detach));
                    }
                }
                return;
            }
            op => {
                let (runner, link) = (Arc::clone(self), link.clone());
                let sessions = Arc::clone(sessions);
                drop(tokio::spawn(async move {
                    match op {
                        Ok(Op::Spawn { name, command, stdin, tty, .. }) => {
                            let options = SpawnOptions { stdin, tty };
                            let start = Start { name, command, options };
                            runner.spawn(id, start, &link, &sessions).await;
                        }
                        // Nobody can come back to it, and it may never end by itself.
                        Ok(op @ Op::Exec { .. }) => tokio::select! {
                            answer = answers::answer(&runner.sandbox, op) => {
                                link.reply(id, answer).await;
                            }
                            () = link.ended() => {}
                        },
                        Ok(op) => link.reply(id, answers::answer(&runner.sandbox, op).await).await,
                        Err(refusal) => link.reply(id, Err(refusal)).await,
                    }
                }));
                return;
            }
        };
        self.hand_on(key, request, link, sessions);
    }

    /// Hands a request to its session's task, and makes one if there is none.
    fn hand_on(
        self: &Arc<Self>,
        key: Key,
        request: SessionRequest,
        link: &Link,
        sessions: &Sessions,
    ) {
        let mut table = table(sessions);
        let request = match table.get(&key) {
            None => request,
            Some(task) => match task.send(request) {
                Ok(()) => return,
                Err(mpsc::error::SendError(request)) => request,
            },
        };
        let (task, requests) = mpsc::unbounded_channel();
        drop(task.send(request));
        table.insert(key.clone(), task);
        drop(table);
        let task = SessionTask::new(Arc::clone(self), link.clone(), key, requests);
        drop(tokio::spawn(task.run()));
    }

    /// Starts a command. Its session's task is there before the hub knows of it.
    async fn spawn(
        self: &Arc<Self>,
        id: u64,
        Start { name, command, options }: Start,
        link: &Link,
        sessions: &Sessions,
    ) {
        let handle = self.sandbox.handle(name.as_str());
        let (command, session, stream) = match self.sandbox.spawn(&handle, &command, &options).await
        {
            Ok((command, stream)) => (command.clone(), self.sandbox.session_id(&command), stream),
            Err(error) => return link.reply(id, Err(answers::refusal(&error))).await,
        };
        let key = (name, session);
        let (task, requests) = mpsc::unbounded_channel();
        table(sessions).insert(key.clone(), task);
        let task = SessionTask::new(Arc::clone(self), link.clone(), key, requests);
        drop(tokio::spawn(task.run_spawned(id, command, stream)));
    }
}

fn table(
    sessions: &Sessions,
) -> MutexGuard<'_, BTreeMap<Key, mpsc::UnboundedSender<SessionRequest>>> {
    sessions.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
