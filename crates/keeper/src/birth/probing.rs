//! Looks at whether something listens in a box, from within its network.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use minimal_linux::fork::{Forked, Network, exit_now, fork};
use minimal_linux::{Child, fds, namespaces};
use rustix::io::Errno;

use crate::walls;

/// How long a connection may take. Loopback answers at once, unless somebody's queue is full.
const LIMIT: Duration = Duration::from_secs(1);
/// What the child returns for an answer that is no errno.
const NO_ERRNO: i32 = 255;

/// Has a child connect to a port of the box's loopback. It returns 0, or the errno.
///
/// # Errors
/// What fork(2) says.
pub(super) fn connect(init: &Child, network: Network, port: u16) -> io::Result<Child> {
    match fork()? {
        Forked::Parent(child) => Ok(child),
        Forked::Child => {
            let status = match look(init, network, port) {
                Ok(()) => 0,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    Errno::TIMEDOUT.raw_os_error()
                }
                // Every errno there is fits into a status.
                Err(error) => error.raw_os_error().unwrap_or(NO_ERRNO),
            };
            exit_now(status)
        }
    }
}

fn look(init: &Child, network: Network, port: u16) -> io::Result<()> {
    // Nothing in the box can see us: we are in its network, and not among its processes. What the
    // keeper holds is not needed all the same.
    fds::close_all_except(&[init.as_fd()])?;
    walls::hide()?;
    namespaces::join(init, network)?;
    walls::hide()?;
    let four = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&four, LIMIT)
        .or_else(|error| TcpStream::connect_timeout(&six, LIMIT).map_err(|_of_six| error))
        .map(drop)
}
