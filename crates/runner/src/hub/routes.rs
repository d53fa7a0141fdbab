//! Who waits for which frame. Plain data: what a frame does is told without a socket.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::contract::{Answer, Emitter, SandboxError, StreamFault, Terminal, Unavailable};
use crate::wire::{Code, Op, Refusal, Reply, Results, StreamFrame, StreamKind, ToHub};

/// Calls that wait for their reply, and subscribers of sessions.
#[derive(Debug, Default)]
pub(super) struct Routes {
    last_id: u64,
    is_closed: bool,
    pending: BTreeMap<u64, Pending>,
    /// By session; within one by the id of the request that subscribed.
    subscribers: BTreeMap<String, BTreeMap<u64, Emitter>>,
}

/// A call that waits.
#[derive(Debug)]
struct Pending {
    answer: oneshot::Sender<Answer<Map<String, Value>>>,
    /// Where the frames of the session go that it opens.
    subscribe: Option<Emitter>,
}

/// A call that was noted: its id, and where its answer comes.
pub(super) type Noted = (u64, oneshot::Receiver<Answer<Map<String, Value>>>);

impl Routes {
    /// Notes a call; `subscribe` gets the frames of the session that it opens.
    ///
    /// # Errors
    /// The connection is closed.
    pub(super) fn note(&mut self, subscribe: Option<Emitter>) -> Answer<Noted> {
        if self.is_closed {
            return Err(SandboxError::Unavailable(Unavailable::RunnerOffline));
        }
        self.last_id += 1;
        let (answer, receiver) = oneshot::channel();
        self.pending.insert(self.last_id, Pending { answer, subscribe });
        Ok((self.last_id, receiver))
    }

    /// Takes a frame: what is to be sent because of it.
    pub(super) fn take(&mut self, frame: ToHub) -> Option<Op> {
        match frame {
            ToHub::Reply(Reply { id, result }) => {
                self.reply(id, result.map_err(|refusal| error_of(&refusal)))
            }
            ToHub::MalformedReply { id, frame } => {
                self.reply(id, Err(malformed("malformed_reply", &frame)))
            }
            ToHub::Stream(frame) => self.stream(frame),
            ToHub::Unknown => {
                tracing::warn!("a frame of the runner means nothing to this hub");
                None
            }
        }
    }

    fn reply(&mut self, id: u64, result: Answer<Map<String, Value>>) -> Option<Op> {
        // An id that nobody waits for is one of a call that was answered before.
        let Pending { answer, subscribe } = self.pending.remove(&id)?;
        let session = result.as_ref().ok().and_then(Results::read_session);
        let mut gone = None;
        if let (Some(emitter), Some(session)) = (subscribe, session) {
            match answer.is_closed() {
                // Whoever asked has given up, and nobody else would ever let go of it.
                true => gone = Some(session),
                false => {
                    self.subscribers.entry(session).or_default().insert(id, emitter);
                }
            }
        }
        drop(answer.send(result));
        gone.and_then(|session| self.detach_if_unheard(session))
    }

    fn stream(&mut self, frame: StreamFrame) -> Option<Op> {
        let StreamFrame { session_id, replay_for, kind } = frame;
        let of_session = self.subscribers.get_mut(&session_id)?;
        // Those who have left without a word.
        of_session.retain(|_, emitter| emitter.is_heard());
        let ids: Vec<u64> = match replay_for {
            Some(id) => of_session.contains_key(&id).then_some(id).into_iter().collect(),
            None => of_session.keys().copied().collect(),
        };
        let terminal = match kind {
            StreamKind::Output(output, bytes) => {
                for id in &ids {
                    if let Some(emitter) = of_session.get_mut(id) {
                        emitter.output(output, bytes.clone());
                    }
                }
                // Its last listener may have been among those who have left.
                return self.detach_if_unheard(session_id);
            }
            StreamKind::Exit(code) => Terminal::Exit(code),
            StreamKind::ExitWithoutCode => Terminal::Fault(StreamFault::ExitUnknown),
        };
        // An end of a replay is one subscriber's own.
        for id in ids {
            if let Some(emitter) = of_session.remove(&id) {
                emitter.end(terminal.clone());
            }
        }
        if of_session.is_empty() {
            self.subscribers.remove(&session_id);
        }
        None
    }

    /// Ends a subscription, if there is one; what is to be sent because of it.
    pub(super) fn unsubscribe(&mut self, session: &str, id: u64) -> Option<Op> {
        let emitter = self.subscribers.get_mut(session)?.remove(&id)?;
        emitter.end(Terminal::Fault(StreamFault::Stopped));
        self.detach_if_unheard(session.to_owned())
    }

    fn detach_if_unheard(&mut self, session_id: String) -> Option<Op> {
        if self.subscribers.get(&session_id).is_some_and(|of_session| !of_session.is_empty()) {
            return None;
        }
        self.subscribers.remove(&session_id);
        Some(Op::Detach { session_id })
    }

    /// Ends everything: first the calls, then the streams.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        for pending in std::mem::take(&mut self.pending).into_values() {
            let lost = SandboxError::Unavailable(Unavailable::RunnerDisconnected);
            drop(pending.answer.send(Err(lost)));
        }
        for emitter in std::mem::take(&mut self.subscribers).into_values().flatten().map(|it| it.1)
        {
            emitter.end(Terminal::Fault(StreamFault::RunnerDisconnected));
        }
    }
}

/// What a refusal means in the words of the contract.
fn error_of(refusal: &Refusal) -> SandboxError {
    let detail = refusal.detail.clone().unwrap_or_default();
    match &refusal.code {
        Code::NotFound => SandboxError::NotFound,
        Code::CommandExited => SandboxError::CommandExited,
        Code::NotSupported => SandboxError::NotSupported,
        Code::Invalid => SandboxError::Invalid(detail),
        Code::Unavailable => {
            let known = [Unavailable::ExitUnknown, Unavailable::ClosedBeforeExit];
            let known = known.into_iter().find(|known| known.as_str() == detail);
            SandboxError::Unavailable(known.unwrap_or(Unavailable::Other(detail)))
        }
        Code::WriteFailed => SandboxError::WriteFailed(detail),
        Code::Other(code) => {
            SandboxError::Provider { provider: "runner", detail: format!("{code}: {detail}") }
        }
    }
}

/// An answer that lacks what it must have. Only its beginning is told.
pub(super) fn malformed(what: &str, value: &Value) -> SandboxError {
    let shown: String = value.to_string().chars().take(200).collect();
    SandboxError::Provider { provider: "runner", detail: format!("{what}: {shown}") }
}
