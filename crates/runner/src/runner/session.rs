//! One session as a connection sees it.
//!
//! ```text
//!          attach: reply, then from the first byte     attach: reply, replay of what was sent, tagged
//! unheard ───────────────────────────────▶ heard ──────────────────────────────▶ heard
//!    ▲                                       │ │
//!    └───────────────detach──────────────────┘ └── terminal: exit, or the connection is closed
//! ```
//!
//! Everything that is sent of a session is sent by this one task, so a reply and its replay are one
//! step: no frame of the session can come between them.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::input::Input;
use super::link::Link;
use super::{Key, Runner, answers};
use crate::contract::{CommandStream, Event, Handle, Sandbox, SandboxError, Terminal, Unavailable};
use crate::wire::{CHUNK_MAX, Output, Results, StreamFrame, StreamKind};

/// What the hub asks of a session.
#[derive(Debug)]
pub(super) enum SessionRequest {
    /// Somebody joins.
    Attach { id: u64 },
    /// Nobody listens any more.
    Detach,
    /// Bytes; none: their end.
    Input { id: u64, data: Option<Vec<u8>> },
}

/// The task of one session.
pub(super) struct SessionTask<S: Sandbox> {
    runner: Arc<Runner<S>>,
    link: Link,
    key: Key,
    handle: Handle,
    requests: mpsc::UnboundedReceiver<SessionRequest>,
    input: Option<Input>,
    heard: Option<Heard>,
}

/// What is sent to whoever listens.
struct Heard {
    stream: CommandStream,
    /// How many bytes of output have been sent, or told to be missing.
    sent: u64,
    /// The one who opened it, as long as nobody else has joined.
    only: Option<u64>,
}

