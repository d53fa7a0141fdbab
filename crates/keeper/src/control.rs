//! A daemon's connection to this keeper.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use minimal_proto::keeper::{Decoder, FromKeeper, Incoming, ToKeeper, encode_json};
use rustix::event::PollFlags;

use crate::watch::{Slot, Watch};

/// How much may wait to be sent before the daemon counts as gone. Events are few and log ends are
/// sent on credit, so only a daemon that never reads gets here.
const OUT_LIMIT: usize = 4 << 20;

/// One connection, without waiting on either side.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one peer")]
pub(crate) struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    out: Vec<u8>,
    gone: bool,
    /// What was read before there was a box to act on.
    early: Vec<Incoming<ToKeeper>>,
    /// Whether it may be told of the log's growth.
    credit: bool,
    /// Whether there may be something to read.
    ready: bool,
    /// Whether a client that writes input is behind it.
    pub(crate) has_writer: bool,
    /// Whether the client that pins the log is behind it.
    pub(crate) has_pin: bool,
}

impl Connection {
    /// Takes a connection, with what was read from it already.
    pub(crate) fn new(stream: UnixStream, decoder: Decoder) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            decoder,
            out: Vec::new(),
            gone: false,
            early: Vec::new(),
            credit: true,
            ready: true,
            has_writer: false,
            has_pin: false,
        })
    }

    /// Whether the peer is gone or broke the protocol.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Where a wait finds it.
    pub(crate) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) -> Slot {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.wants_to_write());
        watch.add(self.stream.as_fd(), flags)
    }

    /// Takes note of what a wait has found.
    pub(crate) fn woken(&mut self, ready: bool) {
        self.ready |= ready;
    }

    /// Sends what waits and reads what is there, if a wait has found anything.
    pub(crate) fn serve(&mut self, buffer: &mut [u8]) -> Vec<Incoming<ToKeeper>> {
        if !std::mem::take(&mut self.ready) {
            return Vec::new();
        }
        self.flush();
        self.receive(buffer)
    }

    /// Whether something waits to be sent.
    pub(crate) fn wants_to_write(&self) -> bool {
        !self.out.is_empty()
    }

    /// Whether a stop is asked for already. What is read for that is kept for [`Self::receive`], but
    /// for a wish to give up the start, which is answered: it is granted.
    pub(crate) fn asks_for_stop(&mut self) -> bool {
        let mut asks = false;
        for message in self.receive(&mut [0; 4096]) {
            match message {
                Incoming::Message(ToKeeper::Cancel { request }) => {
                    asks = true;
                    self.send(&FromKeeper::Done { request, error: None });
                }
                message => {
                    asks |= matches!(message, Incoming::Message(ToKeeper::Stop { .. }));
                    self.early.push(message);
                }
            }
        }
        asks
    }

    /// Reads what is there, by way of `buffer`, and returns its messages.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Vec<Incoming<ToKeeper>> {
        let mut messages = std::mem::take(&mut self.early);
        loop {
            match self.stream.read(buffer) {
                Ok(0) => {
                    self.gone = true;
                    return messages;
                }
                Ok(length) => self.decoder.feed(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return messages,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    self.gone = true;
                    return messages;
                }
            }
            loop {
                match self.decoder.next_message() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(_) => {
                        self.gone = true;
                        return messages;
                    }
                }
            }
        }
    }

    /// Puts messages back: the next [`Connection::receive`] returns them first.
    pub(crate) fn hold(&mut self, messages: Vec<Incoming<ToKeeper>>) {
        self.ready = true;
        self.early = messages;
    }

    /// Sends a message, now as far as possible and the rest when the peer reads.
    pub(crate) fn send(&mut self, message: &FromKeeper) {
        if self.out.len() > OUT_LIMIT {
            self.gone = true;
        }
        if self.gone {
            return;
        }
        self.out.extend_from_slice(&encode_json(message));
        self.flush();
    }

    /// Tells of the log's end, unless the last news has not been taken note of.
    pub(crate) fn announce_log_end(&mut self, end: u64) {
        if self.credit {
            self.credit = false;
            self.send(&FromKeeper::LogEnd { end });
        }
    }

    /// The daemon knows the log up to `known`.
    pub(crate) fn consumed(&mut self, known: u64, end: u64) {
        self.credit = true;
        if known < end {
            self.announce_log_end(end);
        }
    }

    /// Writes what waits, as far as the peer takes it.
    pub(crate) fn flush(&mut self) {
        let mut written = 0;
        while written < self.out.len() {
            match self.stream.write(&self.out[written..]) {
                Ok(0) => break,
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.gone = true;
                    break;
                }
            }
        }
        self.out.drain(..written);
    }

    /// Sends the rest before we end, waiting at most `limit` for a peer that is slow to read.
    pub(crate) fn finish(mut self, limit: Duration) {
        let waiting = self
            .stream
            .set_nonblocking(false)
            .and_then(|()| self.stream.set_write_timeout(Some(limit)));
        if waiting.is_ok() {
            // What the peer does not get here it finds on disk.
            self.stream.write_all(&self.out).ok();
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
