//! Reading a log, also while it is written.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use minimal_proto::Timestamp;
use minimal_proto::stream::Stream;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::frame::{Header, MAX_PAYLOAD, OVERHEAD, Parsed, parse};
use super::segment;
use super::{LogError, LogHome};
use crate::box_dir::LOG;

/// The most that is read at a time: a frame always fits.
const READ: usize = 2 * (MAX_PAYLOAD + OVERHEAD);
/// The least that is read at a time: a few lines and what frames them.
const MIN_READ: usize = 8 << 10;

/// Reads a log from an offset on. Holds no memory while it has caught up.
#[derive(Debug)]
pub struct LogReader {
    path: PathBuf,
    /// The box's directory: `log/` may be made again under a reader.
    box_dir: OwnedFd,
    segment: Option<Segment>,
    position: u64,
}

/// What comes next in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Output, in order, without a hole.
    Frames(Vec<FrameOut>),
    /// Output that is no longer kept, or never was.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The byte after the last missing one.
        to: u64,
    },
}

/// Output of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameOut {
    /// Which.
    pub stream: Stream,
    /// The offset of its first byte.
    pub offset: u64,
    /// When the keeper read it from the box.
    pub ts: Timestamp,
    /// The bytes; at least one.
    pub bytes: Vec<u8>,
}

/// What stands at the position.
enum Next {
    Frame(FrameOut),
    GapUntil(u64),
}

impl LogReader {
    /// Opens the log to read from the offset `from` of a log that ends at `end` now.
    ///
    /// # Errors
    /// `from` is past the end, or the process has no descriptor left.
    pub fn open(dir: &impl LogHome, from: u64, end: u64) -> Result<Self, LogError> {
        if from > end {
            return Err(LogError::PastEnd { from, end });
        }
        let path = dir.path().join(LOG);
        match dir.dir_fd().try_clone_to_owned() {
            Ok(box_dir) => Ok(Self { path, box_dir, segment: None, position: from }),
            Err(source) => Err(LogError::Open { path, source }),
        }
    }

    /// The offset of the next byte it will give.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next at most `max` bytes before `end`; `None` at `end`, without a system call. A gap
    /// is a chunk of its own.
    ///
    /// `end` is what the log's writer has announced, or what an ending or
    /// [`super::figures`] says: all of it has been written, so what is not there is missing.
    ///
    /// # Errors
    /// The log cannot be read; the call can be repeated.
    pub fn next_chunk(&mut self, end: u64, max: usize) -> Result<Option<Chunk>, LogError> {
        let mut room = max.max(1);
        let mut frames = Vec::new();
        while self.position < end && room > 0 {
            match self.next(end, room) {
                Ok(Next::Frame(frame)) => {
                    room -= frame.bytes.len();
                    self.position += frame.bytes.len() as u64;
                    frames.push(frame);
                }
                Ok(Next::GapUntil(to)) if frames.is_empty() => {
                    let from = std::mem::replace(&mut self.position, to);
                    return Ok(Some(Chunk::Gap { from, to }));
                }
                // Told by the next call: what was read is given first.
                Ok(Next::GapUntil(_)) => break,
                Err(_) if !frames.is_empty() => break,
                Err(source) => return Err(LogError::Read { path: self.path.clone(), source }),
            }
        }
        if self.position >= end
            && let Some(segment) = &mut self.segment
        {
            segment.release();
        }
        Ok((!frames.is_empty()).then_some(Chunk::Frames(frames)))
    }

    /// What stands at the position, which is before `end`; at most `room` bytes of it.
    fn next(&mut self, end: u64, room: usize) -> io::Result<Next> {
        let mut exhausted = None;
        loop {
            let Some(segment) = &mut self.segment else {
                if let Some(to) = self.find(end, exhausted)? {
                    return Ok(Next::GapUntil(to));
                }
                continue;
            };
            let want = usize::try_from(end - self.position).unwrap_or(READ);
            let Some((header, payload)) = segment.frame(want.saturating_add(MIN_READ))? else {
                exhausted = Some(segment.identity);
                self.segment = None;
                continue;
            };
            if header.end() <= self.position {
                segment.pass(&header);
                continue;
            }
            let Some(stream) = Stream::from_byte(header.stream) else {
                // A stream of a later version: nothing that could be given to anyone.
                return Ok(Next::GapUntil(header.end().min(end)));
            };
            // Frames follow each other from a start at or before the position.
            let bytes = &segment.buffer[payload];
            let skip = usize::try_from(self.position - header.offset).unwrap_or(usize::MAX);
            let bytes = bytes.get(skip..).unwrap_or_default();
            let take = bytes.len().min(room).min(want);
            let bytes = bytes[..take].to_vec();
            return Ok(Next::Frame(FrameOut {
                stream,
                offset: self.position,
                ts: header.ts,
                bytes,
            }));
        }
    }

