//! Appending to a journal.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::{Ending, Event, EventData, Timestamp};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::preallocate::{extend, zero};
use super::reader::{JournalReader, Tail};
use super::{JournalError, MAX_JOURNAL, MAX_LINE, RESERVE, allocation, line};
use crate::box_dir::{BoxDir, JOURNAL, SPEC};
use crate::record::{Denied, Record};
use crate::{hook, regular};

/// How much is looked at in one go behind the last line.
const SCAN: usize = 64 << 10;

/// The longest text that stays in the detail of an ending that has to be shortened.
const SHORT_DETAIL: usize = 256;

/// The one writer of a journal. It checks each event against the record first, so what it leaves
/// can always be folded.
#[derive(Debug)]
pub struct JournalWriter {
    path: PathBuf,
    file: File,
    /// The box's directory, to make it durable with its first durable event.
    dir: OwnedFd,
    record: Record,
    /// Where the next line goes.
    offset: u64,
    /// The file's size. Everything from `offset` to here is NULs, but for a failed write's rest.
    allocated: u64,
    /// Up to where a failed write may have left bytes.
    soiled: u64,
    /// Everything before this has been made durable.
    durable: u64,
    dir_is_durable: bool,
    /// A durable append that only lacks its sync: what was asked for, and what became of it.
    unsynced: Option<(EventData, Event)>,
}

impl JournalWriter {
    /// Opens the journal and cuts a torn tail. The caller holds the box's keeper lock: it is the
    /// only writer.
    ///
    /// # Errors
    /// It cannot be read or written, or what it holds does not fit together.
    pub fn open(dir: &BoxDir) -> Result<Self, JournalError> {
        let path = dir.path().join(JOURNAL);
        let open_error = |source| JournalError::Open { path: path.clone(), source };
        let file = regular::open(dir.dir_fd(), JOURNAL, OFlags::RDWR).map_err(open_error)?;
        let own_dir = dir.dir_fd().try_clone_to_owned().map_err(open_error)?;
        let mut reader = JournalReader::new(path.clone(), file);
        let record = fold(&mut reader, &path)?;
        let offset = reader.offset();
        let file = reader.into_file();
        let allocated = file.metadata().map_err(open_error)?.len();
        let mut writer = Self {
            path,
            file,
            dir: own_dir,
            record,
            offset,
            allocated,
            soiled: offset,
            // What an earlier writer made durable is not known.
            durable: 0,
            dir_is_durable: false,
            unsynced: None,
        };
        writer.cut_tail()?;
        // The space that a torn write, a copy or a restored file lacks. Without it the ending may
        // still find space when it comes, so this is not a reason to end.
        if writer.record.ending.is_none() && writer.offset + RESERVE > writer.allocated {
            drop(writer.grow(RESERVE));
        }
        Ok(writer)
    }

    /// The record as of the last event.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Appends an event; it survives the death of this process, not of the host.
    ///
    /// `exited`, `failed` and `resume_failed` may use the reserve. One that does not fit even there, on a full
    /// disk, is shortened: long texts of its detail are left out, and `shortened` says so.
    ///
    /// # Errors
    /// It was not appended, and the journal is as it was.
    pub fn append(&mut self, data: EventData, ts: Timestamp) -> Result<Event, JournalError> {
        let event = Event {
            seq: self.record.last_seq.wrapping_add(1),
            ts,
            box_id: self.record.id,
            parent: self.record.parent,
            data,
        };
        match self.try_append(&event) {
            Ok(()) => Ok(event),
            Err(JournalError::NoSpace { path, source }) => match shortened(event) {
                Some(shorter) => self.try_append(&shorter).map(|()| shorter),
                None => Err(JournalError::NoSpace { path, source }),
            },
            Err(error) => Err(error),
        }
    }

    /// Appends an event and makes it durable, with all before it and the box's directory.
    ///
    /// # Errors
    /// As [`JournalWriter::append`]; or [`JournalError::Sync`]: then it is appended, and another
    /// call with the same data, or [`JournalWriter::sync`], tries to make it durable once more.
    pub fn append_durable(
        &mut self,
        data: EventData,
        ts: Timestamp,
    ) -> Result<Event, JournalError> {
        // Not compared by time: who tries again may look at the clock again.
        let repeated = self.unsynced.take_if(|(asked, _event)| *asked == data);
        let event = match repeated {
            Some((_asked, event)) => event,
            None => self.append(data.clone(), ts)?,
        };
        if let Err(error) = self.sync() {
            self.unsynced = Some((data, event));
            return Err(error);
        }
        Ok(event)
    }

    /// Makes everything so far durable, with the box's directory, spec and name the first time.
    ///
    /// # Errors
    /// It may not be durable; the call can be repeated.
    pub fn sync(&mut self) -> Result<(), JournalError> {
        self.sync_lines()
            .map_err(|source| JournalError::Sync { path: self.path.clone(), source })?;
        if !self.dir_is_durable {
            sync_dir(self.dir.as_fd(), self.path.parent().unwrap_or(&self.path))?;
            self.dir_is_durable = true;
        }
        self.unsynced = None;
        Ok(())
    }

    fn sync_lines(&mut self) -> io::Result<()> {
        if self.durable == self.offset {
            return Ok(());
        }
        let done = hook::point("store.journal.sync").and_then(|()| self.file.sync_data());
        match done {
            Ok(()) => self.durable = self.offset,
            // The kernel reports a failed write-back once and then takes the pages for clean
            // (fsync(2)): without being written again, the next sync would succeed for nothing.
            Err(_) => self.rewrite()?,
        }
        done
    }

