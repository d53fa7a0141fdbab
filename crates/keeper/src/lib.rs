//! One keeper for one running box.
//!
//! ```text
//! minimald ─▶ nursery ─fork─▶ keeper ─┬─ init (pid 1 in the box)
//!    ▲                          │     └─ entrypoint
//!    └── control connection ────┤
//!                               ▼ writes
//!                 journal, log  (the box directory)
//! ```
//!
//! The keeper is the kernel's parent of everything it starts in the box, so it alone says how the
//! box ended. It has one thread, needs no daemon, and reaches the disk before it reports. Start
//! reading at [`nursery`] (where keepers come from), then `keeper` (the loop), [`ladder`] (how a
//! box is brought to its end) and [`plan`] (what a box consists of).

#![forbid(unsafe_code)]

mod assemble;
mod birth;
mod control;
mod etc;
mod exec;
pub mod input;
mod keeper;
mod keeper_log;
pub mod ladder;
mod limits;
pub mod nursery;
mod outputs;
mod peers;
pub mod plan;
mod policy;
mod process;
mod restarts;
mod room;
mod saving;
mod shared_root;
pub mod shown;
mod streams;
pub mod subordinate;
mod system_lowers;
mod timers;
mod users;
pub mod walls;
mod watch;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub use etc::is_in_public_etc;
pub use limits::{remove_cgroups_left_behind, thaw_left_behind};
pub use users::BOX_USER;

/// The name of a keeper's control socket in its box directory.
pub const SOCKET: &str = "keeper.sock";

/// Connects to the keeper of a box, whatever the depth of its directory.
///
/// # Errors
/// What connect(2) says: `ENOENT` before the keeper listens, `ECONNREFUSED` once it is gone.
pub fn connect(box_dir: &Path) -> io::Result<UnixStream> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(box_dir, flags, Mode::empty())?;
    minimal_linux::socket::connect(std::os::fd::AsFd::as_fd(&directory), SOCKET)
}
