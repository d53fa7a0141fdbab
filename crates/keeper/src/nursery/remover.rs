//! Deleting what the daemon has no right to.
//!
//! What a box's users wrote belongs to their ids. For the daemon of an ordinary user those are
//! strangers; in the nursery's user namespace they are not. So a child of the nursery deletes a box
//! that the daemon could not, and the nursery itself goes on making keepers.

use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_linux::{Child, fds, signals, title};
use minimal_proto::error::Chain;
use minimal_proto::{BoxId, Signal};
use minimal_store::StateDir;
use serde::{Deserialize, Serialize};

/// Begins a request to delete; a box id follows.
const WORD: &str = "remove ";

/// What became of it, sent when it is over.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Removed {
    /// Why not all of it could be deleted.
    pub(super) error: Option<String>,
}

/// The request to delete a box.
pub(super) fn request(id: BoxId) -> String {
    format!("{WORD}{id}")
}

/// The box that a message asks to delete, if it is such a request.
pub(super) fn asked_for(message: &[u8]) -> Option<BoxId> {
    std::str::from_utf8(message).ok()?.strip_prefix(WORD)?.parse().ok()
}

/// Starts to delete a box that was moved out of the boxes. The answer goes to `connection`, when it
/// is over; a connection that ends without one says that the process was killed. What it leaves
/// then, the next daemon goes on with. Returns it.
///
/// # Errors
/// What clone3(2) says.
pub(super) fn start(id: BoxId, connection: BorrowedFd<'_>, state_dir: &Path) -> io::Result<Child> {
    match fork()? {
        Forked::Child => {
            let status = delete(id, connection, state_dir);
            exit_now(i32::from(status.is_err()))
        }
        Forked::Parent(child) => Ok(child),
    }
}

fn delete(id: BoxId, connection: BorrowedFd<'_>, state_dir: &Path) -> io::Result<()> {
    // The daemon's socket must not be held open here: the nursery's end would not show.
    fds::close_all_except(&[connection])?;
    signals::restore_default(Signal::CHLD);
    rustix::process::setsid()?;
    title::set(&format!("min-remover {id}")).ok();
    let outcome = StateDir::open(state_dir)
        .map_err(|error| Chain(&error).to_string())
        .and_then(|state| state.remove_condemned(id).map_err(|error| Chain(&error).to_string()));
    let answer = serde_json::to_vec(&Removed { error: outcome.err() }).map_err(io::Error::from)?;
    // Without a daemon there is nobody to tell.
    UnixStream::from(connection.try_clone_to_owned()?).write_all(&answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_request_names_a_box() {
        let id: BoxId = "01909a30-0000-7000-8000-0000deadbeef".parse().unwrap();
        assert_eq!(asked_for(request(id).as_bytes()), Some(id));
        for other in [id.to_string().as_str(), "remove ", "remove ../boxes", "remove"] {
            assert_eq!(asked_for(other.as_bytes()), None, "{other}");
        }
    }
}
