//! Which boxes there are: rebuilt from their directories at each start, and never the truth.
//!
//! One short-held lock, no I/O under it. A name is only ever looked up here; everything else refers
//! to a box by its id.

mod filter;
mod names;
mod reservation;
mod resumption;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minimal_proto::address::{self, AddressError, Candidate};
use minimal_proto::{BoxId, BoxName, State, Timestamp};

pub(crate) use filter::Filter;
pub(crate) use names::NameHeld;
pub(crate) use reservation::{Admission, AdmitError, RequestKey, Reservation};
pub(crate) use resumption::{Resumable, Resumption};

use crate::boxes::{Ended, Live};
use names::Names;

/// A box.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    /// It has not ended, or its actor is about to say so.
    Live(Arc<Live>),
    /// It has ended.
    Ended(Arc<Ended>),
    /// Its directory cannot be read.
    Broken(Arc<Broken>),
}

/// A directory that cannot be read as a box.
#[derive(Debug)]
pub(crate) struct Broken {
    pub(crate) id: BoxId,
    pub(crate) reason: String,
}

/// All boxes of the host.
#[derive(Debug, Default)]
pub(crate) struct Index {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By id, which is by age.
    boxes: BTreeMap<BoxId, Slot>,
    names: Names,
    /// Idempotency keys of retained boxes.
    keys: BTreeMap<String, KeyHolder>,
    key_of: BTreeMap<BoxId, String>,
    /// Ended boxes of which a further life is beginning. Closed once it is known whether it does.
    resuming: BTreeMap<BoxId, tokio::sync::watch::Receiver<()>>,
}

#[derive(Debug)]
enum Slot {
    /// It is being made: its name is taken, but it is not there yet.
    Reserved(BoxName),
    There(Entry),
}

/// Whose idempotency key it is.
#[derive(Clone, Debug)]
struct KeyHolder {
    id: BoxId,
    digest: String,
    /// Closed once the box is there or will not be.
    made: tokio::sync::watch::Receiver<()>,
}

impl Entry {
    pub(crate) fn id(&self) -> BoxId {
        match self {
            Self::Live(live) => live.id,
            Self::Ended(ended) => ended.id,
            Self::Broken(broken) => broken.id,
        }
    }

    /// Its name; none for a broken directory.
    pub(crate) fn name(&self) -> Option<&BoxName> {
        match self {
            Self::Live(live) => Some(&live.name),
            Self::Ended(ended) => Some(&ended.name),
            Self::Broken(_) => None,
        }
    }

    pub(crate) fn state(&self) -> Option<State> {
        match self {
            Self::Live(live) => Some(live.view.borrow().record.state),
            Self::Ended(ended) => Some(ended.state),
            Self::Broken(_) => None,
        }
    }

    fn created_at(&self) -> Option<Timestamp> {
        match self {
            Self::Live(live) => Some(live.view.borrow().record.created_at),
            Self::Ended(ended) => Some(ended.created_at),
            Self::Broken(_) => None,
        }
    }

    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            id: self.id(),
            name: self.name(),
            state: self.state(),
            created_at: self.created_at(),
        }
    }
}

impl Slot {
    fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Reserved(_) => None,
            Self::There(entry) => Some(entry),
        }
    }

    /// Whether its name is free for another box.
    fn has_ended(&self) -> bool {
        self.entry().and_then(Entry::state).is_some_and(State::is_ended)
    }
}

impl Index {
    /// The box that was made under an idempotency key, if it is there.
    pub(crate) fn made_under(&self, key: &str) -> Option<Entry> {
        let inner = self.lock();
        match inner.boxes.get(&inner.keys.get(key)?.id)? {
            Slot::There(entry) => Some(entry.clone()),
            Slot::Reserved(_) => None,
        }
    }

    /// Finds the box that an address means.
    ///
    /// # Errors
    /// None, or more than one.
    pub(crate) fn resolve(&self, address: &str) -> Result<Entry, AddressError> {
        let inner = self.lock();
        if let Ok(id) = address.parse::<BoxId>() {
            let entry = inner.entry(id).cloned();
            return entry.ok_or_else(|| AddressError::NotFound(address.to_owned()));
        }
        // Names are looked up rather than searched; parts of ids are searched.
        let named = inner.names.of(address).filter_map(|id| inner.entry(id));
        let id = match address::resolve(address, named.map(Entry::candidate)) {
            Ok(id) => id,
            Err(_) => address::resolve(address, inner.entries().map(Entry::candidate))?,
        };
        inner.entry(id).cloned().ok_or_else(|| AddressError::NotFound(address.to_owned()))
    }

