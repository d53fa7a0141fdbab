//! A command's stream, with exactly one terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, mpsc};

use super::StreamFault;
use crate::wire::{ExitCode, Output};

/// The most bytes that wait for a reader: 64 MiB. The protocol has no way to hold a command back, so
/// a stream whose reader is further behind ends with [`StreamFault::Overrun`]; the command runs on.
pub const BACKLOG_MAX: usize = 64 << 20;

/// How far behind a reader may be before [`Emitter::ready`] waits for it: 1 MiB.
const BACKLOG_WANTED: usize = 1 << 20;

/// What waits for a reader.
#[derive(Debug, Default)]
struct Backlog {
    bytes: AtomicUsize,
    /// Told when it shrinks, and when the reader is gone.
    shrunk: Notify,
}

/// What comes from a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes that it printed.
    Output(Output, Vec<u8>),
    /// So many bytes that it printed here are no longer kept.
    Gap(u64),
    /// The last event.
    Terminal(Terminal),
}

/// How a command's stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// The command ended, with the code that whoever waited for it has told.
    Exit(ExitCode),
    /// The end of the command is not known by this stream.
    Fault(StreamFault),
}

/// A stream for one subscriber, and its end at the provider.
///
/// `on_drop` is what the subscriber is told if the provider goes without a word.
#[must_use]
pub fn command_stream(on_drop: StreamFault) -> (Emitter, CommandStream) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let backlog = Arc::new(Backlog::default());
    let emitter = Emitter { channel: Some((sender, Arc::clone(&backlog))), on_drop };
    (emitter, CommandStream { receiver, backlog, is_over: false })
}

/// The provider's end of a stream.
#[derive(Debug)]
pub struct Emitter {
    /// Gone once the terminal was sent.
    channel: Option<(mpsc::UnboundedSender<Event>, Arc<Backlog>)>,
    on_drop: StreamFault,
}

impl Emitter {
    /// Sends output. Nothing happens after the terminal, or when nobody reads any more.
    pub fn output(&mut self, output: Output, bytes: Vec<u8>) {
        let Some((sender, backlog)) = &self.channel else { return };
        let waiting = backlog.bytes.fetch_add(bytes.len(), Ordering::AcqRel) + bytes.len();
        if waiting > BACKLOG_MAX {
            return self.send(Terminal::Fault(StreamFault::Overrun));
        }
        drop(sender.send(Event::Output(output, bytes)));
    }

    /// Says that so many bytes are no longer kept.
    pub fn gap(&mut self, bytes: u64) {
        if let Some((sender, _)) = &self.channel {
            drop(sender.send(Event::Gap(bytes)));
        }
    }

    /// Waits until the reader is less than a MiB behind, or gone. For providers that can hold the
    /// command's output back.
    pub async fn ready(&self) {
        let Some((sender, backlog)) = &self.channel else { return };
        while backlog.bytes.load(Ordering::Acquire) >= BACKLOG_WANTED && !sender.is_closed() {
            backlog.shrunk.notified().await;
        }
    }

    /// Ends the stream.
    pub fn end(mut self, terminal: Terminal) {
        self.send(terminal);
    }

    /// Whether somebody may still read.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.channel.as_ref().is_some_and(|(sender, _)| !sender.is_closed())
    }

    fn send(&mut self, terminal: Terminal) {
        if let Some((sender, _)) = self.channel.take() {
            drop(sender.send(Event::Terminal(terminal)));
        }
    }
}

impl Drop for Emitter {
    fn drop(&mut self) {
        self.send(Terminal::Fault(self.on_drop.clone()));
    }
}

/// The events of a command. Dropping it leaves the command as it is.
#[derive(Debug)]
pub struct CommandStream {
    receiver: mpsc::UnboundedReceiver<Event>,
    backlog: Arc<Backlog>,
    is_over: bool,
}

impl CommandStream {
    /// The next event; `None` after the terminal. Cancelling loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        if self.is_over {
            return None;
        }
        let event = self.receiver.recv().await;
        // An emitter that is gone has said so; if it ever had not, that is no success.
        let event =
            event.unwrap_or(Event::Terminal(Terminal::Fault(StreamFault::ClosedBeforeExit)));
        match &event {
            Event::Output(_, bytes) => {
                self.backlog.bytes.fetch_sub(bytes.len(), Ordering::AcqRel);
                self.backlog.shrunk.notify_one();
            }
            Event::Gap(_) => {}
            Event::Terminal(_) => self.is_over = true,
        }
        Some(event)
    }

    /// Everything that is kept up to the end: stdout, stderr and the terminal.
    pub async fn collect(&mut self) -> (Vec<u8>, Vec<u8>, Terminal) {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.next().await {
                Some(Event::Output(Output::Stdout, bytes)) => stdout.extend(bytes),
                Some(Event::Output(Output::Stderr, bytes)) => stderr.extend(bytes),
                Some(Event::Gap(_)) => {}
                Some(Event::Terminal(terminal)) => return (stdout, stderr, terminal),
                None => {
                    let over = Terminal::Fault(StreamFault::ClosedBeforeExit);
                    return (stdout, stderr, over);
                }
            }
        }
    }
}

impl Drop for CommandStream {
    fn drop(&mut self) {
        // Closed before it is told, so that whoever waits for room sees it.
        self.receiver.close();
        self.backlog.shrunk.notify_one();
    }
}