    /// Opens the segment that holds the position. If none does, where the gap ends.
    /// `exhausted` is a segment that was found not to.
    fn find(&mut self, end: u64, exhausted: Option<(u64, u64)>) -> io::Result<Option<u64>> {
        let Some(log) = segment::open_dir_at(self.box_dir.as_fd())? else { return Ok(Some(end)) };
        let mut starts = segment::list(log.as_fd())?;
        let later = starts.partition_point(|start| *start <= self.position);
        let gap = starts.get(later).copied().unwrap_or(end).min(end);
        starts.truncate(later);
        // The last one that begins here or before, unless it has just been dropped or is no file.
        while let Some(start) = starts.pop() {
            match segment::open(log.as_fd(), start, OFlags::RDONLY) {
                Ok(Some(file)) => {
                    let segment = Segment::new(file, start)?;
                    if exhausted == Some(segment.identity) {
                        break;
                    }
                    self.segment = Some(segment);
                    return Ok(None);
                }
                Ok(None) => {}
                Err(error) if is_scarcity(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Some(gap))
    }
}

/// Whether a file could not be opened for a reason that is not the file's.
fn is_scarcity(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// A segment that is being read.
#[derive(Debug)]
struct Segment {
    file: File,
    /// Device and inode: a name may come to mean another file.
    identity: (u64, u64),
    /// Where the next frame begins in the file.
    at: u64,
    /// Which offset it must be for.
    offset: u64,
    buffer: Vec<u8>,
    /// Where the buffer's first byte is in the file; at or before `at`.
    buffer_at: u64,
}

impl Segment {
    fn new(file: File, start: u64) -> io::Result<Self> {
        let stat = rustix::fs::fstat(&file)?;
        let identity = (stat.st_dev, stat.st_ino);
        Ok(Self { file, identity, at: 0, offset: start, buffer: Vec::new(), buffer_at: 0 })
    }

    /// The next frame: its header, and where its payload is in the buffer. `None`: no whole frame
    /// is there.
    fn frame(&mut self, want: usize) -> io::Result<Option<(Header, Range<usize>)>> {
        let from = usize::try_from(self.at - self.buffer_at).unwrap_or(usize::MAX);
        let rest = self.buffer.get(from..).unwrap_or_default();
        if let Parsed::Frame(header, payload) = parse(rest, self.offset) {
            return Ok(Some(found(from, header, payload)));
        }
        // Read again from the frame's beginning: it may not have been whole the last time.
        let mut want = want.clamp(MIN_READ, READ);
        loop {
            self.fill(want)?;
            match parse(&self.buffer, self.offset) {
                Parsed::Frame(header, payload) => return Ok(Some(found(0, header, payload))),
                Parsed::Short(needs) if self.buffer.len() >= want => want = needs,
                Parsed::Short(_) | Parsed::Broken => return Ok(None),
            }
        }
    }

    /// Goes on to the frame after this one.
    fn pass(&mut self, header: &Header) {
        self.at += header.frame() as u64;
        self.offset = header.end();
    }

    /// Reads at least `want` bytes at the next frame, or up to the file's end.
    fn fill(&mut self, want: usize) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.reserve(want);
        self.buffer_at = self.at;
        while self.buffer.len() < want {
            let at = self.at + self.buffer.len() as u64;
            match rustix::io::pread(
                &self.file,
                rustix::buffer::spare_capacity(&mut self.buffer),
                at,
            ) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Gives the buffer back.
    fn release(&mut self) {
        self.buffer = Vec::new();
        self.buffer_at = self.at;
    }
}

fn found(frame: usize, header: Header, payload: &[u8]) -> (Header, Range<usize>) {
    let start = frame + super::frame::HEADER;
    (header, start..start + payload.len())
}
