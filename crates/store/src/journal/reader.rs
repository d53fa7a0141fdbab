//! Reading a journal, also while it is written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use minimal_proto::Event;
use rustix::fs::OFlags;

use super::{JournalError, MAX_JOURNAL, MAX_LINE};
use crate::box_dir::{BoxDir, JOURNAL};
use crate::regular;

/// How much is read at first, enough for what an ordinary life adds, and then at a time.
const FIRST_READ: usize = 4 << 10;
const READ: usize = 64 << 10;

/// Reads a journal from its start, then what is added.
#[derive(Debug)]
pub struct JournalReader {
    path: PathBuf,
    file: File,
    /// Where the next line begins.
    offset: u64,
    tail: Tail,
}

/// What follows the last event that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tail {
    /// Nothing.
    Clean,
    /// The beginning of a line: an event that is being written, or whose writer died.
    Torn,
    /// A whole line that is not an event, and with it all that follows. Writing does not leave
    /// this behind: the disk, or someone, did.
    Broken {
        /// Where it begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        why: String,
    },
}

impl JournalReader {
    /// Opens the journal.
    ///
    /// # Errors
    /// It is missing, not a regular file, or cannot be opened.
    pub fn open(dir: &BoxDir) -> Result<Self, JournalError> {
        let path = dir.path().join(JOURNAL);
        match regular::open(dir.dir_fd(), JOURNAL, OFlags::RDONLY) {
            Ok(file) => Ok(Self::new(path, file)),
            Err(source) => Err(JournalError::Open { path, source }),
        }
    }

    pub(super) fn new(path: PathBuf, file: File) -> Self {
        Self { path, file, offset: 0, tail: Tail::Clean }
    }

    /// Makes what was read durable. A writer that was killed, or is stopped, may have written an ending
    /// and not synced it; whoever tells it to others calls this first.
    ///
    /// # Errors
    /// What fdatasync(2) says.
    pub fn sync(&self) -> Result<(), JournalError> {
        crate::hook::point("store.journal.sync")
            .and_then(|()| self.file.sync_data())
            .map_err(|source| JournalError::Sync { path: self.path.clone(), source })
    }

    /// The events since the last call. Ends at the first byte that is not part of a whole line;
    /// what is completed there later is given then.
    ///
    /// # Errors
    /// The file cannot be read, or is longer than [`MAX_JOURNAL`].
    pub fn read_new(&mut self) -> Result<Vec<Event>, JournalError> {
        let mut events = Vec::new();
        self.visit_new(|event| events.push(event))?;
        Ok(events)
    }

    /// As [`JournalReader::read_new`], one event at a time, so that memory does not grow with the
    /// journal.
    ///
    /// # Errors
    /// The file cannot be read, or is longer than [`MAX_JOURNAL`]. Events that were visited stay
    /// read.
    pub fn visit_new(&mut self, mut visit: impl FnMut(Event)) -> Result<(), JournalError> {
        // From the last whole line's end, so a line that was torn before is read anew.
        let mut pending = Vec::new();
        let mut want = FIRST_READ;
        self.tail = Tail::Clean;
        loop {
            let ends = self.read_more(&mut pending, want)?;
            want = READ;
            let mut taken = 0;
            while let Some(length) = pending[taken..].iter().position(|byte| *byte == b'\n') {
                let line = &pending[taken..taken + length];
                match serde_json::from_slice(line) {
                    Ok(event) => visit(event),
                    Err(error) => {
                        self.tail = Tail::Broken { offset: self.offset, why: error.to_string() };
                        return Ok(());
                    }
                }
                taken += length + 1;
                self.offset += length as u64 + 1;
            }
            pending.drain(..taken);
            if self.offset > MAX_JOURNAL {
                return Err(JournalError::TooLong { path: self.path.clone(), limit: MAX_JOURNAL });
            }
            if pending.len() >= MAX_LINE {
                let why = format!("a line is longer than {MAX_LINE} bytes");
                self.tail = Tail::Broken { offset: self.offset, why };
                return Ok(());
            }
            if ends {
                if !pending.is_empty() {
                    self.tail = Tail::Torn;
                }
                return Ok(());
            }
        }
    }

    /// What the last call found after the last event.
    #[must_use]
    pub fn tail(&self) -> &Tail {
        &self.tail
    }

    /// Where the next event will begin, in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// Adds what follows `pending`. `true`: the journal ends after it, by the file's end or a NUL.
    fn read_more(&self, pending: &mut Vec<u8>, want: usize) -> Result<bool, JournalError> {
        let before = pending.len();
        let at = self.offset + before as u64;
        pending.resize(before + want, 0);
        let read = loop {
            match self.file.read_at(&mut pending[before..], at) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.map_err(|source| JournalError::Read { path: self.path.clone(), source })?;
        pending.truncate(before + read);
        match pending[before..].iter().position(|byte| *byte == 0) {
            Some(nul) => {
                pending.truncate(before + nul);
                Ok(true)
            }
            None => Ok(read == 0),
        }
    }
}
