//! A session of the fake: its journal, and who listens.

use std::collections::BTreeMap;

use crate::contract::{Emitter, Session, StreamFault, Terminal};
use crate::wire::{CommandLine, Output};

/// A session. Whoever holds it replays and prints in one step, so that nothing is missed or repeated.
#[derive(Debug)]
pub(super) struct FakeSession {
    pub(super) id: String,
    command: String,
    pub(super) takes_input: bool,
    /// Everything it printed.
    pub(super) journal: Vec<(Output, Vec<u8>)>,
    pub(super) ended: Option<Terminal>,
    subscribers: BTreeMap<u64, Emitter>,
}

impl FakeSession {
    pub(super) fn new(id: String, command: &CommandLine, takes_input: bool) -> Self {
        Self {
            id,
            command: command.cmd.clone(),
            takes_input,
            journal: Vec::new(),
            ended: None,
            subscribers: BTreeMap::new(),
        }
    }

    /// Sends the journal from a piece on, and then what comes.
    pub(super) fn subscribe(&mut self, subscriber: u64, mut emitter: Emitter, from: usize) {
        for (output, bytes) in self.journal.iter().skip(from) {
            emitter.output(*output, bytes.clone());
        }
        match &self.ended {
            Some(terminal) => emitter.end(terminal.clone()),
            None => drop(self.subscribers.insert(subscriber, emitter)),
        }
    }

    pub(super) fn listens(&self, subscriber: u64) -> bool {
        self.subscribers.contains_key(&subscriber)
    }

    /// The subscriber's stream ends here; the session goes on.
    pub(super) fn unsubscribe(&mut self, subscriber: u64) {
        if let Some(emitter) = self.subscribers.remove(&subscriber) {
            emitter.end(Terminal::Fault(StreamFault::Stopped));
        }
    }

    pub(super) fn print(&mut self, output: Output, bytes: Vec<u8>) {
        for emitter in self.subscribers.values_mut() {
            emitter.output(output, bytes.clone());
        }
        self.journal.push((output, bytes));
    }

    /// Ends it, once.
    pub(super) fn end(&mut self, terminal: Terminal) {
        if self.ended.is_none() {
            for emitter in std::mem::take(&mut self.subscribers).into_values() {
                emitter.end(terminal.clone());
            }
            self.ended = Some(terminal);
        }
    }

    /// A lie: the first so many are told, the others hear that they were stopped.
    pub(super) fn forget_all_but(&mut self, kept: usize) {
        let forgotten: Vec<_> = self.subscribers.keys().copied().skip(kept).collect();
        forgotten.into_iter().for_each(|subscriber| self.unsubscribe(subscriber));
    }

    /// A lie: the last piece comes once more.
    pub(super) fn repeat_last(&mut self, subscriber: u64) {
        if let (Some(emitter), Some((output, bytes))) =
            (self.subscribers.get_mut(&subscriber), self.journal.last())
        {
            emitter.output(*output, bytes.clone());
        }
    }

    pub(super) fn row(&self) -> Session {
        Session {
            id: self.id.clone(),
            command: self.command.clone(),
            created_at: None,
            last_activity_at: None,
            has_ended: self.ended.is_some(),
            exit_code: match self.ended {
                Some(Terminal::Exit(code)) => Some(code),
                Some(Terminal::Fault(_)) | None => None,
            },
        }
    }
}
