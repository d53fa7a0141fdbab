//! Taking a name, an id and an idempotency key before a box is made.

use std::sync::Arc;

use minimal_proto::{BoxId, BoxName};
use tokio::sync::watch;

use super::{Entry, Index, NameHeld, Slot};

/// What makes a create repeatable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey {
    /// The client's key.
    pub(crate) key: String,
    /// Digest of what was asked for under it.
    pub(crate) digest: String,
}

/// What becomes of a create.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It may go on.
    New(Reservation),
    /// It is a repeat. Once the receiver is closed, this box is there; if not, its creation failed
    /// and the repeat may be tried as new.
    Repeat { id: BoxId, made: watch::Receiver<()> },
}

/// Why a box may not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AdmitError {
    /// Its name is taken.
    #[error(transparent)]
    Name(#[from] NameHeld),
    /// Its key was used for something else.
    #[error("the idempotency key was used for another request")]
    KeyReused {
        /// The box made under it.
        id: BoxId,
    },
    /// Its id was minted before: the random source repeats itself.
    #[error("the id {id} is taken")]
    IdTaken {
        /// The id.
        id: BoxId,
    },
}

/// A name, an id and a key held for a box that is being made. Dropped, they are free again.
#[derive(Debug)]
pub(crate) struct Reservation {
    index: Arc<Index>,
    id: BoxId,
    name: BoxName,
    published: bool,
    // Dropping it tells repeats of the request that the outcome is known.
    _made: watch::Sender<()>,
}

impl Index {
    /// Decides, in one step, whether a box may be made and what it is called.
    ///
    /// # Errors
    /// See [`AdmitError`]; nothing is reserved then.
    pub(crate) fn admit(
        self: &Arc<Self>,
        id: BoxId,
        asked: Option<&BoxName>,
        program: &[u8],
        key: Option<&RequestKey>,
    ) -> Result<Admission, AdmitError> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        if let Some(key) = key
            && let Some(holder) = inner.keys.get(&key.key)
        {
            if holder.digest != key.digest {
                return Err(AdmitError::KeyReused { id: holder.id });
            }
            return Ok(Admission::Repeat { id: holder.id, made: holder.made.clone() });
        }
        if inner.boxes.contains_key(&id) {
            return Err(AdmitError::IdTaken { id });
        }
        let (boxes, resuming) = (&inner.boxes, &inner.resuming);
        let has_ended =
            |id| !resuming.contains_key(&id) && boxes.get(&id).is_none_or(Slot::has_ended);
        let name = inner.names.admit(asked, program, has_ended)?;
        let (made_sender, made) = watch::channel(());
        inner.names.insert(&name, id);
        inner.boxes.insert(id, Slot::Reserved(name.clone()));
        if let Some(key) = key.cloned() {
            inner.put_key(id, key, made);
        }
        Ok(Admission::New(Reservation {
            index: Arc::clone(self),
            id,
            name,
            published: false,
            _made: made_sender,
        }))
    }
}

impl Reservation {
    /// The box's id.
    pub(crate) fn id(&self) -> BoxId {
        self.id
    }

    /// The box's name.
    pub(crate) fn name(&self) -> &BoxName {
        &self.name
    }

    /// The box is there.
    pub(crate) fn publish(mut self, entry: Entry) {
        self.index.put(entry);
        self.published = true;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.published {
            drop(self.index.remove(self.id));
        }
    }
}
