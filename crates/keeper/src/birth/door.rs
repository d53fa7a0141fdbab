//! A door to a box that runs: a process in the box's control groups, and else outside of it, that
//! makes whoever enters.
//!
//! The kernel makes who moves between groups wait for milliseconds (`limits::cgroups`), but who is
//! born in one is there. A keeper leaves the groups of its box, so what it forks has to move; what
//! the door forks has not. Like a joiner it makes children of the keeper, not its own, and tells
//! nobody anything but by the pipe that came with the order.

use std::io::{self, PipeWriter};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use minimal_linux::exec::Program;
use minimal_linux::fork::{Forked, exit_now, fork, fork_sibling};
use minimal_linux::{Child, fds, socket, title};
use minimal_proto::ByteString;
use serde::{Deserialize, Serialize};

use super::WayIn;
use super::entering::{Failure, Report};
use super::joiner::{self, Order};
use crate::limits::Cgroups;

/// The longest order, in bytes. A socket takes some 200 KiB at once (socket(7), `wmem_default`);
/// whoever has more to say gets in without the door.
const LONGEST: usize = 256 << 10;

/// Who is to be let in. What is the same for all of a box the door has from its fork.
#[derive(Debug, Serialize, Deserialize)]
struct Guest {
    argv: Vec<ByteString>,
    /// `NAME=value`.
    environment: Vec<ByteString>,
    path: ByteString,
    working_directory: ByteString,
    uid: u32,
    gid: u32,
    terminal: bool,
}

/// The keeper's end.
#[derive(Debug)]
pub(crate) struct Door {
    process: Child,
    socket: OwnedFd,
}

impl Door {
    /// Opens one. It takes its place in the groups by itself, and orders wait until it is there.
    ///
    /// # Errors
    /// What making it says.
    pub(crate) fn open(way_in: &WayIn<'_>, init: &Child, cgroups: &Cgroups) -> io::Result<Self> {
        let (ours, its) = socket::message_pair()?;
        match fork()? {
            Forked::Child => {
                drop(ours);
                serve(way_in, init, cgroups, &its).ok();
                exit_now(0)
            }
            Forked::Parent(process) => Ok(Self { process, socket: ours }),
        }
    }

    /// Has a program let in. `writer` is the pipe that its way in is reported by.
    ///
    /// # Errors
    /// What sendmsg(2) says: the order is too long, or too many wait, or nobody is at the door.
    pub(super) fn send(
        &self,
        order: &Order<'_>,
        [stdin, stdout, stderr]: [BorrowedFd<'_>; 3],
        writer: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let program = order.program.ok_or(io::ErrorKind::InvalidInput)?;
        let (argv, environment) = program.texts();
        let texts = |texts: Vec<&[u8]>| {
            texts.into_iter().map(|text| ByteString::from(text.to_vec())).collect()
        };
        let guest = Guest {
            argv: texts(argv),
            environment: texts(environment),
            path: ByteString::from(order.path.to_vec()),
            working_directory: ByteString::from(order.working_directory.as_os_str()),
            uid: order.uid,
            gid: order.gid,
            terminal: order.terminal,
        };
        let bytes = serde_json::to_vec(&guest).map_err(io::Error::from)?;
        if bytes.len() > LONGEST {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        socket::try_send_all(self.socket.as_fd(), &bytes, &[stdin, stdout, stderr, writer])
    }

    /// Whether its process is gone.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(self.process.peek(), Ok(None))
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Closes it: it ends once it has let in who waits. Returns its process, to be reaped.
    pub(crate) fn close(self) -> Child {
        self.process
    }
}

/// The door's own process. Returns when the keeper has closed its end, or is gone.
fn serve(way_in: &WayIn<'_>, init: &Child, cgroups: &Cgroups, orders: &OwnedFd) -> io::Result<()> {
    title::set("min-door").ok();
    // Everything else is the keeper's: held here it would not end when the keeper closes it. The
    // standard streams stay taken: what is received would get their numbers, and a guest's stream be
    // overwritten by another before it is in its place.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    fds::close_all_except(&[orders.as_fd(), init.as_fd(), null.as_fd()])?;
    (0..=2).try_for_each(|number| fds::set_standard(null.as_fd(), number))?;
    cgroups.step_in()?;
    let mut buffer = vec![0; LONGEST];
    loop {
        let (length, passed) = socket::receive_all(orders.as_fd(), &mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        let Ok([stdin, stdout, stderr, writer]) = <[OwnedFd; 4]>::try_from(passed) else {
            continue;
        };
        let writer = PipeWriter::from(writer);
        match fork_sibling() {
            Ok(Some(pid)) => {
                joiner::write(&writer, Report::Joiner(pid));
            }
            Ok(None) => {
                let streams = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
                let failure = let_in(way_in, init, &buffer[..length], streams, &writer);
                joiner::write(&writer, Report::Failed(failure));
                exit_now(127)
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                joiner::write(&writer, Report::Failed(Failure::Step(joiner::MAKE_PROCESS, errno)));
            }
        }
        // What one was given to run with is no business of the next.
        buffer[..length].fill(0);
    }
}

/// The joiner that the door has made.
fn let_in(
    way_in: &WayIn<'_>,
    init: &Child,
    order: &[u8],
    streams: [BorrowedFd<'_>; 3],
    writer: &PipeWriter,
) -> Failure {
    let read = || -> io::Result<(Guest, Program)> {
        let guest: Guest = serde_json::from_slice(order)?;
        let program = Program::from_texts(
            guest.argv.iter().map(ByteString::as_bytes),
            guest.environment.iter().map(ByteString::as_bytes),
        )?;
        Ok((guest, program))
    };
    let Ok((guest, program)) = read() else { return Failure::Step(joiner::MAKE_PROCESS, 0) };
    let working_directory =
        PathBuf::from(std::ffi::OsStr::from_bytes(guest.working_directory.as_bytes()));
    let filters = way_in.filters();
    let order = Order {
        path: guest.path.as_bytes(),
        uid: guest.uid,
        gid: guest.gid,
        terminal: guest.terminal,
        ..way_in.order(&program, &working_directory, &filters)
    };
    joiner::enter_the_box(init, &order, streams, writer)
}
