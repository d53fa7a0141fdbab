//! Appending to a log.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use minimal_proto::Timestamp;
use minimal_proto::api::LogFigures;
use minimal_proto::stream::Stream;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::frame::{HEADER, Header, MAX_PAYLOAD, TRAILER};
use super::segment::{self, Walk};
use super::{HEAD, LogError, LogHome};
use crate::box_dir::LOG;
use crate::hook;
use crate::regular::{self, PRIVATE_DIR};

/// A segment closes at this many bytes of output, so that dropping the oldest drops little.
const SEGMENT: u64 = 8 << 20;
/// In a small log it closes at this part of the limit, but not below [`MIN_SEGMENT`].
const SEGMENT_SHARE: u64 = 8;
const MIN_SEGMENT: u64 = 64 << 10;

/// What a segment counts for at least: a block of disk and its name.
const MIN_COST: u64 = 4 << 10;

/// After a failed write, output is dropped for so long before the disk is tried again.
const RETRY: Duration = Duration::from_millis(50);

/// The segment's name is looked for at most so often, and once per [`CHECK_BYTES`] of output.
const CHECK: Duration = Duration::from_secs(1);
const CHECK_BYTES: u64 = 1 << 20;

/// The one writer of a log.
///
/// Appending never fails: output that cannot be kept is counted and dropped, so that neither the
/// box nor its ending depends on the disk.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    /// The box's directory, to make `log/` again if someone deletes it.
    box_dir: OwnedFd,
    log: OwnedFd,
    log_max: u64,
    /// Closed segments, oldest first.
    closed: VecDeque<Closed>,
    /// None after a failed write, until one succeeds.
    current: Option<Current>,
    end: u64,
    dropped: u64,
    fault: Option<Fault>,
}

/// A segment that gets no more output.
#[derive(Debug)]
struct Closed {
    start: u64,
    end: u64,
    /// Length of its file.
    bytes: u64,
}

/// The segment that gets the output. It ends at the log's end.
#[derive(Debug)]
struct Current {
    file: File,
    start: u64,
    /// Length of its file.
    bytes: u64,
    /// When its name was last seen to be there, and its length then.
    checked: (Timestamp, u64),
}

/// Why output is being dropped.
#[derive(Debug)]
struct Fault {
    at: Timestamp,
    error: io::Error,
}

/// What became of some output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The log's end after it, whether kept or dropped.
    pub end: u64,
    /// It was dropped, all or in part: the disk is full or failing. See [`LogWriter::fault`].
    pub dropped: bool,
}

impl LogWriter {
    /// Opens the log at its end, or makes it, and cuts a torn tail. The caller holds the box's
    /// keeper lock. `log_max` is how many bytes of segment files are kept, beside the first
    /// [`HEAD`] bytes of output and the segment in use.
    ///
    /// # Errors
    /// `log/` is not a directory, or no segment can be opened as a regular file for writing: such
    /// a box is not started.
    pub fn create_or_open(dir: &impl LogHome, log_max: u64) -> Result<Self, LogError> {
        let path = dir.path().join(LOG);
        let open_error = |source| LogError::Open { path: path.clone(), source };
        let box_dir = dir.dir_fd().try_clone_to_owned().map_err(open_error)?;
        let log = make_dir(&box_dir).map_err(open_error)?;
        let mut writer = Self {
            path: path.clone(),
            box_dir,
            log,
            log_max,
            closed: VecDeque::new(),
            current: None,
            end: 0,
            dropped: 0,
            fault: None,
        };
        let starts = segment::list(writer.log.as_fd()).map_err(open_error)?;
        if let Some((last, closed)) = starts.split_last() {
            writer.adopt(closed, *last)?;
        }
        if writer.current.is_none() {
            writer.open_segment(Timestamp::from_micros(0)).map_err(|source| LogError::Open {
                path: path.join(segment::name(writer.end)),
                source,
            })?;
        }
        Ok(writer)
    }

    /// Goes on at an offset, if the log ends before it: what a full disk took of a former life's end
    /// has its offsets, too.
    ///
    /// # Errors
    /// No segment can be opened there.
    pub fn go_on_at(&mut self, offset: u64) -> Result<(), LogError> {
        if offset <= self.end {
            return Ok(());
        }
        if let Some(before) = self.current.take() {
            self.close(&before);
        }
        self.end = offset;
        self.open_segment(Timestamp::from_micros(0)).map_err(|source| LogError::Open {
            path: self.path.join(segment::name(offset)),
            source,
        })
    }

