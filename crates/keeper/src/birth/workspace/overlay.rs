//! The project below a layer that takes the changes.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use minimal_linux::mount::{Reach, clone_tree, map_ids};
use minimal_linux::overlay::{self, Layers, Marks};
use minimal_proto::ending::StartFault;
use minimal_proto::keeper::Missing;
use minimal_store::BoxDir;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::project::Project;
use super::{GIVE_PROJECT, owners};
use crate::birth::BirthError;
use crate::birth::own_files::make_directory;
use crate::users::Users;

/// Why there is no overlay.
#[derive(Debug)]
pub(in crate::birth) struct Refusal {
    why: String,
    /// The kernel's answer.
    pub(in crate::birth) errno: Option<i32>,
}

impl Refusal {
    fn new(what: &str, error: &io::Error) -> Self {
        Self { why: format!("{what}: {error}"), errno: error.raw_os_error() }
    }

    /// Whether it is that overlays do not go here, and not that something else went wrong: a full
    /// disk, say, which a copy would only make fuller.
    pub(super) fn is_about_overlays(&self) -> bool {
        // EINVAL: an upper on an overlay, ids that cannot be shown otherwise, locked mounts below.
        // ENODEV: no overlays in this kernel. ELOOP, EOPNOTSUPP, EPERM: by the kind of file system.
        const KINDS: [Errno; 6] =
            [Errno::INVAL, Errno::NODEV, Errno::LOOP, Errno::OPNOTSUPP, Errno::PERM, Errno::NOSYS];
        self.errno.is_some_and(|errno| KINDS.iter().any(|kind| kind.raw_os_error() == errno))
    }

    /// The start fails with it.
    pub(super) fn into_error(self, project: &Path) -> BirthError {
        BirthError {
            fault: StartFault::Other,
            step: GIVE_PROJECT.to_owned(),
            message: format!(
                "cannot lay the box's changes over the project {}: {self}",
                project.display()
            ),
            errno: self.errno,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

pub(super) fn make(
    project: &Project,
    (upper_name, work_name): (&str, &str),
    box_dir: &BoxDir,
    users: Users,
) -> Result<OwnedFd, Refusal> {
    let lower =
        clone_tree(project.fd(), Path::new(""), Reach::One).map_err(|error| {
            match project.mounts_below.first() {
                Some(mount) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    Refusal {
                        why: format!(
                            "`{}` is mounted below it, and without root that cannot be left out",
                            mount.display()
                        ),
                        errno: error.raw_os_error(),
                    }
                }
                _ => Refusal::new("it cannot be a layer", &error),
            }
        })?;
    if let Some(map) = owners::everyone(project, users)
        .map_err(|error| Refusal::new("no map of its owners can be made", &error))?
    {
        map_ids(lower.as_fd(), map.as_fd(), Reach::One).map_err(|error| {
            Refusal::new("its file system cannot show its files as the box's user's", &error)
        })?;
    }
    let layers = || -> io::Result<[OwnedFd; 3]> {
        make_upper(project, upper_name, box_dir, users)?;
        make_directory(box_dir.dir_fd(), work_name, 0o700, users)?;
        // Beneath a mount of its own, so that the options of the overlay do not tell the box where
        // on the host its directory is.
        let own = clone_tree(box_dir.dir_fd(), Path::new("fs"), Reach::One)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let layer = |name: &str| {
            rustix::fs::openat(&own, name.trim_start_matches("fs/"), flags, Mode::empty())
        };
        let (upper, work) = (layer(upper_name)?, layer(work_name)?);
        Ok([upper, work, own])
    };
    // The last is only kept: a detached mount that nobody holds is taken apart, and its directories
    // are then no layers any more.
    let [upper, work, _own] =
        layers().map_err(|error| Refusal::new("its layer cannot be made", &error))?;
    let layers = Layers { lowers: &[lower.as_fd()], upper: upper.as_fd(), work: work.as_fd() };
    let marks = match users {
        Users::Range { .. } => Marks::Trusted,
        Users::Subordinate | Users::Single => Marks::User,
    };
    overlay::new(layers, marks)
        .map_err(|error| Refusal { why: error.to_string(), errno: Some(error.errno) })
}

/// The upper's root is what the box sees as the project's: who may enter it, and how old it is.
fn make_upper(project: &Project, upper: &str, box_dir: &BoxDir, users: Users) -> io::Result<()> {
    let is_new = make_directory(box_dir.dir_fd(), upper, project.stat.st_mode & 0o7777, users)?;
    if is_new {
        let time = super::times(&project.stat);
        rustix::fs::utimensat(box_dir.dir_fd(), upper, &time, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// What is mounted below a layer is none of it: there are empty directories.
pub(super) fn what_is_missing(project: &Project) -> Option<Missing> {
    super::mounts::not_shown(&project.mounts_below)
}
