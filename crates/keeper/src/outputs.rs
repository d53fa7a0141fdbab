//! A program's stdout and stderr: read as they come, appended to the log.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use minimal_proto::stream::Stream;

/// What a pipe holds unless it is asked to hold more (pipe(7)).
const PIPE: usize = 64 << 10;
/// What a busy pipe is asked to hold: fewer turns for the same bytes. The most an unprivileged
/// process may ask for (pipe(7), pipe-max-size). Idle boxes stay small: an ordinary user's pipes
/// may hold 64 MiB together.
pub(crate) const BUSY_PIPE: usize = 1 << 20;

/// How much is read at a time, and so the longest frame of the log.
pub(crate) const READ: usize = 256 << 10;

/// One of the outputs.
#[derive(Debug)]
pub(crate) struct Output {
    stream: Stream,
    pipe: Option<OwnedFd>,
    grown: bool,
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing ever again.
    End,
}

impl Output {
    /// Takes the reading end of a pipe. Without one it has ended.
    pub(crate) fn new(stream: Stream, pipe: Option<OwnedFd>) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self { stream, pipe, grown: false })
    }

    /// Which output it is.
    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }

    /// Reads no more of it: whoever still writes to it is told that nobody does.
    pub(crate) fn close(&mut self) {
        self.pipe = None;
    }

    /// Whether nobody can write to it any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.pipe.is_none()
    }

    /// The pipe, until its end.
    pub(crate) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(OwnedFd::as_fd)
    }

    /// Reads once into the buffer.
    ///
    /// # Errors
    /// What read(2) says; the pipe is of no further use then.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        let Some(pipe) = &self.pipe else { return Ok(Read::End) };
        match rustix::io::retry_on_intr(|| rustix::io::read(pipe, &mut *buffer)) {
            Ok(0) => {
                self.pipe = None;
                Ok(Read::End)
            }
            Ok(length) => {
                if length >= PIPE && !self.grown && self.stream != Stream::Pty {
                    self.grown = true;
                    // Refused beyond the user's share; the pipe then stays as it is.
                    rustix::pipe::fcntl_setpipe_size(pipe, BUSY_PIPE).ok();
                }
                Ok(Read::Bytes(length))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(Read::Nothing),
            // Of a terminal: nobody holds the other end, and everything was read.
            Err(rustix::io::Errno::IO) if self.stream == Stream::Pty => {
                self.pipe = None;
                Ok(Read::End)
            }
            Err(error) => {
                self.pipe = None;
                Err(error.into())
            }
        }
    }
}
