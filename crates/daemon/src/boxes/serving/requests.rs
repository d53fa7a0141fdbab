//! Requests that a keeper was asked to carry out and has not answered.

use std::collections::BTreeMap;
use std::time::Duration;

use minimal_proto::ErrorBody;
use tokio::time::Instant;

use crate::boxes::line::{Reply, Whose};

/// How long a keeper may take for a request. It answers a stop after writing to disk, which on a
/// busy disk takes a while; one that answers nothing at all is noticed sooner, by its pulse.
const LIMIT: Duration = Duration::from_secs(15);

/// How long a request waits for a keeper that has been asked whether it is there and is silent.
const SILENT_LIMIT: Duration = Duration::from_secs(3);

/// Open requests by number.
#[derive(Debug, Default)]
pub(super) struct Requests {
    last: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
struct Open {
    kind: Kind,
    since: Instant,
    reply: Reply,
}

/// What was asked for, which decides what the end means for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The end is what was asked for.
    Stop,
    /// The end came first.
    Signal,
}

impl Requests {
    /// A number for a request whose answer nobody waits for.
    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A number for a request.
    pub(super) fn open(&mut self, kind: Kind, reply: Reply, now: Instant) -> u64 {
        let number = self.number();
        self.open.insert(number, Open { kind, since: now, reply });
        number
    }

    /// The keeper's answer.
    pub(super) fn done(&mut self, number: u64, error: Option<ErrorBody>) {
        if let Some(open) = self.open.remove(&number) {
            tell(open.reply, error.map_or(Ok(()), Err));
        }
    }

    /// When the oldest request is to be given up.
    pub(super) fn next_limit(&self, silent: bool) -> Option<Instant> {
        self.open.values().map(|open| open.since + limit(silent)).min()
    }

    /// Gives up the requests that have waited too long.
    pub(super) fn expire(&mut self, whose: &Whose, silent: bool, now: Instant) {
        for open in self.take(|open| now >= open.since + limit(silent)) {
            tell(
                open.reply,
                Err(whose.unresponsive(
                    "it has not said in time that it did what was asked, and may still do it",
                )),
            );
        }
    }

    /// The connection is gone, and with it the answers.
    pub(super) fn link_lost(&mut self, whose: &Whose) {
        // A stop stays open over the loss: it may be the reason for it.
        for open in self.take(|open| open.kind == Kind::Signal) {
            tell(open.reply, Err(whose.unresponsive("its connection was lost")));
        }
    }

    fn take(&mut self, condition: impl Fn(&Open) -> bool) -> Vec<Open> {
        let all = std::mem::take(&mut self.open);
        let (taken, left) = all.into_iter().partition(|(_, open)| condition(open));
        self.open = left;
        let taken: BTreeMap<u64, Open> = taken;
        taken.into_values().collect()
    }

    /// It has ended.
    pub(super) fn ended(&mut self, whose: &Whose) {
        for open in std::mem::take(&mut self.open).into_values() {
            let answer = match open.kind {
                Kind::Stop => Ok(()),
                Kind::Signal => Err(whose.has_ended()),
            };
            tell(open.reply, answer);
        }
    }
}

fn limit(silent: bool) -> Duration {
    if silent { SILENT_LIMIT } else { LIMIT }
}

fn tell(reply: Reply, answer: Result<(), ErrorBody>) {
    // Whoever asked may have left.
    drop(reply.send(answer));
}