impl<S: Sandbox + 'static> SessionTask<S> {
    pub(super) fn new(
        runner: Arc<Runner<S>>,
        link: Link,
        key: Key,
        requests: mpsc::UnboundedReceiver<SessionRequest>,
    ) -> Self {
        let handle = runner.sandbox.handle(key.0.as_str());
        Self { runner, link, key, handle, requests, input: None, heard: None }
    }

    /// Serves a session that was just started with the request `id`.
    pub(super) async fn run_spawned(mut self, id: u64, command: S::Command, stream: CommandStream) {
        self.input = Some(Input::of(&self.runner, &command, &self.link));
        self.link.reply(id, Ok(Results::session(&self.key.1))).await;
        self.heard = Some(Heard { stream, sent: 0, only: None });
        self.run().await;
    }

    /// Serves the session until the connection ends.
    pub(super) async fn run(mut self) {
        let link = self.link.clone();
        loop {
            tokio::select! {
                () = link.ended() => return,
                request = self.requests.recv() => match request {
                    Some(request) => self.carry_out(request).await,
                    None => return,
                },
                event = next_of(&mut self.heard) => self.send(event).await,
            }
        }
    }

    async fn carry_out(&mut self, request: SessionRequest) {
        match request {
            SessionRequest::Attach { id } => {
                if let Err(error) = self.attach(id).await {
                    self.link.reply(id, Err(answers::refusal(&error))).await;
                }
            }
            SessionRequest::Detach => self.heard = None,
            SessionRequest::Input { id, data } => {
                if self.input.is_none() {
                    match self.runner.sandbox.attach(&self.handle, &self.key.1).await {
                        Ok((command, _)) => {
                            self.input = Some(Input::of(&self.runner, &command, &self.link));
                        }
                        Err(error) => {
                            self.link.reply(id, Err(answers::refusal(&error))).await;
                            return;
                        }
                    }
                }
                if let Some(input) = &self.input {
                    input.put(id, data);
                }
            }
        }
    }

    async fn attach(&mut self, id: u64) -> Result<(), SandboxError> {
        self.is_not_unknown().await?;
        let attached = self.runner.sandbox.attach(&self.handle, &self.key.1).await;
        let (command, stream) = attached?;
        if self.input.is_none() {
            self.input = Some(Input::of(&self.runner, &command, &self.link));
        }
        self.link.reply(id, Ok(Results::session(&self.key.1))).await;
        match &mut self.heard {
            None => self.heard = Some(Heard { stream, sent: 0, only: Some(id) }),
            Some(heard) => {
                heard.only = None;
                let sent = heard.sent;
                self.replay(id, stream, sent).await;
            }
        }
        Ok(())
    }

    /// An end that was lost from sight may be known by now, or not have come: the provider is asked.
    async fn is_not_unknown(&self) -> Result<(), SandboxError> {
        if !self.runner.unknown().contains(&self.key) {
            return Ok(());
        }
        let sessions = self.runner.sandbox.list_sessions(&self.handle).await?;
        let session = sessions.into_iter().find(|session| session.id == self.key.1);
        let session = session.ok_or(SandboxError::NotFound)?;
        if session.has_ended && session.exit_code.is_none() {
            return Err(SandboxError::Unavailable(Unavailable::ExitUnknown));
        }
        self.runner.unknown().remove(&self.key);
        Ok(())
    }

    /// Sends the first `until` bytes for one subscriber; then it hears what all hear.
    async fn replay(&mut self, id: u64, mut stream: CommandStream, until: u64) {
        let mut sent = 0;
        while sent < until {
            match stream.next().await {
                Some(Event::Output(output, mut bytes)) => {
                    let room = usize::try_from(until - sent).unwrap_or(usize::MAX);
                    bytes.truncate(room);
                    sent += bytes.len() as u64;
                    self.output(output, &bytes, Some(id)).await;
                }
                Some(Event::Gap(bytes)) => {
                    // What is missing beyond that is told with what comes.
                    let missing = bytes.min(until - sent);
                    sent += missing;
                    self.gap(missing, Some(id)).await;
                }
                Some(Event::Terminal(_)) | None => {
                    // Less than was printed before: what this subscriber saw would have a hole.
                    self.lose().await;
                    return;
                }
            }
        }
    }

    async fn send(&mut self, event: Event) {
        let Some(heard) = &mut self.heard else { return };
        let only = heard.only;
        match event {
            Event::Output(output, bytes) => {
                heard.sent += bytes.len() as u64;
                self.output(output, &bytes, only).await;
            }
            Event::Gap(bytes) => {
                heard.sent += bytes;
                self.gap(bytes, only).await;
            }
            Event::Terminal(Terminal::Exit(code)) => {
                self.heard = None;
                self.frame(StreamKind::Exit(code), only).await;
            }
            Event::Terminal(Terminal::Fault(_)) => self.lose().await,
        }
    }

    /// The end is not known: nobody is told an exit. The hub is told by the connection's end, and
    /// whoever comes later by a refusal.
    async fn lose(&mut self) {
        self.heard = None;
        self.runner.unknown().insert(self.key.clone());
        self.link.close("a command's end is not known").await;
    }

    async fn output(&self, output: Output, bytes: &[u8], replay_for: Option<u64>) {
        for piece in bytes.chunks(CHUNK_MAX) {
            self.frame(StreamKind::Output(output, piece.to_vec()), replay_for).await;
        }
    }

    async fn gap(&self, bytes: u64, replay_for: Option<u64>) {
        let words = format!("\n[{bytes} bytes of output are no longer kept]\n");
        self.output(Output::Stderr, words.as_bytes(), replay_for).await;
    }

    async fn frame(&self, kind: StreamKind, replay_for: Option<u64>) {
        let session_id = self.key.1.clone();
        self.link.stream(&StreamFrame { session_id, replay_for, kind }).await;
    }
}

/// The next event of what is heard; never, if nobody listens or it is over.
async fn next_of(heard: &mut Option<Heard>) -> Event {
    if let Some(heard) = heard
        && let Some(event) = heard.stream.next().await
    {
        return event;
    }
    std::future::pending().await
}
