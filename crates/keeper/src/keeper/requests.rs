//! What daemons ask of a keeper, and the answers.

use std::time::Duration;

use minimal_proto::event::StopRequested;
use minimal_proto::keeper::{FromKeeper, Incoming, ToKeeper};
use minimal_proto::{ErrorBody, ErrorCode, EventData, Signal};
use minimal_store::hook;

use super::Keeper;
use crate::ladder::Occurrence;
use crate::streams::Obeyed;

impl Keeper<'_> {
    pub(super) fn serve(&mut self) {
        let mut index = 0;
        'connections: while index < self.peers.connections.len() {
            let mut messages = self.peers.connections[index].serve(&mut self.buffer).into_iter();
            while let Some(message) = messages.next() {
                let connection = &self.peers.connections[index];
                match message {
                    // Only one that is nobody's yet becomes an exec's.
                    Incoming::Message(
                        message @ (ToKeeper::Exec(_) | ToKeeper::JoinExec { .. }),
                    ) if !connection.has_writer && !connection.has_pin => {
                        let mut connection = self.peers.connections.remove(index);
                        connection.hold(messages.collect());
                        self.hand_over(connection, message);
                        continue 'connections;
                    }
                    message => self.obey(index, message),
                }
            }
            index += 1;
        }
        for connection in self.peers.connections.extract_if(.., |it| it.is_gone()) {
            self.streams.lost(&connection);
        }
    }

    fn obey(&mut self, index: usize, message: Incoming<ToKeeper>) {
        let connection = &mut self.peers.connections[index];
        let request = match self.streams.obey(connection, message) {
            Obeyed::Done => return,
            Obeyed::Refused(what, fault) => {
                self.hosted.log.error(&self.hosted.dir, what, &fault.to_string());
                return;
            }
            Obeyed::Other(request) => request,
        };
        match request {
            ToKeeper::Stop { request, force, grace_ms } => {
                self.stop(index, request, force, grace_ms);
            }
            ToKeeper::Cancel { request } => {
                let error = ErrorBody::new(ErrorCode::WrongState, "the box has started");
                connection.send(&FromKeeper::Done { request, error: Some(error) });
            }
            ToKeeper::Signal { request, signal, group } => {
                let error = self.signal(signal, group).err();
                if error.is_none() && signal == Signal::KILL {
                    self.climb(Occurrence::KillSent);
                    // What stands still may not even die.
                    self.go_on();
                }
                self.peers.connections[index].send(&FromKeeper::Done { request, error });
            }
            ToKeeper::Pause { request } => {
                let error = self.pause().err();
                self.peers.connections[index].send(&FromKeeper::Done { request, error });
            }
            ToKeeper::Unpause { request } => {
                let error = self.unpause().err();
                self.peers.connections[index].send(&FromKeeper::Done { request, error });
            }
            ToKeeper::Note { request, event_type, data } => {
                let error = self.note(event_type, data).err();
                self.peers.connections[index].send(&FromKeeper::Done { request, error });
            }
            // The streams have taken the rest; a second start means nothing, and later messages
            // are for later keepers.
            _ => {}
        }
    }

    pub(super) fn stop(&mut self, index: usize, request: u64, force: bool, grace_ms: Option<u64>) {
        let grace = grace_ms.map_or(self.grace, Duration::from_millis);
        if !self.ladder.entrypoint_ended() {
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            self.append(EventData::StopRequested(StopRequested { force, grace_ms }));
        }
        hook::point("keeper.stop.requested").ok();
        self.peers.connections[index].send(&FromKeeper::Done { request, error: None });
        self.climb(Occurrence::Stop { force, grace });
    }

    pub(super) fn signal(&self, signal: Signal, group: bool) -> Result<(), ErrorBody> {
        let ended = || ErrorBody::new(ErrorCode::WrongState, "the box's entrypoint has ended");
        let none = || ErrorBody::new(ErrorCode::WrongState, "the box has no entrypoint");
        let Some(entrypoint) = &self.entrypoint else {
            return Err(if self.has_entrypoint { ended() } else { none() });
        };
        let sent = if group { entrypoint.signal_group(signal) } else { entrypoint.signal(signal) };
        sent.map_err(|error| {
            if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) {
                ended()
            } else {
                ErrorBody::new(ErrorCode::Internal, format!("cannot send {signal}: {error}"))
            }
        })
    }

    pub(super) fn note(
        &mut self,
        event_type: String,
        data: serde_json::Value,
    ) -> Result<(), ErrorBody> {
        let refused = |why: String| ErrorBody::new(ErrorCode::BadRequest, why);
        let data = EventData::from_parts(event_type, data)
            .map_err(|error| refused(format!("cannot record the event: {error}")))?;
        match data {
            EventData::Attached(_) | EventData::Detached(_) | EventData::Renamed(_) => {
                self.append(data);
                Ok(())
            }
            // How a box starts and ends is what its keeper saw.
            EventData::Created(_)
            | EventData::Started(_)
            | EventData::EntrypointReturned(_)
            | EventData::Restarted(_)
            | EventData::Ready
            | EventData::Paused
            | EventData::Unpaused
            | EventData::Degraded(_)
            | EventData::StopRequested(_)
            | EventData::ExecStarted(_)
            | EventData::ExecExited(_)
            | EventData::ExecsNotListed(_)
            | EventData::Exited(_)
            | EventData::Failed(_)
            | EventData::Resumed(_)
            | EventData::ResumeFailed(_)
            | EventData::Unknown { .. } => {
                Err(refused(format!("a daemon does not record `{}` events", data.type_name())))
            }
        }
    }
}
