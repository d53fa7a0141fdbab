//! A program's terminal: a pair of ends made in the box's own devpts, so that programs find theirs by
//! name (`tty`, `ttyname(3)`), and nobody else's.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use minimal_proto::TerminalSize;
use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};

use super::identity::Identity;
use crate::streams::Ends;

/// Where the terminals of a box are made: its devpts, held since before anything foreign ran in the
/// box, so that nothing it mounts comes between.
#[derive(Debug)]
pub(crate) struct Terminals(OwnedFd);

/// Both ends of a terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Ours.
    master: OwnedFd,
    /// The program's.
    slave: OwnedFd,
}

impl Terminals {
    pub(super) fn new(mount: OwnedFd) -> Self {
        Self(mount)
    }

    /// Makes a terminal of this size for a user of the box.
    ///
    /// # Errors
    /// What open(2), ioctl(2) or fchown(2) says.
    pub(super) fn make(&self, size: TerminalSize, identity: &Identity) -> io::Result<Terminal> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let master = rustix::fs::openat(&self.0, "ptmx", flags, Mode::empty())?;
        rustix::pty::unlockpt(&master)?;
        // By its master and not by its path, which is in the box.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        // It is born ours, which is nobody in the box.
        identity.own(slave.as_fd())?;
        // Before the first byte: a program asks once, and draws.
        resize(&master, size)?;
        let mut modes = rustix::termios::tcgetattr(&slave)?;
        // What is erased is a character and not one of its bytes (termios(3)).
        modes.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(&slave, OptionalActions::Now, &modes)?;
        Ok(Terminal { master, slave })
    }
}

impl Terminal {
    /// The end the program gets, as its descriptors 0, 1 and 2.
    pub(super) fn inner(&self) -> [std::os::fd::BorrowedFd<'_>; 3] {
        [self.slave.as_fd(), self.slave.as_fd(), self.slave.as_fd()]
    }

    /// What we keep. The program's end too, until that has ended: it may close all of its own and open
    /// the terminal again.
    pub(super) fn into_outer(self) -> Ends {
        Ends { terminal: Some((self.master, self.slave)), ..Ends::default() }
    }
}

/// Gives a terminal a size, of which its foreground process group is told (SIGWINCH).
///
/// # Errors
/// What ioctl(2) says.
pub(crate) fn resize(master: impl AsFd, size: TerminalSize) -> io::Result<()> {
    let TerminalSize { cols, rows } = size.or_default();
    let size = Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(master, size)?)
}