    /// Writes the lines since the last sync over themselves.
    fn rewrite(&self) -> io::Result<()> {
        let mut block = vec![0; SCAN];
        let mut at = self.durable;
        while at < self.offset {
            let some = usize::try_from(self.offset - at).unwrap_or(SCAN).min(SCAN);
            self.file.read_exact_at(&mut block[..some], at)?;
            self.file.write_all_at(&block[..some], at)?;
            at += some as u64;
        }
        Ok(())
    }

    fn try_append(&mut self, event: &Event) -> Result<(), JournalError> {
        let mut record = self.record.clone();
        record
            .apply(event)
            .map_err(|source| JournalError::Denied { path: self.path.clone(), source })?;
        let line = line(event);
        if line.len() > MAX_LINE {
            return Err(JournalError::LongEvent { length: line.len() });
        }
        // An ending has the reserve, and nothing to leave it to.
        let reserve = if record.ending.is_some() { 0 } else { RESERVE };
        let end = self.offset + line.len() as u64;
        // What must be said of a box's life can be said however many notes there were.
        let must = matches!(event.data, EventData::StopRequested(_)) || ends(event);
        if end + reserve > MAX_JOURNAL && !must {
            return Err(JournalError::TooLong { path: self.path.clone(), limit: MAX_JOURNAL });
        }
        let written = hook::point("store.journal.append")
            .and_then(|()| self.grow(line.len() as u64 + reserve))
            .and_then(|()| self.write(&line));
        written.map_err(|source| self.write_error(source))?;
        self.offset = end;
        self.record = record;
        Ok(())
    }

    /// Makes sure that `bytes` more are allocated.
    fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let needed = self.offset + bytes;
        if needed > self.allocated {
            let to = allocation(needed);
            extend(&self.file, self.offset, to)?;
            self.allocated = to;
        }
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        // A longer line that failed half-way would otherwise show behind this one.
        zero(&self.file, self.offset, self.soiled)?;
        self.soiled = self.offset;
        let done = self.file.write_all_at(line, self.offset);
        if done.is_err() {
            self.soiled = self.offset + line.len() as u64;
            // Tried now for the sake of readers, and again before the next line.
            if zero(&self.file, self.offset, self.soiled).is_ok() {
                self.soiled = self.offset;
            }
        }
        done
    }

    /// Writes NULs over whatever follows the last whole line.
    fn cut_tail(&mut self) -> Result<(), JournalError> {
        if self.allocated > MAX_JOURNAL + allocation(MAX_LINE as u64 + RESERVE) {
            return Err(JournalError::TooLong { path: self.path.clone(), limit: MAX_JOURNAL });
        }
        let mut block = vec![0; SCAN];
        let mut at = self.offset;
        while at < self.allocated {
            let read = self
                .file
                .read_at(&mut block, at)
                .map_err(|source| JournalError::Read { path: self.path.clone(), source })?;
            if read == 0 {
                break;
            }
            let last = block[..read].iter().rposition(|byte| *byte != 0);
            if let Some(last) = last {
                zero(&self.file, at, at + last as u64 + 1)
                    .map_err(|source| self.write_error(source))?;
            }
            at += read as u64;
        }
        Ok(())
    }

    fn write_error(&self, source: io::Error) -> JournalError {
        let path = self.path.clone();
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => JournalError::NoSpace { path, source },
            _ => JournalError::Write { path, source },
        }
    }
}

/// Folds a journal as it is read.
fn fold(reader: &mut JournalReader, path: &Path) -> Result<Record, JournalError> {
    let mut folded: Result<Record, Denied> = Err(Denied::Empty);
    reader.visit_new(|event| match &mut folded {
        Ok(record) => {
            if let Err(denied) = record.apply(&event) {
                folded = Err(denied);
            }
        }
        Err(Denied::Empty) => folded = Record::begin(&event),
        Err(_first) => {}
    })?;
    if let Tail::Broken { offset, why } = reader.tail() {
        // Cutting it could cut an ending.
        let path = path.to_owned();
        return Err(JournalError::Broken { path, offset: *offset, why: why.clone() });
    }
    folded.map_err(|source| JournalError::Denied { path: path.to_owned(), source })
}

fn ends(event: &Event) -> bool {
    matches!(event.data, EventData::Exited(_) | EventData::Failed(_) | EventData::ResumeFailed(_))
}

/// The same event with an ending that fits into the reserve; `None` if it is no ending, or was
/// short already.
pub(super) fn shortened(mut event: Event) -> Option<Event> {
    let (EventData::Exited(ending) | EventData::Failed(ending) | EventData::ResumeFailed(ending)) =
        &mut event.data
    else {
        return None;
    };
    let mut json = serde_json::to_value(&*ending).ok()?;
    let detail = json.get_mut("detail")?.as_object_mut()?;
    let before = detail.len();
    detail.retain(|_key, value| value.to_string().len() <= SHORT_DETAIL);
    if detail.len() == before {
        return None;
    }
    detail.insert("shortened".to_owned(), true.into());
    *ending = serde_json::from_value::<Ending>(json).ok()?;
    Some(event)
}

/// Makes the directory of a box durable: its spec, its names, and its own name.
fn sync_dir(dir: BorrowedFd<'_>, path: &Path) -> Result<(), JournalError> {
    match regular::open(dir, SPEC, OFlags::RDONLY).and_then(|file| file.sync_all()) {
        Ok(()) => {}
        // Somebody deleted it. The events are worth keeping all the same.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(source) => return Err(JournalError::Sync { path: path.join(SPEC), source }),
    }
    let boxes = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(dir, "..", flags, Mode::empty())
    };
    let done = rustix::fs::fsync(dir).and_then(|()| boxes()).and_then(rustix::fs::fsync);
    match done {
        // Some network file systems cannot sync a directory, and do not need it.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(JournalError::Sync { path: path.to_owned(), source: errno.into() }),
    }
}
