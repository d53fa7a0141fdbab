//! The caller's terminal while every key of it is the box's.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal, and how it was, while it is not so. For whoever has to put it back, also a panic. By a
/// descriptor of its own: standard input may be let go of before.
static BEFORE: Mutex<Option<(File, Termios)>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// A terminal that is raw until this is dropped.
#[derive(Debug)]
pub(super) struct RawTerminal(());

impl RawTerminal {
    /// Makes the terminal on standard input raw.
    ///
    /// # Errors
    /// What dup(2), tcgetattr(3) or tcsetattr(3) says.
    pub(super) fn enter() -> io::Result<Self> {
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // First: the words are to be read.
                put_back();
                next(panic);
            }));
        });
        let terminal = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let before = tcgetattr(&terminal)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some((terminal, before));
        let raw = Self(());
        raw.renew()?;
        Ok(raw)
    }

    /// Makes it raw again, after we were stopped and somebody else had it.
    ///
    /// # Errors
    /// What tcgetattr(3) or tcsetattr(3) says.
    pub(super) fn renew(&self) -> io::Result<()> {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((terminal, before)) = &*before else { return Ok(()) };
        let mut modes = before.clone();
        modes.make_raw();
        Ok(tcsetattr(terminal, OptionalActions::Now, &modes)?)
    }

    /// Puts the terminal back, and takes back what a program has set in it.
    pub(super) fn leave(self, take_back: &[u8]) {
        // One that is gone is in no state.
        let mut out = io::stdout();
        out.write_all(take_back).and_then(|()| out.flush()).ok();
        drop(self);
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        put_back();
    }
}

fn put_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((terminal, before)) = before {
        tcsetattr(&terminal, OptionalActions::Now, &before).ok();
    }
}