    /// Appends output that was read from the box at `ts`: one write for up to 256 KiB.
    pub fn append(&mut self, stream: Stream, ts: Timestamp, bytes: &[u8]) -> Appended {
        let mut dropped = false;
        for piece in bytes.chunks(MAX_PAYLOAD) {
            // At most 256 KiB.
            let length = u32::try_from(piece.len()).expect("a piece is short");
            let header = Header { stream: stream.to_byte(), length, offset: self.end, ts };
            if self.prepare(ts) && self.write(&header, piece) {
                self.fault = None;
            } else {
                dropped = true;
                self.dropped += u64::from(length);
            }
            self.end = self.end.saturating_add(u64::from(length));
        }
        Appended { end: self.end, dropped }
    }

    /// The log's end: how many bytes were ever appended, dropped ones included.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes that this writer dropped because the disk was full or failing.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Why output is being dropped at present, if it is.
    #[must_use]
    pub fn fault(&self) -> Option<&io::Error> {
        self.fault.as_ref().map(|fault| &fault.error)
    }

    /// The log's size and what is missing of it, for whatever reason.
    #[must_use]
    pub fn figures(&self) -> LogFigures {
        let closed: u64 = self.closed.iter().map(|segment| segment.end - segment.start).sum();
        let current = self.current.as_ref().map_or(0, |current| self.end - current.start);
        LogFigures { bytes: self.end, dropped_bytes: self.end.saturating_sub(closed + current) }
    }

    /// Drops the oldest segments beyond `log_max`, but not the first [`HEAD`] bytes of output, nor
    /// anything at or after `keep_from`. Cheap when there is nothing to drop.
    pub fn trim(&mut self, keep_from: Option<u64>) {
        let keep_from = keep_from.unwrap_or(u64::MAX);
        while self.bytes() > self.log_max {
            let oldest = self.closed.iter().position(|segment| segment.start >= HEAD);
            let Some(index) = oldest.filter(|index| self.closed[*index].end <= keep_from) else {
                return;
            };
            let name = segment::name(self.closed[index].start);
            match rustix::fs::unlinkat(&self.log, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => drop(self.closed.remove(index)),
                // Tried again with the next output.
                Err(_) => return,
            }
        }
    }

    /// Whether `log_max` bytes of segment files are kept from `pin` on already, so that a box
    /// whose reader is there waits. Never when everything has been read.
    #[must_use]
    pub fn would_exceed(&self, pin: u64) -> bool {
        if pin >= self.end || self.bytes() < self.log_max {
            return false;
        }
        let closed = self.closed.iter().map(|closed| (closed.start, closed.end, closed.bytes));
        let current = self.current.iter().map(|current| (current.start, self.end, current.bytes));
        let behind = closed.chain(current).map(|(start, end, bytes)| {
            let unread = u128::from(end.saturating_sub(pin.max(start)));
            // The part of the file that holds the part of the output.
            u128::from(bytes) * unread / u128::from(end - start).max(1)
        });
        behind.sum::<u128>() >= u128::from(self.log_max)
    }

    /// Closes the log for good and returns its end, which the ending records as `log_end`.
    #[must_use]
    pub fn seal(self) -> u64 {
        self.end
    }

    /// What all segments count for.
    fn bytes(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(|closed| closed.bytes.max(MIN_COST)).sum();
        closed + self.current.as_ref().map_or(0, |current| current.bytes)
    }

    /// Takes over the segments of an earlier writer.
    fn adopt(&mut self, closed: &[u64], last: u64) -> Result<(), LogError> {
        let log = self.log.as_fd();
        for (index, start) in closed.iter().enumerate() {
            let next = closed.get(index + 1).copied().unwrap_or(last);
            // One that cannot be read is missing to readers too.
            let Ok(Some(file)) = segment::open(log, *start, OFlags::RDONLY) else { continue };
            let Ok(end) = segment::end(&file, *start) else { continue };
            let bytes = file.metadata().map_or(0, |metadata| metadata.len());
            self.closed.push_back(Closed { start: *start, end: end.min(next), bytes });
        }
        let path = self.path.join(segment::name(last));
        let error = |source| LogError::Open { path: path.clone(), source };
        let file = segment::open(log, last, OFlags::RDWR).map_err(error)?;
        let Some(file) = file else { return Ok(()) };
        let mut walk = Walk::new(&file, last);
        while walk.next().map_err(error)?.is_some() {}
        let (end, bytes) = (walk.offset(), walk.file_end());
        self.end = end;
        let torn = file.metadata().map_err(error)?.len() > bytes;
        if torn {
            // Nothing is put in its place: a reader may have seen the torn bytes, and is never to
            // see others there. The output goes on in a segment of its own.
            file.set_len(bytes).map_err(error)?;
            if end > last {
                self.closed.push_back(Closed { start: last, end, bytes });
            }
        } else {
            let checked = (Timestamp::from_micros(0), bytes);
            self.current = Some(Current { file, start: last, bytes, checked });
        }
        Ok(())
    }

