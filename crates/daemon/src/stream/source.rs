//! A log for one reader, from an offset to the seal.

use std::fmt;
use std::sync::Arc;

use minimal_proto::Ending;
use minimal_store::{Chunk, LogError, LogHome, LogReader};
use tokio::sync::watch;

use crate::boxes::{Flow, Line, Outcome, Reading};

/// How much is read at a time, and so the most output held in memory for a reader.
pub(crate) const PIECE: usize = 256 << 10;

/// What is read without leaving the thread: output that a running box has just written, which is in
/// the page cache. Handing so little to another thread takes longer than reading it.
const AT_ONCE: u64 = 32 << 10;

/// The directory of a box or of an exec.
pub(crate) type LogDir = Arc<dyn LogHome + Send + Sync>;

/// A log that may still grow.
pub(crate) struct LogSource {
    dir: LogDir,
    end: End,
    reader: Option<LogReader>,
    position: u64,
}

impl fmt::Debug for LogSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogSource")
            .field("dir", &self.dir.path())
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

enum End {
    Growing { flow: watch::Receiver<Flow>, _reading: Reading },
    Sealed(Flow),
}

impl LogSource {
    /// The log of something that has an actor.
    pub(crate) fn growing(dir: LogDir, line: &Arc<Line>, from: u64) -> Self {
        let end = End::Growing { flow: line.flow.clone(), _reading: line.reading() };
        Self { dir, end, reader: None, position: from }
    }

    /// The log of something that has ended.
    pub(crate) fn sealed(dir: LogDir, at: u64, ending: Arc<Ending>, from: u64) -> Self {
        let mut flow = Flow::new(at);
        flow.end(Outcome::Ended(ending));
        Self { dir, end: End::Sealed(flow), reader: None, position: from }
    }

    /// The offset of the next byte wanted.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Where things stand now. What changes later is told by [`LogSource::changed`].
    pub(crate) fn standing(&mut self) -> Flow {
        match &mut self.end {
            End::Growing { flow, .. } => flow.borrow_and_update().clone(),
            End::Sealed(flow) => flow.clone(),
        }
    }

    /// Whether it has ended and its log is complete.
    pub(crate) fn is_sealed(&mut self) -> bool {
        matches!(self.standing().outcome, Outcome::Ended(_))
    }

    /// Waits for something to change. `false`: nothing will, and if the log is not sealed nothing
    /// is known of it any more. Cancel-safe.
    pub(crate) async fn changed(&mut self) -> bool {
        match &mut self.end {
            End::Growing { flow, .. } => flow.changed().await.is_ok(),
            End::Sealed(_) => false,
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
