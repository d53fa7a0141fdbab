//! Descriptors that are waited for together (poll(2)).

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What is waited for.
#[derive(Default)]
pub(crate) struct Watch<'fd> {
    fds: Vec<PollFd<'fd>>,
}

/// Which of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(usize);

/// What became of them.
#[derive(Debug)]
pub(crate) struct Woken(Vec<PollFlags>);

impl<'fd> Watch<'fd> {
    /// Adds one. Errors and hang-ups are waited for whatever else is.
    pub(crate) fn add(&mut self, fd: BorrowedFd<'fd>, flags: PollFlags) -> Slot {
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        Slot(self.fds.len() - 1)
    }

    /// Waits until one is ready or the time is over. An interrupted or refused wait finds nothing
    /// ready; what is there is found in the next.
    pub(crate) fn wait(mut self, limit: Option<Duration>) -> Woken {
        // A time that the kernel cannot count is none.
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        if poll(&mut self.fds, limit.as_ref()).is_err() {
            return Woken(Vec::new());
        }
        Woken(self.fds.iter().map(PollFd::revents).collect())
    }
}

impl Woken {
    fn flags(&self, slot: Option<Slot>) -> PollFlags {
        slot.and_then(|Slot(at)| self.0.get(at).copied()).unwrap_or(PollFlags::empty())
    }

    /// Whether something can be done with it.
    pub(crate) fn is_ready(&self, slot: Option<Slot>) -> bool {
        !self.flags(slot).is_empty()
    }

    /// Whether nothing can be done with it any more: of a pipe, that nobody reads it.
    pub(crate) fn has_failed(&self, slot: Option<Slot>) -> bool {
        self.flags(slot).contains(PollFlags::ERR)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn each_is_found_by_its_slot() {
        let (quiet, mut busy) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        busy.1.write_all(b"x").unwrap();
        let mut watch = Watch::default();
        let slots = [&quiet.0, &busy.0].map(|pipe| Some(watch.add(pipe.as_fd(), PollFlags::IN)));
        let woken = watch.wait(None);
        assert_eq!(slots.map(|slot| woken.is_ready(slot)), [false, true]);
        assert!(!woken.is_ready(None));
        drop(quiet.0);
        let mut watch = Watch::default();
        let slot = Some(watch.add(quiet.1.as_fd(), PollFlags::empty()));
        assert!(watch.wait(None).has_failed(slot));
    }
}
