//! A journal as the body of an answer.

use std::sync::Arc;

use bytes::Bytes;
use minimal_store::{BoxDir, JournalError, JournalReader};
use tokio::sync::watch;

use crate::boxes::View;

/// What to send of a journal.
#[derive(Debug)]
pub(crate) struct EventBody {
    dir: Arc<BoxDir>,
    journal: Option<JournalReader>,
    /// The last event that was sent.
    last_seq: u64,
    /// To be followed; else what there is.
    follow: Option<watch::Receiver<View>>,
}

impl EventBody {
    pub(crate) fn new(dir: Arc<BoxDir>, follow: Option<watch::Receiver<View>>) -> Self {
        Self { dir, journal: None, last_seq: 0, follow }
    }

    /// One piece for each time there was something new.
    pub(crate) fn pieces(
        self,
    ) -> impl futures_util::Stream<Item = Result<Bytes, JournalError>> + Send + 'static {
        futures_util::stream::unfold(Some(self), |body| async move {
            let mut body = body?;
            match body.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(body))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, JournalError> {
        loop {
            // Looked at before reading, so that nothing is missed between reading and waiting.
            let is_last = match &mut self.follow {
                None => self.journal.is_some(),
                Some(view) => view.borrow_and_update().is_last(),
            };
            let piece = self.read_new().await?;
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            if is_last {
                return Ok(None);
            }
            let last_seq = self.last_seq;
            if let Some(view) = &mut self.follow
                && view
                    .wait_for(|view| view.is_last() || view.record.last_seq > last_seq)
                    .await
                    .is_err()
            {
                // The actor is gone: it has sealed, or the daemon is leaving.
                self.follow = None;
            }
        }
    }

    async fn read_new(&mut self) -> Result<Bytes, JournalError> {
        let (dir, journal) = (Arc::clone(&self.dir), self.journal.take());
        let read = tokio::task::spawn_blocking(move || {
            let mut journal = match journal {
                Some(journal) => journal,
                None => JournalReader::open(&dir)?,
            };
            let events = journal.read_new()?;
            Ok((journal, events))
        });
        let (journal, events) = read.await.expect("reading a journal does not panic")?;
        self.journal = Some(journal);
        if let Some(last) = events.last() {
            self.last_seq = last.seq;
        }
        let mut lines = Vec::new();
        for event in &events {
            serde_json::to_writer(&mut lines, event).expect("an event has string keys only");
            lines.push(b'\n');
        }
        Ok(Bytes::from(lines))
    }
}
