//! Finding places in a log.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use minimal_proto::Timestamp;
use minimal_proto::api::LogFigures;
use minimal_proto::stream::Stream;
use rustix::fs::OFlags;

use super::segment::{self, Walk};
use super::{LogError, LogHome};
use crate::box_dir::LOG;

/// The offset from which the last `lines` lines before `end` follow. With `stream`, only its lines
/// count; what other streams wrote meanwhile follows too. A last line without a newline counts, and
/// so does what follows a gap, up to its newline. With fewer lines in the log, 0.
///
/// # Errors
/// The log cannot be read.
pub fn tail_offset(
    dir: &impl LogHome,
    end: u64,
    lines: u64,
    stream: Option<Stream>,
) -> Result<u64, LogError> {
    if lines == 0 {
        return Ok(end);
    }
    let log = Segments::open(dir)?;
    let wanted = stream.map(Stream::to_byte);
    let mut payload = Vec::new();
    let mut found = 0;
    // The newline that ends the last line begins no other.
    let mut at_last_byte = true;
    let mut later = end;
    for start in log.starts.iter().rev().filter(|start| **start < end) {
        let Some(file) = log.segment(*start)? else { continue };
        let frames = log.read(frames(&file, *start, end))?;
        let Some(last) = frames.last() else { continue };
        if last.offset + u64::from(last.length) < later && !at_last_byte {
            found += 1;
            if found == lines {
                return Ok(later);
            }
            at_last_byte = true;
        }
        later = *start;
        for frame in frames.iter().rev().filter(|f| wanted.is_none_or(|byte| byte == f.stream)) {
            let length = u64::from(frame.length).min(end - frame.offset);
            payload.resize(usize::try_from(length).unwrap_or(0), 0);
            log.read(file.read_exact_at(&mut payload, frame.at))?;
            for (index, _) in payload.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                if std::mem::take(&mut at_last_byte) && index + 1 == payload.len() {
                    continue;
                }
                found += 1;
                if found == lines {
                    return Ok(frame.offset + index as u64 + 1);
                }
            }
            at_last_byte = false;
        }
    }
    Ok(0)
}

/// The offset of the first output before `end` that is not older than `since`; `end` if there is
/// none. Where the clock was set back while the box ran, it may be found late by up to a segment.
///
/// # Errors
/// The log cannot be read.
pub fn since_offset(dir: &impl LogHome, end: u64, since: Timestamp) -> Result<u64, LogError> {
    let log = Segments::open(dir)?;
    // The last segment that begins with older output.
    let mut before = None;
    let mut after = end;
    for start in log.starts.iter().filter(|start| **start < end) {
        let Some(file) = log.segment(*start)? else { continue };
        match log.read(Walk::new(&file, *start).next())? {
            Some((header, _)) if header.ts >= since => {
                after = *start;
                break;
            }
            Some(_) => before = Some((*start, file)),
            None => {}
        }
    }
    let Some((start, file)) = before else { return Ok(after) };
    let mut walk = Walk::new(&file, start);
    while let Some((header, _)) = log.read(walk.next())? {
        if header.ts >= since {
            return Ok(header.offset.min(end));
        }
    }
    Ok(after)
}

/// The log's size and what is missing of it, as its files show it. Output that was dropped after
/// the last that was kept does not show; the ending's `log_end` knows of it.
///
/// # Errors
/// The log cannot be read.
pub fn figures(dir: &impl LogHome) -> Result<LogFigures, LogError> {
    let log = Segments::open(dir)?;
    let mut end = 0;
    let mut kept = 0;
    for (index, start) in log.starts.iter().enumerate() {
        let Some(file) = log.segment(*start)? else { continue };
        let next = log.starts.get(index + 1).copied().unwrap_or(u64::MAX);
        let segment_end = log.read(segment::end(&file, *start))?.min(next);
        kept += segment_end - start;
        end = segment_end;
    }
    Ok(LogFigures { bytes: end, dropped_bytes: end.saturating_sub(kept) })
}

/// Where a frame's payload is.
struct Place {
    /// In the file.
    at: u64,
    /// In the log.
    offset: u64,
    length: u32,
    stream: u8,
}

/// The frames of a segment that begin before `end`.
fn frames(file: &File, start: u64, end: u64) -> io::Result<Vec<Place>> {
    let mut places = Vec::new();
    let mut walk = Walk::new(file, start);
    while let Some((header, at)) = walk.next()? {
        if header.offset >= end {
            break;
        }
        let (offset, length, stream) = (header.offset, header.length, header.stream);
        places.push(Place { at, offset, length, stream });
    }
    Ok(places)
}

/// The segments of a log, as they are now.
struct Segments {
    path: PathBuf,
    /// None: there is no `log/`, and so nothing in it.
    log: Option<OwnedFd>,
    starts: Vec<u64>,
}

impl Segments {
    fn open(dir: &impl LogHome) -> Result<Self, LogError> {
        let path = dir.path().join(LOG);
        let error = |source| LogError::Open { path: path.clone(), source };
        let log = segment::open_dir(dir).map_err(error)?;
        let starts = match &log {
            Some(log) => segment::list(log.as_fd()).map_err(error)?,
            None => Vec::new(),
        };
        Ok(Self { path, log, starts })
    }

    /// A segment; `None` if it has been dropped meanwhile, or is no regular file.
    fn segment(&self, start: u64) -> Result<Option<File>, LogError> {
        let Some(log) = &self.log else { return Ok(None) };
        match segment::open(log.as_fd(), start, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
            other => self.read(other),
        }
    }

    fn read<T>(&self, result: io::Result<T>) -> Result<T, LogError> {
        result.map_err(|source| LogError::Read { path: self.path.clone(), source })
    }
}
