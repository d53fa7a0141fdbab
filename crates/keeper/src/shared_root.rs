//! The root that all boxes share: assembled once by the nursery, copied for each box.
//!
//! A copy is a mount of the same files, so it costs microseconds and no memory. What can change
//! between boxes is mounted over it, and the root itself is read-only.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use minimal_linux::mount::{Reach, clone_tree};
use minimal_linux::namespaces::{self, IdRange};

use crate::assemble::{Assembly, LeftOut};
use crate::etc::Accounts;
use crate::limits::HostLimits;
use crate::plan::shared_root;
use crate::policy::Filters;
use crate::system_lowers::SystemLowers;
use crate::users::Users;

/// The directory of the state directory that the root is attached at, in the nursery's mount
/// namespace only.
const PLACE: &str = "root";

/// The shared root, as the nursery and its keepers see it.
#[derive(Debug)]
pub(crate) struct SharedRoot {
    place: PathBuf,
    /// What the host does not allow or have.
    pub(crate) left_out: LeftOut,
    /// Who the users of boxes are.
    pub(crate) users: Users,
    /// Whom boxes know by name.
    pub(crate) accounts: Accounts,
    /// The uid map of boxes, in ids of the host.
    pub(crate) uid_map: Vec<IdRange>,
    /// What layers of a box's root can be laid over.
    pub(crate) lowers: SystemLowers,
    /// What their processes may not ask of the kernel.
    pub(crate) filters: Filters,
    /// What they may use of the machine.
    pub(crate) limits: HostLimits,
}

impl SharedRoot {
    /// Assembles it. `lack` says why boxes have one user only, if they have. Before, the mount
    /// namespace must have been cut off from the host's.
    ///
    /// # Errors
    /// The step that failed, in words, and why.
    pub(crate) fn assemble(
        state_dir: &Path,
        users: Users,
        lack: Option<&str>,
    ) -> Result<Self, (String, io::Error)> {
        let filters = Filters::new()
            .map_err(|error| ("read the system call policy".to_owned(), io::Error::other(error)))?;
        let place = state_dir.join(PLACE);
        match std::fs::DirBuilder::new().mode(0o700).create(&place) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err((format!("make the directory {}", place.display()), error)),
        }
        // Everyone in a box may look at what is made here; nobody else reaches the place.
        let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        let mut assembly = Assembly::shared(&place, users.root());
        for step in shared_root() {
            assembly.take(&step).map_err(|error| (step.to_string(), error))?;
        }
        rustix::process::umask(before);
        let accounts = assembly.take_accounts().unwrap_or_default();
        let (mut left_out, _) = assembly.into_parts();
        let limits = HostLimits::find(state_dir);
        left_out.extend(lack.map(|why| ("subordinate_ids".to_owned(), why.to_owned())));
        let own = namespaces::own_uid_map()
            .map_err(|error| ("read our own uid map".to_owned(), error))?;
        let uid_map = users.map_on_the_host(&own);
        let lowers = SystemLowers::find(users, &place);
        Ok(Self { place, left_out, users, uid_map, accounts, lowers, filters, limits })
    }

    /// The state directory.
    pub(crate) fn state_dir(&self) -> &Path {
        self.place.parent().unwrap_or(&self.place)
    }

    /// A detached copy for one box. Only a process in the nursery's mount namespace can make it.
    ///
    /// # Errors
    /// What open_tree(2) says.
    pub(crate) fn copy(&self) -> io::Result<OwnedFd> {
        clone_tree(rustix::fs::CWD, &self.place, Reach::Recursive)
    }
}
