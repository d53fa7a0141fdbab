//! The API's socket: bound for our user alone, and asked of every peer again.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use minimal_linux::socket;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, inotify};
use tokio::net::unix::pipe;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// How long accepting rests after an error such as `EMFILE`, which the next call would repeat.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// A listening socket that only our own user gets through.
#[derive(Debug)]
pub(crate) struct Socket {
    listener: UnixListener,
    /// Listeners that take its place.
    replaced: mpsc::Receiver<UnixListener>,
    uid: u32,
}

/// Where the socket's file is, to remove it again.
#[derive(Debug)]
struct Place {
    directory: OwnedFd,
    name: String,
    /// Device and inode of its file.
    id: (u64, u64),
    /// Hears of changes in the directory (inotify(7)).
    watch: Option<pipe::Receiver>,
}

/// The socket could not be bound.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// No directory, no file name, or one that is not UTF-8.
    #[error("`{}` cannot be the path of a socket", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// Something else than a socket is there, and is not ours to remove.
    #[error("bind the socket `{}`: another file is there", path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("{attempt} `{}`", path.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl Socket {
    /// Binds the socket, and watches over its file.
    pub(crate) fn bind(path: &Path) -> Result<(Self, SocketFile), SocketError> {
        let (listener, place) = bind(path)?;
        let (successors, replaced) = mpsc::channel(1);
        let uid = rustix::process::geteuid().as_raw();
        let file = SocketFile { path: path.to_owned(), place, successors };
        Ok((Self { listener, replaced, uid }, file))
    }

    fn is_own_user(&self, stream: &UnixStream) -> bool {
        match socket::peer_uid(stream) {
            Ok(uid) if uid == self.uid => true,
            Ok(uid) => {
                tracing::warn!(uid, "a connection of another user was closed");
                false
            }
            Err(error) => {
                tracing::warn!(%error, "a connection of an unknown user was closed");
                false
            }
        }
    }
}

impl axum::serve::Listener for Socket {
    type Io = UnixStream;
    type Addr = ();

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let accepted = tokio::select! {
                Some(listener) = self.replaced.recv() => {
                    self.listener = listener;
                    continue;
                }
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) if self.is_own_user(&stream) => return (stream, ()),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(())
    }
}

/// Binds a socket. The caller holds the daemon's lock: one that is there already is a dead daemon's
/// and is removed.
///
/// Goes through a descriptor of the directory, so that the path may be longer than the 107
/// bytes an address holds (unix(7)).
fn bind(path: &Path) -> Result<(UnixListener, Place), SocketError> {
    let invalid = || SocketError::Path { path: path.to_owned() };
    let failed = |attempt| {
        move |source: rustix::io::Errno| SocketError::Io {
            attempt,
            path: path.to_owned(),
            source: source.into(),
        }
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(invalid)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(parent, flags, Mode::empty())
        .map_err(failed("open the directory of the socket"))?;
    match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Socket => {
            rustix::fs::unlinkat(&directory, name, AtFlags::empty())
                .map_err(failed("remove the dead socket"))?;
        }
        Ok(_) => return Err(SocketError::Occupied { path: path.to_owned() }),
        Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(failed("look at the socket")(errno)),
    }
    let io_failed =
        |source| SocketError::Io { attempt: "bind the socket", path: path.to_owned(), source };
    // The umask is 077, so nobody else can connect between bind and chmod either.
    let listener = socket::listen(directory.as_fd(), name).map_err(io_failed)?;
    rustix::fs::chmodat(&directory, name, Mode::from_raw_mode(0o600), AtFlags::empty())
        .map_err(failed("restrict the socket"))?;
    listener.set_nonblocking(true).map_err(io_failed)?;
    let listener = UnixListener::from_std(listener).map_err(io_failed)?;
    let id = file_id(&directory, name).map_err(failed("look at the socket"))?;
    // Without a watch the daemon works; a socket that is deleted is then told of by clients only.
    let watch = watch(&directory)
        .inspect_err(|error| tracing::warn!(%error, "the socket's file is not watched"))
        .ok();
    Ok((listener, Place { directory, name: name.to_owned(), id, watch }))
}

/// Which file a name stands for.
fn file_id(directory: &OwnedFd, name: &str) -> rustix::io::Result<(u64, u64)> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Hears of every name that is taken out of a directory, or over.
fn watch(directory: &OwnedFd) -> io::Result<pipe::Receiver> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
    let flags = inotify::WatchFlags::DELETE
        | inotify::WatchFlags::MOVED_FROM
        | inotify::WatchFlags::MOVED_TO
        | inotify::WatchFlags::ONLYDIR;
    inotify::add_watch(&watch, path, flags)?;
    // It is read and waited for as a pipe is.
    pipe::Receiver::from_owned_fd_unchecked(watch)
}

/// The file of a bound socket. To be touched while the daemon's lock is held, so that it is no
/// successor's.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    place: Place,
    successors: mpsc::Sender<UnixListener>,
}

impl SocketFile {
    /// Completes once the file is gone, or another one is in its place: nobody new gets in then.
    pub(crate) async fn lost(&self) {
        let Place { directory, name, id, watch } = &self.place;
        let Some(watch) = watch else { return std::future::pending().await };
        let mut buffer = [0; 4096];
        while file_id(directory, name) == Ok(*id) {
            match watch.readable().await {
                // What has happened is of no interest, only how it is now.
                Ok(()) => drop(watch.try_read(&mut buffer)),
                Err(error) => {
                    tracing::warn!(%error, "the socket's file is not watched any more");
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Binds the socket once more.
    ///
    /// # Errors
    /// See [`SocketError`].
    pub(crate) async fn bind_again(&mut self) -> Result<(), SocketError> {
        let (listener, place) = bind(&self.path)?;
        self.place = place;
        // Without a server there is nobody who would listen.
        drop(self.successors.send(listener).await);
        Ok(())
    }

    /// Removes it, so that clients see at once that nobody listens.
    pub(crate) fn remove(self) {
        // Gone already, or it stays as an orphan that the next daemon removes.
        rustix::fs::unlinkat(&self.place.directory, &self.place.name, AtFlags::empty()).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use axum::serve::Listener as _;

    use super::*;

    #[tokio::test]
    async fn a_long_path_is_bound_privately_and_a_dead_socket_replaced() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("s.sock");
        drop(Socket::bind(&path).unwrap());
        let (mut socket, file) = Socket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let directory = std::fs::File::open(&deep).unwrap();
        let client = socket::connect(directory.as_fd(), "s.sock").unwrap();
        drop(socket.accept().await);
        drop(client);
        file.remove();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_deleted_socket_is_noticed_and_bound_again() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("s.sock");
        let (mut socket, mut file) = Socket::bind(&path).unwrap();
        let directory = std::fs::File::open(root.path()).unwrap();
        for _ in 0..2 {
            std::fs::remove_file(&path).unwrap();
            file.lost().await;
            file.bind_again().await.unwrap();
            let client = socket::connect(directory.as_fd(), "s.sock").unwrap();
            drop(socket.accept().await);
            drop(client);
        }
    }

    #[tokio::test]
    async fn another_file_is_not_removed() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("s.sock");
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(Socket::bind(&path), Err(SocketError::Occupied { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    }
}
