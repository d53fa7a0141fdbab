//! What goes in and out of one program, the entrypoint's or an exec's: its pipes, its log, who writes
//! and who holds the log back.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use minimal_proto::Timestamp;
use minimal_proto::keeper::{ExecStanding, FromKeeper, Hello, Incoming, ToKeeper};
use minimal_proto::stream::{CLIENT_GRACE_MS, Stream};
use minimal_store::LogWriter;
use rustix::event::PollFlags;
use uuid::Uuid;

use crate::control::Connection;
use crate::input::{Input, InputFault};
use crate::outputs::{Output, Read};
use crate::watch::{Slot, Watch, Woken};

/// How much the log grows between two looks at what can be dropped.
const TRIM_EVERY: u64 = 1 << 20;

/// How long the input stays open, and the log pinned, without the client.
const CLIENT_GRACE: Duration = Duration::from_millis(CLIENT_GRACE_MS);

/// Our ends of a program's pipes. None: it has no such pipe, or never ran.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    /// A terminal in place of all three: our end and the program's.
    pub(crate) terminal: Option<(OwnedFd, OwnedFd)>,
}

/// The streams of one program.
#[derive(Debug)]
pub(crate) struct Streams {
    stdin: Option<File>,
    input: Input,
    /// Who has sent the input, by the name that client gives itself.
    writer: Option<Uuid>,
    outputs: [Output; 2],
    /// Of a terminal, the program's end, until the program has ended: while it is open the terminal is,
    /// whatever the program does with its own.
    slave: Option<OwnedFd>,
    is_terminal: bool,
    log: LogWriter,
    trimmed_at: u64,
    /// Everything before this was read by the client that pins the log.
    pin: Option<u64>,
    /// The writer of the input has not come back by then.
    writer_due: Option<Instant>,
    /// The client that pins the log has not come back by then.
    pin_due: Option<Instant>,
    told: Told,
}

/// What everyone connected was told.
#[derive(Clone, Copy, Debug)]
struct Told {
    log_end: u64,
    accepted: u64,
    input_open: bool,
}

