//! Holding an ended box, and its name, while a further life of it begins.

use std::sync::Arc;

use minimal_proto::BoxId;
use tokio::sync::watch;

use super::{Entry, Index, NameHeld};
use crate::boxes::Ended;

/// What becomes of a resume.
#[derive(Debug)]
pub(crate) enum Resumable {
    /// It may go on.
    Now(Resumption, Arc<Ended>),
    /// Another request is at it. Once the receiver is closed it is known what came of that.
    Soon(watch::Receiver<()>),
    /// It is no box that has ended, any more.
    Not,
}

/// An ended box that is held. Dropped without a life, it is an ended box as before.
#[derive(Debug)]
pub(crate) struct Resumption {
    index: Arc<Index>,
    id: BoxId,
    // Dropping it tells other requests that the outcome is known.
    _known: watch::Sender<()>,
}

impl Index {
    /// Decides, in one step, whether a further life of a box may begin under its name.
    ///
    /// # Errors
    /// A box that runs has the name.
    pub(crate) fn resume(self: &Arc<Self>, id: BoxId) -> Result<Resumable, NameHeld> {
        let mut inner = self.lock();
        if let Some(known) = inner.resuming.get(&id) {
            return Ok(Resumable::Soon(known.clone()));
        }
        let Some(Entry::Ended(ended)) = inner.entry(id).cloned() else {
            return Ok(Resumable::Not);
        };
        let holder = inner.names.of(ended.name.as_str()).find(|other| !inner.has_ended(*other));
        if let Some(holder) = holder {
            return Err(NameHeld { name: ended.name.clone(), holder });
        }
        let (sender, known) = watch::channel(());
        inner.resuming.insert(id, known);
        let resumption = Resumption { index: Arc::clone(self), id, _known: sender };
        Ok(Resumable::Now(resumption, ended))
    }
}

impl Resumption {
    /// The box lives.
    pub(crate) fn publish(self, entry: Entry) {
        self.index.put(entry);
    }
}

impl Drop for Resumption {
    fn drop(&mut self) {
        self.index.lock().resuming.remove(&self.id);
    }
}
