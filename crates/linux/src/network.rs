//! The network of a box that has none: its loopback.

use std::io;
use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketType};

/// Brings up `lo` of our network namespace (netdevice(7)).
///
/// # Errors
/// What socket(2) or ioctl(2) says; `EPERM` without CAP_NET_ADMIN over the namespace.
pub fn loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: ifreq is plain data, for which zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *place = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(io::Error::other)?;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which `request` is.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
