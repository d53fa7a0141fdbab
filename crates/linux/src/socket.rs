//! Unix sockets: passing descriptors, and names longer than an address.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// A pair of connected sockets that keep message boundaries (unix(7), `SOCK_SEQPACKET`).
///
/// # Errors
/// What socketpair(2) says.
pub fn message_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let pair = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok(pair)
}

/// Sends one message, with a descriptor if there is one.
///
/// # Errors
/// What sendmsg(2) says; `EPIPE` if the peer is gone.
pub fn send(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<_> = passed.into_iter().collect();
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)
    })?;
    Ok(())
}

/// Receives one message and a descriptor that came with it. A length of zero is the end.
///
/// # Errors
/// What recvmsg(2) says; `EMSGSIZE` if the message was longer than the buffer.
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(buffer)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    if message.flags.contains(rustix::net::ReturnFlags::TRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let passed = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    Ok((message.bytes, passed))
}

/// The most descriptors that [`try_send_all`] passes with a message.
pub const MOST_PASSED: usize = 8;

/// Sends one message with several descriptors, at most [`MOST_PASSED`], if that needs no waiting.
///
/// # Errors
/// What sendmsg(2) says: `EAGAIN` if the peer has much to read already, `EMSGSIZE` if the message is
/// longer than the socket takes, `EPIPE` if the peer is gone.
pub fn try_send_all(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    passed: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(passed)) {
        return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)
    })?;
    Ok(())
}

/// Receives one message and all descriptors that came with it. A length of zero is the end.
///
/// # Errors
/// As [`receive`].
pub fn receive_all(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_PASSED))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket,
            &mut [IoSliceMut::new(buffer)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    if message.flags.contains(rustix::net::ReturnFlags::TRUNC) {
        return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
    }
    let mut all = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            all.extend(fds);
        }
    }
    Ok((message.bytes, all))
}

/// The short path of a name in an open directory: `sun_path` holds 108 bytes (unix(7)), a state
/// directory may be deeper.
fn short_path(directory: BorrowedFd<'_>, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

/// Listens on a socket called `name` in a directory, whatever the directory's depth. A file of
/// that name is an error: the caller knows whether it may be removed.
///
/// # Errors
/// What bind(2) or listen(2) says.
pub fn listen(directory: BorrowedFd<'_>, name: &str) -> io::Result<UnixListener> {
    UnixListener::bind(short_path(directory, name))
}

/// Connects to the socket called `name` in a directory.
///
/// # Errors
/// What connect(2) says; `ECONNREFUSED` if nobody listens any more.
pub fn connect(directory: BorrowedFd<'_>, name: &str) -> io::Result<UnixStream> {
    UnixStream::connect(short_path(directory, name))
}

/// Whether a process listens on the socket called `name` in a directory. Never waits for it.
///
/// # Errors
/// What else than yes or no connect(2) says.
pub fn is_listening(directory: BorrowedFd<'_>, name: &str) -> io::Result<bool> {
    let address = rustix::net::SocketAddrUnix::new(short_path(directory, name))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        // unix(7): its queue is full, as that of a stopped process may be.
        Ok(()) | Err(rustix::io::Errno::AGAIN) => Ok(true),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// The user of the process at the other end, as it was when it connected (unix(7), `SO_PEERCRED`).
///
/// # Errors
/// What getsockopt(2) says.
pub fn peer_uid(socket: impl AsFd) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}
