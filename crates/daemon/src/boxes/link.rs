//! A connection to a keeper.

use std::io;
use std::os::fd::AsRawFd as _;

use minimal_proto::keeper::{
    DecodeError, Decoder, FromKeeper, Incoming, ToKeeper, encode_input, encode_json,
};
use minimal_store::BoxDir;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Bytes read at once. On the stack of the call, so that an idle box costs no buffer.
const READ: usize = 8 << 10;

/// The name of a keeper's socket in its box's directory.
const SOCKET: &str = "keeper.sock";

/// One connection to one keeper. Never blocks: what cannot be written yet is queued, and the caller
/// looks at [`Link::backlog`] before it adds what can wait.
#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    decoder: Decoder,
    queue: Vec<u8>,
    /// How much of the queue was written.
    written: usize,
}

/// The connection is of no further use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The keeper closed it, or died.
    #[error("the keeper closed its connection")]
    Closed,
    /// The kernel's answer.
    #[error("talk to the keeper")]
    Io(#[source] io::Error),
    /// It does not speak the protocol.
    #[error("read the keeper's message")]
    Decode(#[source] DecodeError),
    /// It sent what only daemons send.
    #[error("the keeper sent input")]
    Input,
    /// It did not say hello in time.
    #[error("the keeper does not answer")]
    Silent,
    /// It said something else first.
    #[error("the keeper did not say hello")]
    NoHello,
    /// It keeps another box.
    #[error("another box's keeper answers")]
    Stranger,
}

impl Link {
    /// A link over a connection that is there.
    pub(crate) fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::over(UnixStream::from_std(stream)?))
    }

    /// Connects to the keeper of a box.
    pub(crate) async fn connect(dir: &BoxDir) -> io::Result<Self> {
        // Through the directory's descriptor: the path may be too long for an address (unix(7)).
        // Not blocking: a stopped keeper with a full backlog answers EAGAIN.
        let path = format!("/proc/self/fd/{}/{SOCKET}", dir.dir_fd().as_raw_fd());
        Ok(Self::over(UnixStream::connect(path).await?))
    }

    fn over(stream: UnixStream) -> Self {
        Self { stream, decoder: Decoder::default(), queue: Vec::new(), written: 0 }
    }

    /// Queues a message.
    pub(crate) fn send(&mut self, message: &ToKeeper) {
        self.push(&encode_json(message));
    }

    /// Queues input.
    pub(crate) fn send_input(&mut self, offset: u64, bytes: &[u8]) {
        self.push(&encode_input(offset, bytes));
    }

    /// Writes what is queued until there is something to read, or the end. Nothing is read.
    pub(crate) async fn answered(&mut self) {
        loop {
            // An error is met again by whoever reads.
            let Ok(ready) = self.stream.ready(self.interest()).await else { return };
            if ready.is_readable() {
                return;
            }
            drop(self.flush());
        }
    }

    /// What is waited for: a socket takes nothing before it is known to be writable, also a new one.
    fn interest(&self) -> Interest {
        match self.backlog() {
            0 => Interest::READABLE,
            _ => Interest::READABLE | Interest::WRITABLE,
        }
    }

    /// Bytes that the keeper has not taken.
    pub(crate) fn backlog(&self) -> usize {
        self.queue.len() - self.written
    }

    /// The next message; writes what is queued meanwhile. Cancel-safe.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub(crate) async fn next(&mut self) -> Result<FromKeeper, LinkError> {
        loop {
            match self.decoder.next_message::<FromKeeper>().map_err(LinkError::Decode)? {
                Some(Incoming::Message(message)) => return Ok(message),
                Some(Incoming::Input { .. }) => return Err(LinkError::Input),
                None => {}
            }
            let ready = self.stream.ready(self.interest()).await.map_err(LinkError::Io)?;
            if ready.is_writable() {
                // A keeper that has died may have said its last words: they are read first, and
                // then the end tells.
                drop(self.flush());
            }
            if ready.is_readable() {
                self.fill()?;
            }
        }
    }

    fn push(&mut self, message: &[u8]) {
        // Drop what was written once it outweighs the rest, so that pushing stays linear.
        if self.written >= self.backlog() {
            self.queue.drain(..self.written);
            self.written = 0;
        }
        self.queue.extend_from_slice(message);
        // Mostly the socket takes it at once; else `next` goes on.
        drop(self.flush());
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.backlog() > 0 {
            match self.stream.try_write(&self.queue[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    // Nobody will read it; the reading side tells what became of the keeper.
                    self.written = self.queue.len();
                    return Err(error);
                }
            }
        }
        if self.queue.capacity() > READ {
            self.queue = Vec::new();
            self.written = 0;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<(), LinkError> {
        let mut buffer = [0; READ];
        match self.stream.try_read(&mut buffer) {
            Ok(0) => Err(LinkError::Closed),
            Ok(read) => {
                self.decoder.feed(&buffer[..read]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(LinkError::Closed),
            Err(error) => Err(LinkError::Io(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::testing::within;

    /// Whoever answers has to be told everything first, however little the socket takes at once.
    #[tokio::test]
    async fn what_is_queued_is_written_while_an_answer_is_waited_for() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut link = Link::new(ours).unwrap();
        let bytes = vec![7; 4 << 20];
        link.send_input(0, &bytes);
        assert!(link.backlog() > 0, "a socket takes some 200 KiB");
        let length = link.backlog() + link.written;
        let keeper = std::thread::spawn(move || {
            theirs.read_exact(&mut vec![0; length]).unwrap();
            theirs.write_all(b"!").unwrap();
            theirs
        });
        within(link.answered()).await;
        keeper.join().unwrap();
    }
}
