//! Writing output on a thread: a reader of ours may be slow, or stopped.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::{SyncSender, sync_channel};

use bytes::Bytes;
use minimal_proto::stream::Stream;
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// How many pieces may wait: with 256 KiB each, enough that the next is there when one is written.
const AHEAD: usize = 4;

struct Job {
    stream: Stream,
    bytes: Bytes,
    end: u64,
}

/// What became of a piece.
#[derive(Debug)]
pub(super) enum Written {
    /// All output before this offset was passed on.
    UpTo(u64),
    /// Standard output cannot be written any more.
    Failed(io::Error),
}

/// Writes to standard output and standard error, in order.
#[derive(Debug)]
pub(super) struct Writer {
    // Made with the first output: many commands have none.
    jobs: Option<SyncSender<Job>>,
    tell: UnboundedSender<Written>,
    told: UnboundedReceiver<Written>,
    waiting: usize,
}

impl Writer {
    pub(super) fn new() -> Self {
        let (tell, told) = unbounded_channel();
        Self { jobs: None, tell, told, waiting: 0 }
    }

    /// Whether another piece may be given.
    pub(super) fn has_room(&self) -> bool {
        self.waiting < AHEAD
    }

    /// Whether everything was written.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting == 0
    }

    /// Gives a piece; `end` is the offset behind it. Only with room.
    pub(super) fn write(&mut self, stream: Stream, bytes: Bytes, end: u64) -> io::Result<()> {
        let jobs = match &self.jobs {
            Some(jobs) => jobs,
            None => self.jobs.insert(start(self.tell.clone())?),
        };
        self.waiting += 1;
        // A thread that has failed has said so, and the loop leaves when it hears it.
        drop(jobs.try_send(Job { stream, bytes, end }));
        Ok(())
    }

    /// What became of the oldest piece that is under way. Cancelling loses nothing.
    pub(super) async fn written(&mut self) -> Written {
        let written = self.told.recv().await.expect("we hold a sender ourselves");
        self.waiting -= 1;
        written
    }
}

fn start(tell: UnboundedSender<Written>) -> io::Result<SyncSender<Job>> {
    let (jobs, queue) = sync_channel::<Job>(AHEAD);
    std::thread::Builder::new().name("output".to_owned()).spawn(move || {
        let mut stderr_works = true;
        for job in queue {
            let written = match job.stream {
                Stream::Stdout | Stream::Pty => write_all(io::stdout().as_fd(), &job.bytes),
                // Words that cannot be said cost neither the output nor the ending, and they are
                // in the log.
                Stream::Stderr => {
                    stderr_works =
                        stderr_works && write_all(io::stderr().as_fd(), &job.bytes).is_ok();
                    Ok(())
                }
            };
            let failed = written.is_err();
            let written = match written {
                Ok(()) => Written::UpTo(job.end),
                Err(error) => Written::Failed(error),
            };
            if tell.send(written).is_err() || failed {
                return;
            }
        }
    })?;
    Ok(jobs)
}

/// Writes all of it, to a descriptor that somebody may have set not to block.
fn write_all(fd: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&fd, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) => {
                // An interrupted wait is begun anew by the loop.
                poll(&mut [PollFd::new(&fd, PollFlags::OUT)], None).ok();
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_pipe_that_does_not_block_gets_every_byte() {
        let (mut reader, writer) = io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&writer, true).unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
        let expected = bytes.clone();
        let writing = std::thread::spawn(move || write_all(&writer, &bytes));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        writing.join().unwrap().unwrap();
        assert!(read == expected);
    }

    #[test]
    fn a_closed_pipe_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let error = write_all(&writer, b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