    /// The box of this id.
    pub(crate) fn get(&self, id: BoxId) -> Option<Entry> {
        self.lock().entry(id).cloned()
    }

    /// Puts a box in, or in the place of what it was.
    pub(crate) fn put(&self, entry: Entry) {
        self.lock().put(entry);
    }

    /// Notes the idempotency key of a box that was found on disk.
    pub(crate) fn put_key(&self, id: BoxId, key: RequestKey) {
        let (_closed, made) = tokio::sync::watch::channel(());
        self.lock().put_key(id, key, made);
    }

    /// Takes a box out and frees its name and its idempotency key.
    pub(crate) fn remove(&self, id: BoxId) -> Option<Entry> {
        let mut inner = self.lock();
        let slot = inner.take(id)?;
        match slot {
            Slot::There(entry) => Some(entry),
            Slot::Reserved(_) => None,
        }
    }

    /// Takes an ended box out to delete it, as [`Index::remove`] does.
    ///
    /// # Errors
    /// A further life of it is beginning.
    pub(crate) fn condemn(&self, id: BoxId) -> Result<Option<Entry>, BeingResumed> {
        let mut inner = self.lock();
        if inner.resuming.contains_key(&id) {
            return Err(BeingResumed);
        }
        Ok(match inner.take(id) {
            Some(Slot::There(entry)) => Some(entry),
            Some(Slot::Reserved(_)) | None => None,
        })
    }

    /// The newest `limit` boxes that pass the filter, before `after` if it is given, and whether
    /// there are more.
    pub(crate) fn page(
        &self,
        filter: &Filter,
        limit: usize,
        after: Option<BoxId>,
    ) -> (Vec<Entry>, bool) {
        let inner = self.lock();
        let passing =
            |(_, slot): (&BoxId, &Slot)| slot.entry().filter(|entry| filter.passes(entry)).cloned();
        let mut page: Vec<Entry> = match after {
            Some(after) => {
                inner.boxes.range(..after).rev().filter_map(passing).take(limit + 1).collect()
            }
            None => inner.boxes.iter().rev().filter_map(passing).take(limit + 1).collect(),
        };
        let more = page.len() > limit;
        page.truncate(limit);
        (page, more)
    }

    /// Every box there is.
    pub(crate) fn all(&self) -> Vec<Entry> {
        self.lock().entries().cloned().collect()
    }

    /// How many boxes are in each state; those that cannot be read count as `broken`.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let inner = self.lock();
        let mut counts = BTreeMap::new();
        for entry in inner.entries() {
            let word = entry.state().map_or("broken", State::as_str);
            *counts.entry(word.to_owned()).or_default() += 1;
        }
        counts
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing under the lock panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A further life of the box is beginning.
#[derive(Debug)]
pub(crate) struct BeingResumed;

impl Inner {
    /// Whether a box's name is free for another one.
    fn has_ended(&self, id: BoxId) -> bool {
        !self.resuming.contains_key(&id) && self.boxes.get(&id).is_none_or(Slot::has_ended)
    }

    fn entry(&self, id: BoxId) -> Option<&Entry> {
        self.boxes.get(&id).and_then(Slot::entry)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.boxes.values().filter_map(Slot::entry)
    }

    fn put(&mut self, entry: Entry) {
        let id = entry.id();
        if let Some(name) = entry.name() {
            self.names.insert(name, id);
        }
        self.boxes.insert(id, Slot::There(entry));
    }

    fn take(&mut self, id: BoxId) -> Option<Slot> {
        let slot = self.boxes.remove(&id)?;
        let name = match &slot {
            Slot::Reserved(name) => Some(name),
            Slot::There(entry) => entry.name(),
        };
        if let Some(name) = name {
            self.names.remove(name, id);
        }
        if let Some(key) = self.key_of.remove(&id) {
            self.keys.remove(&key);
        }
        Some(slot)
    }

    fn put_key(&mut self, id: BoxId, key: RequestKey, made: tokio::sync::watch::Receiver<()>) {
        self.key_of.insert(id, key.key.clone());
        self.keys.insert(key.key, KeyHolder { id, digest: key.digest, made });
    }
}

#[cfg(test)]
mod tests;