/// Where a wait finds the pipes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    outputs: [Option<Slot>; 2],
    stdin: Option<Slot>,
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Obeyed {
    /// It was about the streams, and is done.
    Done,
    /// The client does not follow the protocol; nothing was taken.
    Refused(&'static str, InputFault),
    /// It is about something else.
    Other(ToKeeper),
}

impl Streams {
    /// Streams that nobody has written to. `pinned`: the log is held back for the creator.
    ///
    /// # Errors
    /// What ioctl(2) says.
    pub(crate) fn new(ends: Ends, log: LogWriter, pinned: bool) -> io::Result<Self> {
        let is_terminal = ends.terminal.is_some();
        let (ends, slave, first) = match ends.terminal {
            Some((master, slave)) => {
                let (stdin, stdout) = (Some(master.try_clone()?), Some(master));
                (Ends { stdin, stdout, ..Ends::default() }, Some(slave), Stream::Pty)
            }
            None => (ends, None, Stream::Stdout),
        };
        let input = Input::new(ends.stdin.is_some());
        if let Some(stdin) = &ends.stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        let mut streams = Self {
            told: Told { log_end: log.end(), accepted: 0, input_open: input.is_open() },
            stdin: ends.stdin.map(File::from),
            input,
            writer: None,
            outputs: [Output::new(first, ends.stdout)?, Output::new(Stream::Stderr, ends.stderr)?],
            slave,
            is_terminal,
            trimmed_at: log.end(),
            log,
            pin: pinned.then_some(0),
            writer_due: None,
            pin_due: None,
        };
        let client_is_due = Instant::now().checked_add(CLIENT_GRACE);
        // A terminal waits for whoever comes, however long.
        let ends_without_writer = streams.input.is_open() && !is_terminal;
        streams.writer_due = client_is_due.filter(|_| ends_without_writer);
        streams.pin_due = client_is_due.filter(|_| pinned);
        Ok(streams)
    }

    /// Waits for the pipes as well. `hold_back`: the client that pins the log is waited for, if it
    /// is far behind.
    pub(crate) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>, hold_back: bool) -> Slots {
        // As a pipe would: who reads too slowly makes the writer wait. Only the client that created
        // the box or exec can, and only while it is there.
        let full = hold_back && self.pin.is_some_and(|pin| self.log.would_exceed(pin));
        let outputs = std::array::from_fn(|index| {
            let pipe = self.outputs[index].pipe().filter(|_| !full)?;
            Some(watch.add(pipe, PollFlags::IN))
        });
        let stdin = self.stdin.as_ref().map(|stdin| {
            let wanted =
                if self.input.next().is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            watch.add(stdin.as_fd(), wanted)
        });
        Slots { outputs, stdin }
    }

    /// Moves what can be moved. Returns how many bytes of output came; what went wrong is added to
    /// `faults`, in words.
    pub(crate) fn handle(
        &mut self,
        woken: &Woken,
        slots: Slots,
        buffer: &mut [u8],
        faults: &mut Vec<String>,
    ) -> usize {
        let mut count = 0;
        for (index, slot) in slots.outputs.into_iter().enumerate() {
            if woken.is_ready(slot) {
                count += self.read_output(index, buffer, faults);
            }
        }
        if woken.has_failed(slots.stdin) {
            self.close_input();
        }
        count
    }

    /// Reads each output once.
    pub(crate) fn read_outputs(&mut self, buffer: &mut [u8], faults: &mut Vec<String>) -> usize {
        (0..self.outputs.len()).map(|index| self.read_output(index, buffer, faults)).sum()
    }

    fn read_output(&mut self, index: usize, buffer: &mut [u8], faults: &mut Vec<String>) -> usize {
        let output = &mut self.outputs[index];
        let stream = output.stream();
        let length = match output.read(buffer) {
            Ok(Read::Bytes(length)) => length,
            Ok(Read::Nothing) => return 0,
            Ok(Read::End) => {
                if self.is_terminal {
                    // Nobody holds the other end: there is nobody to write to either.
                    self.close_input();
                }
                return 0;
            }
            Err(error) => {
                faults.push(format!("reading the output failed: {error}"));
                return 0;
            }
        };
        let was_dropping = self.log.dropped() > 0;
        let appended = self.log.append(stream, Timestamp::now(), &buffer[..length]);
        if appended.dropped && !was_dropping {
            let why = self.log.fault().map_or_else(String::new, |error| format!(": {error}"));
            faults.push(format!("output is dropped, since it cannot be written to disk{why}"));
        }
        if appended.end.saturating_sub(self.trimmed_at) >= TRIM_EVERY {
            self.trimmed_at = appended.end;
            self.log.trim(self.pin);
        }
        length
    }

    /// Hands on what input there is, as far as the pipe takes it.
    pub(crate) fn write_input(&mut self) {
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
            self.close_input();
        }
    }

    /// Whether they are a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The program has ended: of its terminal, what others hold is all that keeps it open.
    pub(crate) fn program_ended(&mut self) {
        self.slave = None;
    }

    /// Nobody reads any more.
    pub(crate) fn close_input(&mut self) {
        self.slave = None;
        self.input.close();
        self.stdin = None;
    }

    /// When [`Streams::take_due`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        [self.writer_due, self.pin_due].into_iter().flatten().min()
    }

    /// Gives up clients that have not come back in time. Whether the one that pins the log is among
    /// them.
    pub(crate) fn take_due(&mut self, now: Instant) -> bool {
        if self.writer_due.take_if(|due| *due <= now).is_some() {
            self.input.abandon();
        }
        let pinning_client = self.pin_due.take_if(|due| *due <= now).is_some();
        if pinning_client {
            self.unpin();
        }
        pinning_client
    }

    /// The writer is gone: its input ends unless it comes back in time.
    fn expect_writer(&mut self) {
        let due = Instant::now().checked_add(CLIENT_GRACE);
        self.writer_due = due.filter(|_| !self.is_terminal);
    }

    fn unpin(&mut self) {
        self.pin = None;
        self.log.trim(None);
    }

    /// Takes a message, if it is about the streams.
    pub(crate) fn obey(
        &mut self,
        connection: &mut Connection,
        message: Incoming<ToKeeper>,
    ) -> Obeyed {
        let message = match message {
            Incoming::Input { offset, bytes } => {
                return match self.input.offer(offset, &bytes) {
                    Ok(()) => Obeyed::Done,
                    Err(fault) => Obeyed::Refused("input was refused", fault),
                };
            }
            Incoming::Message(message) => message,
        };
        match message {
            ToKeeper::WriterAttached { client } => {
                connection.has_writer = true;
                self.writer = client;
                self.writer_due = None;
            }
            ToKeeper::WriterLost => {
                connection.has_writer = false;
                self.expect_writer();
            }
            // Who leaves a terminal leaves it open: its end of input is a character.
            ToKeeper::Eof { .. } if self.is_terminal => {}
            ToKeeper::Eof { offset } => {
                if let Err(fault) = self.input.end_at(offset) {
                    return Obeyed::Refused("the end of input was refused", fault);
                }
            }
            ToKeeper::Resize { size } => {
                if self.is_terminal
                    && let Some(master) = &self.stdin
                {
                    // One that is gone needs no size.
                    crate::birth::resize(master, size).ok();
                }
            }
            ToKeeper::Pin { offset } => {
                connection.has_pin = true;
                self.pin_due = None;
                // A pin that was given up is not taken up again: what it held may be gone.
                self.pin = self.pin.map(|before| before.max(offset));
            }
            ToKeeper::Unpin => {
                connection.has_pin = false;
                self.pin_due = None;
                self.unpin();
            }
            ToKeeper::Consumed { end } => connection.consumed(end, self.log.end()),
            ToKeeper::Ping { request } => {
                connection.send(&FromKeeper::Done { request, error: None });
            }
            other => return Obeyed::Other(other),
        }
        Obeyed::Done
    }

    /// A connection is gone: its daemon is, not that one's client, which gets time to come back
    /// through the next.
    pub(crate) fn lost(&mut self, connection: &Connection) {
        let due = Instant::now().checked_add(CLIENT_GRACE);
        if connection.has_writer {
            self.expect_writer();
        }
        if connection.has_pin && self.pin.is_some() {
            self.pin_due = due;
        }
    }

    /// Tells everyone what has changed since the last time.
    pub(crate) fn tell(&mut self, connections: &mut [Connection]) {
        let now = Told {
            log_end: self.log.end(),
            accepted: self.input.accepted(),
            input_open: self.input.is_open(),
        };
        let told = std::mem::replace(&mut self.told, now);
        for connection in connections {
            if now.accepted != told.accepted {
                connection.send(&FromKeeper::InputAccepted { offset: now.accepted });
            }
            if told.input_open && !now.input_open {
                connection.send(&FromKeeper::InputClosed);
            }
            if now.log_end != told.log_end {
                connection.announce_log_end(now.log_end);
            }
        }
    }

    /// Says in the box's greeting where things stand.
    pub(crate) fn describe(&self, greeting: &mut Hello) {
        greeting.log_end = self.log.end();
        greeting.input_offset = self.input.accepted();
        greeting.input_received = Some(self.input.received());
        greeting.input_writer = self.writer;
        greeting.input_open = self.input.is_open();
        greeting.pinned = self.pin.is_some();
    }

    /// Says of an exec where things stand.
    pub(crate) fn standing(
        &self,
        exec: minimal_proto::ExecId,
        started_at: Option<Timestamp>,
    ) -> ExecStanding {
        ExecStanding {
            exec,
            started_at,
            log_end: self.log.end(),
            input_offset: self.input.accepted(),
            input_received: self.input.received(),
            input_writer: self.writer,
            input_open: self.input.is_open(),
            pinned: self.pin.is_some(),
        }
    }

    /// Whether nobody can write to either output any more.
    pub(crate) fn outputs_have_ended(&self) -> bool {
        self.outputs.iter().all(Output::has_ended)
    }

    /// Reads no more output.
    pub(crate) fn close_outputs(&mut self) {
        self.outputs.iter_mut().for_each(Output::close);
    }

    /// Reads what an empty box left in its pipes, for at most `limit`. The pin does not hold this
    /// back: it is at most what the pipes hold.
    pub(crate) fn drain(&mut self, limit: Duration, buffer: &mut [u8], faults: &mut Vec<String>) {
        let until = Instant::now() + limit;
        loop {
            self.read_outputs(buffer, faults);
            let left = until.saturating_duration_since(Instant::now());
            if self.outputs_have_ended() || left.is_zero() {
                return;
            }
            let mut watch = Watch::default();
            for pipe in self.outputs.iter().filter_map(Output::pipe) {
                watch.add(pipe, PollFlags::IN);
            }
            watch.wait(Some(left));
        }
    }

    /// Bytes that could not be written to disk.
    pub(crate) fn dropped(&self) -> u64 {
        self.log.dropped()
    }

    /// Closes the log for good, and returns its end.
    pub(crate) fn seal(self) -> u64 {
        self.log.seal()
    }

    /// Where the log ends.
    pub(crate) fn log_end(&self) -> u64 {
        self.log.end()
    }
}
