//! What a client does to a box's streams.

use std::sync::Arc;

use bytes::Bytes;
use minimal_proto::stream::INPUT_WINDOW;
use minimal_proto::{Signal, TerminalSize};
use tokio::sync::{Semaphore, mpsc};

/// The box, or the stream, takes no more input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the box takes no more input")]
pub struct InputClosed;

/// Writes to a box and signals it. Clones act on the same stream.
#[derive(Clone, Debug)]
pub struct AttachHandle {
    commands: mpsc::UnboundedSender<Command>,
    window: Arc<Semaphore>,
}

/// What the handle tells the driver. Input is bounded by the window; the rest is small and rare.
#[derive(Debug)]
pub(super) enum Command {
    Input(Bytes),
    Eof,
    Signal(Signal),
    Read(u64),
    Resize(TerminalSize),
    Detach,
}

/// The driver's end.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) receiver: mpsc::UnboundedReceiver<Command>,
    pub(super) window: Arc<Semaphore>,
}

impl Drop for Commands {
    fn drop(&mut self) {
        // Whoever waits for room waits for nothing.
        self.window.close();
    }
}

/// The longest input message: a frame must not take the whole window, or it could not be filled
/// while the one before is on its way.
const CHUNK: usize = 128 << 10;

pub(super) fn pair() -> (AttachHandle, Commands) {
    let (commands, receiver) = mpsc::unbounded_channel();
    let room = usize::try_from(INPUT_WINDOW).expect("the window is 1 MiB");
    let window = Arc::new(Semaphore::new(room));
    let handle = AttachHandle { commands, window: Arc::clone(&window) };
    (handle, Commands { receiver, window })
}

impl AttachHandle {
    /// Writes to the box's input. Waits while a MiB is on its way that the box has not taken.
    /// Cancelling it leaves a part of the bytes written.
    ///
    /// # Errors
    /// The box or the stream takes no more input.
    pub async fn input(&self, mut bytes: Bytes) -> Result<(), InputClosed> {
        while !bytes.is_empty() {
            let chunk = bytes.split_to(bytes.len().min(CHUNK));
            let length = u32::try_from(chunk.len()).expect("a chunk is small");
            match self.window.acquire_many(length).await {
                // The driver gives the room back when the bytes are accepted.
                Ok(room) => room.forget(),
                Err(_closed) => return Err(InputClosed),
            }
            self.commands.send(Command::Input(chunk)).map_err(|_gone| InputClosed)?;
        }
        Ok(())
    }

    /// Ends the box's input after what was written: a real end of file.
    pub fn eof(&self) {
        self.tell(Command::Eof);
    }

    /// Signals the process group of the box's entrypoint.
    pub fn signal(&self, signal: Signal) {
        self.tell(Command::Signal(signal));
    }

    /// Says that all output before `offset` was written to where it goes. For the client that pins
    /// the log.
    pub fn read(&self, offset: u64) {
        self.tell(Command::Read(offset));
    }

    /// Says how large the terminal is now. Heeded of whoever writes the input.
    pub fn resize(&self, size: TerminalSize) {
        self.tell(Command::Resize(size));
    }

    /// Leaves, behind the input that was given before. The stream ends with `Detached`, unless the box
    /// ends first.
    pub fn detach(&self) {
        self.tell(Command::Detach);
    }

    fn tell(&self, command: Command) {
        // A stream that is over takes no commands, and its reader knows.
        drop(self.commands.send(command));
    }
}
