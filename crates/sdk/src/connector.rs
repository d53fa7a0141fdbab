//! Reaching the daemon's socket.

use std::fmt;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use minimal_proto::ErrorBody;
use rustix::fs::{Mode, OFlags};
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;

/// A future that a [`Connector`] gives.
pub type Connecting<'a> =
    Pin<Box<dyn Future<Output = Result<UnixStream, ConnectError>> + Send + 'a>>;

/// Gives connections to the daemon, one for each call. May start a daemon when none answers.
pub trait Connector: fmt::Debug + Send + Sync {
    /// A new connection, to a process of our own user.
    fn connect(&self) -> Connecting<'_>;
}

/// Connects to a socket and starts nothing.
#[derive(Debug)]
pub struct SocketConnector {
    path: PathBuf,
}

impl SocketConnector {
    /// A connector to the socket at `path`.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Connector for SocketConnector {
    fn connect(&self) -> Connecting<'_> {
        Box::pin(connect(&self.path))
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No socket, or nobody listens on it.
    #[error("no daemon answers at `{}`", path.display())]
    Absent {
        /// The socket.
        path: PathBuf,
        /// `ENOENT` or `ECONNREFUSED`.
        #[source]
        source: io::Error,
    },
    /// Whoever listens is another user: it could tell us anything.
    #[error(
        "the daemon at `{}` belongs to user {uid}, not to user {ours} who asks", path.display()
    )]
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
        /// Who we are.
        ours: u32,
    },
    /// The last part of the path is longer than an address can be.
    #[error("the socket's file name in `{}` is too long", path.display())]
    Name {
        /// The socket.
        path: PathBuf,
    },
    /// Nothing was heard: the file system that holds the socket does not answer, or the daemon
    /// takes no connection.
    #[error("`{}` has not answered within {} s", path.display(), limit.as_secs())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long was waited.
        limit: Duration,
    },
    /// Anything else the kernel said.
    #[error("connect to `{}`", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// What it said.
        #[source]
        source: io::Error,
    },
    /// A connector that starts daemons could not.
    #[error(transparent)]
    Start(Box<ErrorBody>),
}

/// `sun_path` holds 108 bytes, the last of them a zero (unix(7)).
const ADDRESS_MAX: usize = 107;

/// How long to wait for a connection. A daemon that lives takes one in microseconds, and one with
/// hundreds of clients at once within a second; a dead network mount never answers.
const LIMIT: Duration = Duration::from_secs(10);

/// Connects to the socket at `path`, whatever its length, and checks who listens.
///
/// # Errors
/// Nobody listens; another user does; nobody answers; the kernel refuses.
pub async fn connect(path: &Path) -> Result<UnixStream, ConnectError> {
    let owned = path.to_owned();
    // On a thread of its own: looking up a path may hang, and so may a listener's full queue.
    let connecting = spawn_blocking(move || connect_blocking(&owned));
    let stream = match tokio::time::timeout(LIMIT, connecting).await {
        Ok(joined) => joined.expect("connecting does not panic")?,
        Err(_elapsed) => return Err(ConnectError::Silent { path: path.to_owned(), limit: LIMIT }),
    };
    let failed = |source| ConnectError::Io { path: path.to_owned(), source };
    stream.set_nonblocking(true).map_err(failed)?;
    let stream = UnixStream::from_std(stream).map_err(failed)?;
    let uid = stream.peer_cred().map_err(failed)?.uid();
    let ours = rustix::process::geteuid().as_raw();
    if uid != ours {
        return Err(ConnectError::OtherUser { path: path.to_owned(), uid, ours });
    }
    Ok(stream)
}

fn connect_blocking(path: &Path) -> Result<std::os::unix::net::UnixStream, ConnectError> {
    let (directory, short);
    let address = if path.as_os_str().len() <= ADDRESS_MAX {
        path
    } else {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(ConnectError::Name { path: path.to_owned() });
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        directory = rustix::fs::open(parent, flags, Mode::empty())
            .map_err(|errno| absent_or(path, errno.into()))?;
        short = Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(name);
        if short.as_os_str().len() > ADDRESS_MAX {
            return Err(ConnectError::Name { path: path.to_owned() });
        }
        &short
    };
    std::os::unix::net::UnixStream::connect(address).map_err(|error| absent_or(path, error))
}

fn absent_or(path: &Path, source: io::Error) -> ConnectError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ConnectError::Absent { path, source }
        }
        _ => ConnectError::Io { path, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_longer_than_an_address_works() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("minimald.sock");
        assert!(matches!(connect(&path).await, Err(ConnectError::Absent { .. })));
        let directory =
            rustix::fs::open(&deep, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let short = format!("/proc/self/fd/{}/minimald.sock", directory.as_raw_fd());
        let listener = tokio::net::UnixListener::bind(short).unwrap();
        connect(&path).await.unwrap();
        drop(listener);
        assert!(matches!(connect(&path).await, Err(ConnectError::Absent { .. })));
        let name = deep.join("n".repeat(200));
        assert!(matches!(connect(&name).await, Err(ConnectError::Name { .. })));
    }

    #[tokio::test]
    async fn what_is_not_a_socket_is_not_an_absent_daemon() {
        let root = tempfile::tempdir().unwrap();
        assert!(matches!(
            connect(&root.path().join("none")).await,
            Err(ConnectError::Absent { .. })
        ));
        assert!(matches!(
            connect(&root.path().join("a/b")).await,
            Err(ConnectError::Absent { .. })
        ));
    }
}
