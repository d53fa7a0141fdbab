//! The daemons that are connected to this keeper.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use minimal_linux::socket;
use minimal_proto::keeper::{Decoder, FromKeeper, Hello, Incoming, ToKeeper};
use minimal_proto::{ErrorBody, ErrorCode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::Connection;

/// Connections at a time that are no exec's: one daemon's, the next one's while the last one's end is
/// not noticed, and those that have not said yet which exec they are for.
const MAX_CONNECTIONS: usize = 64;
/// After a connection could not be accepted for want of descriptors or memory, none is for so long.
const REST: Duration = Duration::from_millis(100);

/// Why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// What was waited for.
    Ended,
    /// Somebody asked for the box to be stopped.
    Stopped,
}

/// What a keeper whose box is not born yet does about a message.
enum Answer {
    Done { request: u64, error: Option<ErrorBody> },
    Stop { request: u64 },
    Later(Incoming<ToKeeper>),
}

fn answer_unborn(message: Incoming<ToKeeper>) -> Answer {
    match message {
        Incoming::Message(ToKeeper::Ping { request }) => Answer::Done { request, error: None },
        Incoming::Message(ToKeeper::Stop { request, .. } | ToKeeper::Cancel { request }) => {
            Answer::Stop { request }
        }
        Incoming::Message(ToKeeper::Signal { request, .. }) => {
            let error = ErrorBody::new(
                ErrorCode::WrongState,
                "the box has not started yet: there is nothing to signal",
            );
            Answer::Done { request, error: Some(error) }
        }
        later => Answer::Later(later),
    }
}

/// The daemons that are connected, and what each is told first.
pub(crate) struct Peers {
    pub(crate) connections: Vec<Connection>,
    pub(crate) greeting: Hello,
    /// Nobody is accepted before.
    rest_until: Option<Instant>,
}

impl Peers {
    pub(crate) fn new(greeting: Hello) -> Self {
        Self { connections: Vec::new(), greeting, rest_until: None }
    }

    /// Takes a new connection and greets it.
    pub(crate) fn welcome(&mut self, mut connection: Connection) {
        connection.send(&FromKeeper::Hello(self.greeting.clone()));
        self.connections.push(connection);
    }

    /// Accepts whoever waits at the control socket, if it is our user.
    pub(crate) fn accept(&mut self, listener: &UnixListener) {
        while self.has_room() {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Whoever waits would keep the listener ready for ever.
                    self.rest_until = Instant::now().checked_add(REST);
                    return;
                }
            };
            let ours = rustix::process::geteuid().as_raw();
            if !socket::peer_uid(&stream).is_ok_and(|uid| uid == ours) {
                continue;
            }
            if let Ok(connection) = Connection::new(stream, Decoder::default()) {
                self.welcome(connection);
            }
        }
    }

    /// Whether another connection may come.
    pub(crate) fn has_room(&self) -> bool {
        self.connections.len() < MAX_CONNECTIONS
            && self.rest_until.is_none_or(|until| until <= Instant::now())
    }

    /// When somebody may be accepted again.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.rest_until.filter(|until| *until > Instant::now())
    }

    /// Tells every daemon.
    pub(crate) fn broadcast(&mut self, message: &FromKeeper) {
        for connection in &mut self.connections {
            connection.send(message);
        }
    }

    /// Waits for a child of a keeper whose box is not born yet, until it has ended or the box is to
    /// be stopped. What can only be answered by a box that runs is kept for it.
    pub(crate) fn wait_for(&mut self, child: BorrowedFd<'_>) -> io::Result<Waited> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            for connection in &mut self.connections {
                connection.flush();
                let messages = connection.receive(&mut buffer);
                let mut later = Vec::new();
                let mut stopped = false;
                for message in messages {
                    match answer_unborn(message) {
                        Answer::Done { request, error } => {
                            connection.send(&FromKeeper::Done { request, error });
                        }
                        Answer::Stop { request } => {
                            connection.send(&FromKeeper::Done { request, error: None });
                            stopped = true;
                        }
                        Answer::Later(message) => later.push(message),
                    }
                }
                connection.hold(later);
                if stopped {
                    return Ok(Waited::Stopped);
                }
            }
            self.connections.retain(|connection| !connection.is_gone());
            let mut fds = vec![PollFd::from_borrowed_fd(child, PollFlags::IN)];
            for connection in &self.connections {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, connection.wants_to_write());
                fds.push(PollFd::from_borrowed_fd(connection.as_fd(), flags));
            }
            match poll(&mut fds, None) {
                Ok(_) if !fds[0].revents().is_empty() => return Ok(Waited::Ended),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Greets newcomers until the time is over, and answers nothing else.
    pub(crate) fn serve_until(&mut self, listener: Option<&UnixListener>, until: Instant) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return };
            let open = listener.filter(|_| self.has_room());
            let mut fds: Vec<_> = open.iter().map(|it| PollFd::new(*it, PollFlags::IN)).collect();
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return,
                Ok(_) => {
                    if let Some(listener) = open {
                        self.accept(listener);
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Sends what waits, then lets go of everyone.
    pub(crate) fn finish(&mut self, limit: Duration) {
        for connection in self.connections.drain(..) {
            connection.finish(limit);
        }
    }
}
