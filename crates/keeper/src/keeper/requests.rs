//! What daemons ask of a keeper, and the answers.

use std::time::Duration;

use minimal_proto::event::StopRequested;
use minimal_proto::keeper::{FromKeeper, Incoming, ToKeeper};
use minimal_proto::stream::CLIENT_GRACE_MS;
use minimal_proto::{ErrorBody, ErrorCode, EventData, Signal};
use minimal_store::hook;

use super::Keeper;
use crate::ladder::Occurrence;
use crate::timers::Timer;

impl Keeper {
    pub(super) fn serve(&mut self) {
        for index in 0..self.peers.connections.len() {
            self.peers.connections[index].flush();
            for message in self.peers.connections[index].receive(&mut self.buffer) {
                self.obey(index, message);
            }
        }
        let client_grace = Duration::from_millis(CLIENT_GRACE_MS);
        for connection in self.peers.connections.extract_if(.., |it| it.is_gone()) {
            // The daemon is gone, not its client: that gets time to come back through the next.
            if connection.has_writer {
                self.timers.set_in(Timer::Writer, client_grace);
            }
            if connection.has_pin {
                self.timers.set_in(Timer::Pin, client_grace);
            }
        }
    }

    pub(super) fn obey(&mut self, index: usize, message: Incoming<ToKeeper>) {
        let message = match message {
            Incoming::Input { offset, bytes } => {
                let before = (self.input.accepted(), self.input.is_open());
                if let Err(fault) = self.input.offer(offset, &bytes) {
                    self.hosted.log.error(
                        &self.hosted.dir,
                        "input was refused",
                        &fault.to_string(),
                    );
                }
                self.tell_of_input(before);
                return;
            }
            Incoming::Message(message) => message,
        };
        let connection = &mut self.peers.connections[index];
        match message {
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
                }
                self.peers.connections[index].send(&FromKeeper::Done { request, error });
            }
            ToKeeper::WriterAttached { client } => {
                connection.has_writer = true;
                self.peers.greeting.input_writer = client;
                self.timers.set(Timer::Writer, None);
            }
            ToKeeper::WriterLost => {
                connection.has_writer = false;
                self.timers.set_in(Timer::Writer, Duration::from_millis(CLIENT_GRACE_MS));
            }
            ToKeeper::Eof { offset } => {
                if let Err(fault) = self.input.end_at(offset) {
                    self.hosted.log.error(
                        &self.hosted.dir,
                        "the end of input was refused",
                        &fault.to_string(),
                    );
                }
            }
            ToKeeper::Pin { offset } => {
                connection.has_pin = true;
                self.timers.set(Timer::Pin, None);
                // A pin that was given up is not taken up again: what it held may be gone.
                self.pin = self.pin.map(|before| before.max(offset));
            }
            ToKeeper::Unpin => {
                connection.has_pin = false;
                self.timers.set(Timer::Pin, None);
                self.unpin();
            }
            ToKeeper::Note { request, event_type, data } => {
                let error = self.note(event_type, data).err();
                self.peers.connections[index].send(&FromKeeper::Done { request, error });
            }
            ToKeeper::Consumed { end } => connection.consumed(end, self.output.end()),
            ToKeeper::Ping { request } => {
                connection.send(&FromKeeper::Done { request, error: None });
            }
            // A second start means nothing, and later messages are for later keepers.
            ToKeeper::Start(_)
            | ToKeeper::Exec(_)
            | ToKeeper::JoinExec { .. }
            | ToKeeper::Unknown => {}
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
        let Some(entrypoint) = &self.entrypoint else { return Err(ended()) };
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
            | EventData::Degraded(_)
            | EventData::StopRequested(_)
            | EventData::ExecStarted(_)
            | EventData::ExecExited(_)
            | EventData::ExecsNotListed(_)
            | EventData::Exited(_)
            | EventData::Failed(_)
            | EventData::Unknown { .. } => {
                Err(refused(format!("a daemon does not record `{}` events", data.type_name())))
            }
        }
    }
}