    /// Makes sure that there is a segment to write to. `false`: there cannot be one now.
    fn prepare(&mut self, ts: Timestamp) -> bool {
        if let Some(current) = &mut self.current {
            let (seen, bytes) = current.checked;
            if elapsed(seen, ts) >= CHECK || current.bytes - bytes >= CHECK_BYTES {
                current.checked = (ts, current.bytes);
                if rustix::fs::fstat(&current.file).is_ok_and(|stat| stat.st_nlink == 0) {
                    // Deleted under us, and what it held with it.
                    self.current = None;
                }
            }
        } else if let Some(fault) = &self.fault
            && elapsed(fault.at, ts) < RETRY
        {
            return false;
        }
        let full = |current: &Current| {
            let limit = (self.log_max / SEGMENT_SHARE).clamp(MIN_SEGMENT, SEGMENT);
            let close_at =
                if current.start < HEAD { HEAD } else { current.start.saturating_add(limit) };
            self.end >= close_at
        };
        if self.current.as_ref().is_some_and(|current| !full(current)) {
            return true;
        }
        match self.open_segment(ts) {
            Ok(()) => true,
            // A segment may be longer than it should; output is not dropped for that.
            Err(_) if self.current.is_some() => true,
            Err(error) => {
                self.fault = Some(Fault { at: ts, error });
                false
            }
        }
    }

    /// Begins a segment at the log's end and closes the one before.
    fn open_segment(&mut self, ts: Timestamp) -> io::Result<()> {
        let name = segment::name(self.end);
        let mut file = regular::create(self.log.as_fd(), &name);
        match file.as_ref().map_err(Errno::from_io_error) {
            // What is there holds no whole frame, or the log would end later.
            Err(Some(Errno::EXIST)) => {
                rustix::fs::unlinkat(&self.log, &name, AtFlags::empty())?;
                file = regular::create(self.log.as_fd(), &name);
            }
            // log/ was deleted under us.
            Err(Some(Errno::NOENT)) => {
                self.log = make_dir(&self.box_dir)?;
                file = regular::create(self.log.as_fd(), &name);
            }
            _ => {}
        }
        let current = Current { file: file?, start: self.end, bytes: 0, checked: (ts, 0) };
        if let Some(before) = self.current.replace(current) {
            self.close(&before);
        }
        Ok(())
    }

    fn close(&mut self, segment: &Current) {
        let (start, bytes) = (segment.start, segment.bytes);
        if bytes == 0 {
            // It would say nothing, and its name may be needed. Harmless if it stays.
            let _stays = rustix::fs::unlinkat(&self.log, segment::name(start), AtFlags::empty());
        } else {
            self.closed.push_back(Closed { start, end: self.end, bytes });
        }
    }

    /// Writes a frame. `false`: nothing of it is there.
    fn write(&mut self, header: &Header, payload: &[u8]) -> bool {
        let Some(current) = &mut self.current else { return false };
        let done = hook::point("store.log.append")
            .and_then(|()| write_frame(&current.file, current.bytes, header, payload));
        match done {
            Ok(()) => {
                current.bytes += header.frame() as u64;
                true
            }
            Err(error) => {
                // Gives back what a part of the frame took. If that fails too, a reader sees that
                // the frame is not whole.
                drop(current.file.set_len(current.bytes));
                self.fault = Some(Fault { at: header.ts, error });
                if let Some(segment) = self.current.take() {
                    self.close(&segment);
                }
                false
            }
        }
    }
}

/// Makes the log of a box to come: its directory, and a first segment without a frame.
pub(crate) fn create(box_dir: BorrowedFd<'_>) -> io::Result<()> {
    rustix::fs::mkdirat(box_dir, LOG, PRIVATE_DIR)?;
    let log = segment::open_dir_at(box_dir)?.ok_or(Errno::NOENT)?;
    regular::create(log.as_fd(), &segment::name(0)).map(drop)
}

/// Makes and opens `log/`.
fn make_dir(box_dir: &OwnedFd) -> io::Result<OwnedFd> {
    if let Some(log) = segment::open_dir_at(box_dir.as_fd())? {
        return Ok(log);
    }
    match rustix::fs::mkdirat(box_dir, LOG, PRIVATE_DIR) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    segment::open_dir_at(box_dir.as_fd())?.ok_or_else(|| Errno::NOENT.into())
}

fn write_frame(file: &File, mut at: u64, header: &Header, payload: &[u8]) -> io::Result<()> {
    let (head, tail): ([u8; HEADER], [u8; TRAILER]) = (header.encode(), header.trailer());
    let mut parts = [IoSlice::new(&head), IoSlice::new(payload), IoSlice::new(&tail)];
    let mut parts = &mut parts[..];
    while !parts.is_empty() {
        match rustix::io::pwritev(file, parts, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += written as u64;
                IoSlice::advance_slices(&mut parts, written);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// How far apart two times are, whichever way a clock was set.
fn elapsed(a: Timestamp, b: Timestamp) -> Duration {
    a.max(b).since(a.min(b))
}
