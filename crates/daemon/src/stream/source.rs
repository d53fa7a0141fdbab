//! A box's log for one reader, from an offset to the seal.

use std::sync::Arc;

use minimal_proto::Ending;
use minimal_store::{BoxDir, Chunk, LogError, LogReader};
use tokio::sync::watch;

use crate::boxes::{Ended, Fate, Live, Reading, View};

/// How much is read at a time, and so the most output held in memory for a reader.
pub(crate) const PIECE: usize = 256 << 10;

/// What is read without leaving the thread: output that a running box has just written, which is in
/// the page cache. Handing so little to another thread takes longer than reading it.
const AT_ONCE: u64 = 32 << 10;

/// A log that may still grow.
#[derive(Debug)]
pub(crate) struct LogSource {
    dir: Arc<BoxDir>,
    end: End,
    reader: Option<LogReader>,
    position: u64,
}

#[derive(Debug)]
enum End {
    Growing { view: watch::Receiver<View>, _reading: Reading },
    Sealed { at: u64, ended: Arc<Ended> },
}

/// Where a box's streams stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// How far the log can be read.
    pub(crate) end: u64,
    /// Whether anything will be added to it.
    pub(crate) fate: Fate,
    /// How much input was accepted.
    pub(crate) input_offset: u64,
    /// Whether the box takes input.
    pub(crate) input_open: bool,
}

impl LogSource {
    /// The log of a box that has an actor.
    pub(crate) fn of_live(live: &Arc<Live>, from: u64) -> Self {
        let end = End::Growing { view: live.view.clone(), _reading: live.reading() };
        Self { dir: Arc::clone(&live.dir), end, reader: None, position: from }
    }

    /// The log of a box that has ended.
    pub(crate) fn of_ended(dir: Arc<BoxDir>, ended: Arc<Ended>, from: u64) -> Self {
        let end = End::Sealed { at: ended.log_end, ended };
        Self { dir, end, reader: None, position: from }
    }

    /// The offset of the next byte wanted.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Where things stand now. What changes later is told by [`LogSource::changed`].
    pub(crate) fn standing(&mut self) -> Standing {
        match &mut self.end {
            End::Growing { view, .. } => {
                let view = view.borrow_and_update();
                Standing {
                    end: view.log_end,
                    fate: view.fate,
                    input_offset: view.input_offset,
                    input_open: view.input_open,
                }
            }
            End::Sealed { at, .. } => {
                let (input_offset, input_open) = (0, false);
                Standing { end: *at, fate: Fate::Sealed, input_offset, input_open }
            }
        }
    }

    /// Waits for something to change. `false`: nothing will, and if the log is not sealed nothing
    /// is known of it any more. Cancel-safe.
    pub(crate) async fn changed(&mut self) -> bool {
        match &mut self.end {
            End::Growing { view, .. } => view.changed().await.is_ok(),
            End::Sealed { .. } => false,
        }
    }

    /// How the box ended, once its log is sealed.
    pub(crate) fn ending(&self) -> Option<Ending> {
        match &self.end {
            End::Growing { view, .. } => view.borrow().ending().cloned(),
            End::Sealed { ended, .. } => Some(ended.ending()),
        }
    }

    /// The next piece before `end`; `None` if there is nothing to read before it.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(crate) async fn read(&mut self, end: u64) -> Result<Option<Chunk>, LogError> {
        if self.position >= end {
            return Ok(None);
        }
        let (dir, reader, from) = (Arc::clone(&self.dir), self.reader.take(), self.position);
        let read = move || {
            let mut reader = match reader {
                Some(reader) => reader,
                None => LogReader::open(&dir, from, end)?,
            };
            let chunk = reader.next_chunk(end, PIECE)?;
            Ok((reader, chunk))
        };
        let is_fresh = matches!(self.end, End::Growing { .. }) && end - from <= AT_ONCE;
        let (reader, chunk) = if is_fresh {
            read()?
        } else {
            tokio::task::spawn_blocking(read).await.expect("reading a log does not panic")?
        };
        self.position = reader.position();
        self.reader = Some(reader);
        Ok(chunk)
    }
}
