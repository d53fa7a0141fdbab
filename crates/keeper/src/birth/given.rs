//! The directories that are handed to a box as mounts: made by the keeper, who may look where the
//! box's users may not.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_linux::mount::{Reach, Restrictions, clone_tree, map_ids, restrict};
use minimal_linux::namespaces::{IdRange, map_only};
use minimal_proto::Signal;
use minimal_store::BoxDir;
use rustix::fs::{Gid, Mode, Uid};

use super::{BirthError, at, readable_before};
use crate::assemble::GivenMounts;
use crate::plan::{Given, Plan, Step};
use crate::users::Users;

/// How long the project's directory may take to answer.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

/// Makes the mounts for every [`Step::Give`] of a plan.
pub(super) fn prepare(
    plan: &Plan,
    box_dir: &BoxDir,
    users: Users,
) -> Result<GivenMounts, BirthError> {
    let mut mounts = Vec::new();
    for step in &plan.steps {
        let Step::Give(given, _) = step else { continue };
        let mount = match (given.own_directory(), &plan.project) {
            (Some(name), _) => {
                own(*given, name, box_dir, users).map_err(at("make the box's own directories"))?
            }
            (None, Some(project)) => self::project(project, users)?,
            (None, None) => continue,
        };
        mounts.push((*given, mount));
    }
    Ok(mounts)
}

fn own(given: Given, name: &str, box_dir: &BoxDir, users: Users) -> io::Result<OwnedFd> {
    let mode = match given {
        Given::Tmp => 0o1777,
        Given::Home => 0o700,
        Given::Workbench | Given::Project => 0o755,
    };
    let path = Path::new("fs").join(name);
    // A further life finds them as the last one left them.
    match rustix::fs::mkdirat(box_dir.dir_fd(), &path, Mode::from_raw_mode(0o700)) {
        Ok(()) => {
            // mkdir's mode is cut by the umask.
            rustix::fs::chmodat(
                box_dir.dir_fd(),
                &path,
                Mode::from_raw_mode(mode),
                rustix::fs::AtFlags::empty(),
            )?;
            if let Users::Range { .. } = users {
                rustix::fs::chownat(
                    box_dir.dir_fd(),
                    &path,
                    Some(Uid::from_raw(users.owner())),
                    Some(Gid::from_raw(users.owner())),
                    rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
                )?;
            }
        }
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let mount = clone_tree(box_dir.dir_fd(), &path, Reach::One)?;
    restrict(mount.as_fd(), Restrictions::OWN, Reach::One)?;
    Ok(mount)
}

fn project(project: &Path, users: Users) -> Result<OwnedFd, BirthError> {
    let step = "give the project to the box";
    let failed = |error: &io::Error| BirthError {
        message: format!("cannot {step}: {}: {error}", project.display()),
        ..BirthError::new(step, error)
    };
    look_at(project).map_err(|error| failed(&error))?;
    let metadata = project.metadata().map_err(|error| failed(&error))?;
    if !metadata.is_dir() {
        return Err(failed(&io::Error::from(io::ErrorKind::NotADirectory)));
    }
    match users {
        Users::Single => mount_of(project, None).map_err(|error| failed(&error)),
        Users::Range { .. } => {
            // The project's owner on disk is the box's user inside, and the other way round.
            let one = |inside| [IdRange { inside, outside: users.owner(), count: 1 }];
            let map = map_only(&one(metadata.uid()), &one(metadata.gid()))
                .map_err(at("make a map from the project's owner to the box's user"))?;
            mount_of(project, Some(map.as_fd())).map_err(|error| failed(&error))
        }
    }
}

/// Looks at a directory from a child of ours first: one on a dead network mount never answers, and
/// who waits for it cannot even be killed.
fn look_at(directory: &Path) -> io::Result<()> {
    match fork()? {
        Forked::Child => {
            // How it ends says only that it ends: the keeper asks again.
            directory.metadata().ok();
            exit_now(0)
        }
        Forked::Parent(mut child) => {
            if !readable_before(child.as_fd(), Instant::now() + LOOK_LIMIT)? {
                // Left behind: it ends when the mount answers.
                child.signal(Signal::KILL)?;
                return Err(io::Error::other("it does not answer; is it on a dead network mount?"));
            }
            child.reap().map(drop)
        }
    }
}

fn mount_of(path: &Path, map: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let attempt = |reach| -> io::Result<OwnedFd> {
        let mount = clone_tree(rustix::fs::CWD, path, reach)?;
        if let Some(map) = map {
            map_ids(mount.as_fd(), map, reach)?;
        }
        restrict(mount.as_fd(), Restrictions::OWN, reach)?;
        Ok(mount)
    };
    // With what is mounted below, unless that cannot be shown with other owners.
    attempt(Reach::Recursive).or_else(|error| match error.raw_os_error() {
        Some(libc_einval) if libc_einval == rustix::io::Errno::INVAL.raw_os_error() => {
            attempt(Reach::One)
        }
        _ => Err(error),
    })
}
