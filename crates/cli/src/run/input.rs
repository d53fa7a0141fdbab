//! Reading standard input on a thread, whatever it is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bytes::Bytes;
use minimal_proto::Signal;
use minimal_sdk::AttachHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// How much is read at once: what a pipe holds by default (pipe(7)), twice.
const CHUNK: usize = 128 << 10;

/// How often a client in the background looks whether it is in the foreground again: the kernel
/// tells nobody.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Whether standard input can have anything in it. `/dev/null` cannot, and it is also what a closed
/// descriptor 0 was replaced by when this program started.
pub(crate) fn is_worth_reading() -> bool {
    match rustix::fs::fstat(io::stdin()) {
        // The kernel's numbers for /dev/null (devices.txt: character device 1:3).
        Ok(stat) => {
            let is_device = rustix::fs::FileType::from_raw_mode(stat.st_mode)
                == rustix::fs::FileType::CharacterDevice;
            !(is_device && stat.st_rdev == rustix::fs::makedev(1, 3))
        }
        Err(_) => false,
    }
}

/// What a read gave.
pub(super) enum Read {
    Bytes(Bytes),
    End,
    Failed(io::Error),
}

/// Passes standard input on to a box until it ends or the box takes no more. Answers why it could
/// not be read, if it could not: the box's input has ended then, too.
pub(super) async fn pass_on(handle: AttachHandle) -> Option<io::Error> {
    let (reader, mut pieces) = match start() {
        Ok(started) => started,
        Err(error) => {
            handle.eof();
            return Some(error);
        }
    };
    let failed = loop {
        match pieces.recv().await {
            Some(Read::Bytes(bytes)) => {
                if handle.input(bytes).await.is_err() {
                    break None;
                }
            }
            Some(Read::End) | None => {
                handle.eof();
                break None;
            }
            Some(Read::Failed(error)) => {
                handle.eof();
                break Some(error);
            }
        }
    };
    // The thread hears the end of this pipe and lets go of standard input, so that whoever writes
    // to it is told that nobody reads.
    drop(reader);
    failed
}

/// Starts the thread. It ends when the descriptor is closed.
pub(super) fn start() -> io::Result<(OwnedFd, Receiver<Read>)> {
    let (ended, keep) = io::pipe()?;
    let (pieces, receiver) = channel(1);
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        read_all(&ended, &pieces);
        let_go();
    })?;
    Ok((keep.into(), receiver))
}

fn read_all(ended: &impl AsFd, pieces: &Sender<Read>) {
    let stdin = io::stdin();
    let is_terminal = rustix::termios::isatty(&stdin);
    if is_terminal {
        // A read in the background is an error then, and does not stop us.
        minimal_linux::signals::ignore(Signal::from_number(21).expect("SIGTTIN is 21"));
    }
    let mut buffer = vec![0; CHUNK];
    loop {
        let background = is_terminal && minimal_linux::terminal::is_anothers(&stdin);
        let mut both = [PollFd::new(ended, PollFlags::empty()), PollFd::new(&stdin, PollFlags::IN)];
        let watched = if background { &mut both[..1] } else { &mut both[..] };
        let limit = background.then_some(&LOOK);
        match poll(watched, limit) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                drop(pieces.blocking_send(Read::Failed(error.into())));
                return;
            }
        }
        if !both[0].revents().is_empty() {
            return;
        }
        if background || both[1].revents().is_empty() {
            continue;
        }
        let read = match rustix::io::read(&stdin, &mut buffer) {
            Ok(0) => Read::End,
            Ok(length) => Read::Bytes(Bytes::copy_from_slice(&buffer[..length])),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
            // The terminal was taken from us between the look and the read.
            Err(rustix::io::Errno::IO)
                if is_terminal && minimal_linux::terminal::is_anothers(&stdin) =>
            {
                continue;
            }
            Err(error) => Read::Failed(error.into()),
        };
        let last = !matches!(read, Read::Bytes(_));
        if pieces.blocking_send(read).is_err() || last {
            return;
        }
    }
}

fn let_go() {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    if let Ok(null) = rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty()) {
        // Held until we end, otherwise; nothing of ours depends on it.
        drop(minimal_linux::fds::set_standard(null.as_fd(), 0));
    }
}
