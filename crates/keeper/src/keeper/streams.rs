//! The box's input and output as the loop moves them.

use std::io::{self, Write as _};
use std::time::Instant;

use minimal_proto::Timestamp;
use minimal_proto::keeper::FromKeeper;
use minimal_proto::stream::Stream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{DRAIN, Keeper, TRIM_EVERY};
use crate::outputs::{Output, Read};

impl Keeper {
    pub(super) fn read_output(&mut self, index: usize) {
        let output = &mut self.outputs[index];
        let stream = output.stream();
        match output.read(&mut self.buffer) {
            Ok(Read::Bytes(length)) => self.log_output(stream, length),
            Ok(Read::Nothing | Read::End) => {}
            Err(error) => self.degraded(&format!("reading the box's output failed: {error}")),
        }
    }

    pub(super) fn log_output(&mut self, stream: Stream, length: usize) {
        let was_dropping = self.output.dropped() > 0;
        let appended = self.output.append(stream, Timestamp::now(), &self.buffer[..length]);
        if appended.dropped && !was_dropping {
            let why = self.output.fault().map_or_else(String::new, |error| format!(": {error}"));
            self.degraded(&format!("output is dropped, since it cannot be written to disk{why}"));
        }
        if appended.end.saturating_sub(self.trimmed_at) >= TRIM_EVERY {
            self.trimmed_at = appended.end;
            self.output.trim(self.pin);
        }
    }

    pub(super) fn write_input(&mut self) {
        let before = (self.input.accepted(), self.input.is_open());
        while let Some(stdin) = &mut self.stdin {
            let next = self.input.next();
            if next.is_empty() {
                break;
            }
            match stdin.write(next) {
                Ok(count) => self.input.wrote(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.close_input(),
            }
        }
        if self.input.is_complete() {
            // Everything was handed on: closing the pipe is the end of file.
            self.input.close();
            self.stdin = None;
        }
        self.tell_of_input(before);
    }

    pub(super) fn close_input(&mut self) {
        let before = (self.input.accepted(), self.input.is_open());
        self.input.close();
        self.stdin = None;
        self.tell_of_input(before);
    }

    pub(super) fn tell_of_input(&mut self, (accepted, open): (u64, bool)) {
        let now = self.input.accepted();
        self.peers.greeting.input_offset = now;
        self.peers.greeting.input_received = Some(self.input.received());
        self.peers.greeting.input_open = self.input.is_open();
        if now != accepted {
            self.peers.broadcast(&FromKeeper::InputAccepted { offset: now });
        }
        if open && !self.input.is_open() {
            self.peers.broadcast(&FromKeeper::InputClosed);
        }
    }

    pub(super) fn unpin(&mut self) {
        self.pin = None;
        self.peers.greeting.pinned = false;
        self.output.trim(None);
    }

    /// Reads what the empty box left in its pipes. The pin does not hold this back: it is at most
    /// what the pipes hold.
    pub(super) fn drain(&mut self) {
        let until = Instant::now() + DRAIN;
        loop {
            for index in 0..self.outputs.len() {
                self.read_output(index);
            }
            let fds: Vec<_> = self.outputs.iter().filter_map(Output::pipe).collect();
            let mut fds: Vec<_> =
                fds.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let left = until.saturating_duration_since(Instant::now());
            if fds.is_empty() || left.is_zero() {
                return;
            }
            let Ok(timeout) = Timespec::try_from(left) else { return };
            poll(&mut fds, Some(&timeout)).ok();
        }
    }
}
