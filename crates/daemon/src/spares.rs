//! What is made ahead of its box: keepers, and directories.

use std::collections::VecDeque;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use minimal_proto::error::Chain;
use minimal_store::{BlankDir, StateDir};
use rustix::net::{RecvFlags, recv};

/// How many are kept ready: with one, each start that follows another at once would wait.
const LEAST: usize = 2;
/// The most that are kept ready after a rush: each holds about 0.4 MB with its blank box.
const MOST: usize = 6;

/// Connections of keepers that wait for a box. Dropped, they end.
#[derive(Debug)]
pub(crate) struct Spares {
    held: Mutex<Held>,
}

#[derive(Debug)]
struct Held {
    /// The longest waiting first: one that was just forked is still at work.
    ready: VecDeque<UnixStream>,
    wanted: usize,
}

impl Spares {
    pub(crate) fn new() -> Self {
        Self { held: Mutex::new(Held { ready: VecDeque::new(), wanted: LEAST }) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that is alive. Without any, more are wanted from now on.
    pub(crate) fn take(&self) -> Option<UnixStream> {
        let mut held = self.held();
        while let Some(spare) = held.ready.pop_front() {
            if is_alive(&spare) {
                return Some(spare);
            }
        }
        held.wanted = (held.wanted + 1).min(MOST);
        None
    }

    /// Whether none is ready.
    pub(crate) fn is_empty(&self) -> bool {
        self.held().ready.is_empty()
    }

    /// Whether fewer are ready than are wanted.
    pub(crate) fn lacks(&self) -> bool {
        let held = self.held();
        held.ready.len() < held.wanted
    }

    /// Adds one.
    pub(crate) fn put(&self, spare: UnixStream) {
        self.held().ready.push_back(spare);
    }

    /// Lets go of those that are more than is usual.
    pub(crate) fn calm_down(&self) {
        let mut held = self.held();
        held.wanted = LEAST;
        held.ready.truncate(LEAST);
    }

    /// Lets go of all: they have become out of date.
    pub(crate) fn clear(&self) {
        self.held().ready.clear();
    }
}

/// Directories for boxes to come.
#[derive(Debug, Default)]
pub(crate) struct BlankDirs {
    ready: Mutex<Vec<BlankDir>>,
}

impl BlankDirs {
    /// One, if there is any.
    pub(crate) fn take(&self) -> Option<BlankDir> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Makes some. What fails here fails again for a box, and is told then.
    pub(crate) fn fill(&self, state: &StateDir) {
        while self.ready.lock().unwrap_or_else(PoisonError::into_inner).len() < MOST {
            match state.blank_dir() {
                Ok(dir) => self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(dir),
                Err(error) => {
                    return tracing::warn!(error = %Chain(&error), "no directory is made ahead");
                }
            }
        }
    }
}

/// A keeper says nothing before it is told its box: anything to be read is its end.
fn is_alive(spare: &UnixStream) -> bool {
    let mut byte = [0; 1];
    let look = recv(spare, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    matches!(look, Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_passed_over_and_a_rush_wants_more() {
        let spares = Spares::new();
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let mut peers = Vec::new();
        for (ours, theirs) in pairs {
            spares.put(ours);
            peers.push(theirs);
        }
        assert!(!spares.lacks());
        drop(peers.remove(0));
        assert!(spares.take().is_some(), "the second lives");
        drop(peers.pop());
        assert!(spares.take().is_none());
        assert!(spares.is_empty() && spares.lacks());
        for _ in 0..10 {
            assert!(spares.take().is_none());
        }
        let mut made = 0;
        while spares.lacks() {
            let (ours, theirs) = UnixStream::pair().unwrap();
            spares.put(ours);
            peers.push(theirs);
            made += 1;
        }
        assert_eq!(made, MOST);
        spares.calm_down();
        assert!(!spares.lacks() && !spares.is_empty());
        spares.clear();
        assert!(spares.is_empty());
    }
}
