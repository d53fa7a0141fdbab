//! Segment files: `log/<offset of the first byte, 20 digits>.seg`.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::LogHome;
use super::frame::{HEADER, Header, TRAILER};
use crate::box_dir::LOG;
use crate::regular;

const SUFFIX: &str = ".seg";

/// How much a walk reads at a time: several frames of a few lines each.
const BLOCK: usize = 16 << 10;

/// The name of the segment that begins at an offset.
pub(super) fn name(start: u64) -> String {
    format!("{start:020}{SUFFIX}")
}

fn parse_name(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_suffix(SUFFIX)?;
    let plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Twenty digits can be more than 2^64.
    if plain { digits.parse().ok() } else { None }
}

/// Opens the log's directory; `None` if there is none.
pub(super) fn open_dir(dir: &impl LogHome) -> io::Result<Option<OwnedFd>> {
    open_dir_at(dir.dir_fd())
}

pub(super) fn open_dir_at(box_dir: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(box_dir, LOG, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Where the segments in a log's directory begin, in order. Other names are passed over.
pub(super) fn list(log: BorrowedFd<'_>) -> io::Result<Vec<u64>> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut starts = Vec::new();
    for entry in Dir::read_from(log)? {
        let entry = entry?;
        starts.extend(parse_name(OsStr::from_bytes(entry.file_name().to_bytes())));
    }
    starts.sort_unstable();
    Ok(starts)
}

/// Opens a segment; `None` if there is none, as when it has just been dropped.
pub(super) fn open(log: BorrowedFd<'_>, start: u64, flags: OFlags) -> io::Result<Option<File>> {
    match regular::open(log, &name(start), flags) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The offset at which a segment ends, by its last frame; by a walk over all of them if the file
/// does not end with a whole one.
pub(super) fn end(file: &File, start: u64) -> io::Result<u64> {
    let size = file.metadata()?.len();
    match last_frame(file, start, size)? {
        Some(header) => Ok(header.end()),
        None => {
            let mut walk = Walk::new(file, start);
            while walk.next()?.is_some() {}
            Ok(walk.offset())
        }
    }
}

/// The header of the frame that ends with the file. What a box printed could look like one in a
/// file that was cut at just the right byte; so this serves figures, and never what is read out.
fn last_frame(file: &File, start: u64, size: u64) -> io::Result<Option<Header>> {
    let mut trailer = [0; TRAILER];
    let Some(at) = size.checked_sub(TRAILER as u64) else { return Ok(None) };
    file.read_exact_at(&mut trailer, at)?;
    let [a, b, c, d, _last] = trailer;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    let Some(at) = at.checked_sub(length + HEADER as u64) else { return Ok(None) };
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, at)?;
    Ok(Header::decode(&header).filter(|header| {
        header.trailer() == trailer && (start..=start.saturating_add(at)).contains(&header.offset)
    }))
}

/// Walks over the whole frames of a segment, without reading more of them than it must.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    file: &'a File,
    /// Where the next frame begins in the file.
    at: u64,
    /// Which offset it must be for.
    offset: u64,
    block: Vec<u8>,
    block_at: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(file: &'a File, start: u64) -> Self {
        Self { file, at: 0, offset: start, block: Vec::new(), block_at: 0 }
    }

    /// The next frame's header and where its payload begins in the file; `None` at the first thing
    /// that is not a whole frame.
    pub(super) fn next(&mut self) -> io::Result<Option<(Header, u64)>> {
        let Some(bytes) = self.bytes::<HEADER>(self.at)? else { return Ok(None) };
        let header = Header::decode(&bytes).filter(|header| header.offset == self.offset);
        let Some(header) = header else { return Ok(None) };
        let payload = self.at + HEADER as u64;
        let trailer = self.bytes::<TRAILER>(payload + u64::from(header.length))?;
        if trailer != Some(header.trailer()) {
            return Ok(None);
        }
        self.at += header.frame() as u64;
        self.offset = header.end();
        Ok(Some((header, payload)))
    }

    /// The offset after the last frame.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the file should end.
    pub(super) fn file_end(&self) -> u64 {
        self.at
    }

    fn bytes<const N: usize>(&mut self, at: u64) -> io::Result<Option<[u8; N]>> {
        let within = |block: &[u8], block_at: u64| {
            let from = usize::try_from(at.checked_sub(block_at)?).ok()?;
            block.get(from..)?.first_chunk::<N>().copied()
        };
        if let Some(bytes) = within(&self.block, self.block_at) {
            return Ok(Some(bytes));
        }
        self.block.resize(BLOCK, 0);
        let read = read_at(self.file, &mut self.block, at)?;
        self.block.truncate(read);
        self.block_at = at;
        Ok(within(&self.block, at))
    }
}

/// Reads until the buffer is full or the file ends.
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
