//! What daemons ask about one exec, and the answers.

use std::time::{Duration, Instant};

use minimal_proto::keeper::{FromKeeper, Incoming, ToKeeper};
use minimal_proto::{ErrorBody, ErrorCode, Signal};

use super::ladder::Occurrence;
use super::{Exec, Stage};
use crate::streams::Obeyed;

impl Exec {
    /// Does what its connections ask.
    pub(crate) fn serve(&mut self, buffer: &mut [u8]) {
        for index in 0..self.connections.len() {
            for message in self.connections[index].serve(buffer) {
                self.obey(index, message);
            }
        }
        for connection in self.connections.extract_if(.., |it| it.is_gone()) {
            self.streams.lost(&connection);
        }
        self.streams.write_input();
    }

    fn obey(&mut self, index: usize, message: Incoming<ToKeeper>) {
        // A daemon that lives says that the creator has left it, or will never come.
        let is_left = matches!(message, Incoming::Message(ToKeeper::Unpin));
        let connection = &mut self.connections[index];
        match self.streams.obey(connection, message) {
            Obeyed::Done if is_left => self.client_is_lost(Instant::now()),
            Obeyed::Done => {}
            Obeyed::Refused(what, fault) => self.news.faults.push(format!("{what}: {fault}")),
            Obeyed::Other(request) => self.answer_request(index, &request),
        }
    }

    fn answer_request(&mut self, index: usize, request: &ToKeeper) {
        let now = Instant::now();
        let (request, error) = match *request {
            ToKeeper::Stop { request, force, grace_ms } => {
                let grace = grace_ms.map_or(self.terms.grace, Duration::from_millis);
                let stop = Occurrence::Stop { force, grace };
                self.bring_down(stop, "it was stopped before it could", now);
                (request, None)
            }
            ToKeeper::Cancel { request } => {
                let given_up = matches!(self.stage, Stage::Entering(_));
                if given_up {
                    let stop = Occurrence::Stop { force: true, grace: Duration::ZERO };
                    self.bring_down(stop, "the start was given up before it could", now);
                }
                let error = ErrorBody::new(ErrorCode::WrongState, "the exec has started");
                (request, (!given_up).then_some(error))
            }
            ToKeeper::Signal { request, signal, group } => {
                let error = self.signal(signal, group).err();
                if error.is_none() && signal == Signal::KILL {
                    self.handle(Occurrence::KillSent, now);
                }
                (request, error)
            }
            ToKeeper::Note { request, .. } => {
                let error = ErrorBody::new(ErrorCode::BadRequest, "an exec has no journal");
                (request, Some(error))
            }
            // The streams have taken the rest; a second start means nothing, and later messages
            // are for later keepers.
            _ => return,
        };
        self.connections[index].send(&FromKeeper::Done { request, error });
    }

    fn signal(&self, signal: Signal, group: bool) -> Result<(), ErrorBody> {
        let refused = |why: &str| ErrorBody::new(ErrorCode::WrongState, why);
        let child = match &self.stage {
            Stage::Running(child) if !self.ladder.waits_for_group() => child,
            Stage::Entering(_) => {
                return Err(refused("the exec has not started yet: there is nothing to signal"));
            }
            _ => return Err(refused("the exec has ended")),
        };
        let sent = if group { child.signal_group(signal) } else { child.signal(signal) };
        sent.map_err(|error| {
            ErrorBody::new(ErrorCode::Internal, format!("cannot send {signal}: {error}"))
        })
    }
}
