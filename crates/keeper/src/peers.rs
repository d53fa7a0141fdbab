//! The daemons that are connected to this keeper.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use minimal_linux::socket;
use minimal_proto::keeper::{Decoder, FromKeeper, Hello};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::control::Connection;

/// Connections at a time: one daemon, and the next while the last one's end is not noticed.
const MAX_CONNECTIONS: usize = 8;

/// The daemons that are connected, and what each is told first.
pub(crate) struct Peers {
    pub(crate) connections: Vec<Connection>,
    pub(crate) greeting: Hello,
}

impl Peers {
    pub(crate) fn new(greeting: Hello) -> Self {
        Self { connections: Vec::new(), greeting }
    }

    /// Takes a new connection and greets it.
    pub(crate) fn welcome(&mut self, mut connection: Connection) {
        connection.send(&FromKeeper::Hello(self.greeting.clone()));
        self.connections.push(connection);
    }

    /// Accepts whoever waits at the control socket, if it is our user.
    pub(crate) fn accept(&mut self, listener: &UnixListener) {
        while self.has_room() {
            let Ok((stream, _)) = listener.accept() else { return };
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
    }

    /// Tells every daemon.
    pub(crate) fn broadcast(&mut self, message: &FromKeeper) {
        for connection in &mut self.connections {
            connection.send(message);
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
