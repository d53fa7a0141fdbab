//! The directories that are handed to a box as mounts: made by the keeper, who may look where the
//! box's users may not.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_linux::mount::{Reach, Restrictions, clone_tree, map_ids, restrict};
use minimal_linux::namespaces::{IdRange, map_only};
use minimal_linux::overlay::{self, Layers, Marks};
use minimal_proto::Signal;
use minimal_proto::ending::StartFault;
use minimal_store::BoxDir;
use rustix::fs::{Mode, OFlags};

use super::own_files::{self, make_directory};
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
        let mount = match (given, &plan.project) {
            (Given::Project, Some(project)) => project_itself(project, users)?,
            (Given::ProjectBelow, Some(project)) => project_below(project, box_dir, users)?,
            (Given::RootHome, _) => own_files::root_home(box_dir, users)
                .map_err(at("make the home of the box's root"))?,
            // What every box has is made with it (`own_files`).
            (_, None) | (Given::Workbench | Given::Home | Given::Tmp, _) => continue,
        };
        mounts.push((*given, mount));
    }
    Ok(mounts)
}

const GIVE_PROJECT: &str = "give the project to the box";

/// Names the project in what went wrong with it.
fn about(project: &Path) -> impl Fn(io::Error) -> BirthError {
    move |error| BirthError {
        message: format!("cannot {GIVE_PROJECT}: {}: {error}", project.display()),
        ..BirthError::new(GIVE_PROJECT, &error)
    }
}

fn project_itself(project: &Path, users: Users) -> Result<OwnedFd, BirthError> {
    let failed = about(project);
    let owners = owners(project).map_err(&failed)?;
    let map = owner_map(owners, users)?;
    let attempt = |reach| -> io::Result<OwnedFd> {
        let mount = clone_tree(rustix::fs::CWD, project, reach)?;
        if let Some(map) = &map {
            map_ids(mount.as_fd(), map.as_fd(), reach)?;
        }
        restrict(mount.as_fd(), Restrictions::OWN, reach)?;
        Ok(mount)
    };
    // With what is mounted below, unless that cannot be shown with other owners.
    attempt(Reach::Recursive)
        .or_else(|error| match error.raw_os_error() {
            Some(errno) if errno == INVALID => attempt(Reach::One),
            _ => Err(error),
        })
        .map_err(failed)
}

/// `EINVAL`, by which the kernel says that a kind of mount does not go.
const INVALID: i32 = rustix::io::Errno::INVAL.raw_os_error();

fn project_below(project: &Path, box_dir: &BoxDir, users: Users) -> Result<OwnedFd, BirthError> {
    let failed = about(project);
    let owners = owners(project).map_err(&failed)?;
    let map = owner_map(owners, users)?;
    let layers = || -> io::Result<[OwnedFd; 4]> {
        let lower = clone_tree(rustix::fs::CWD, project, Reach::One)?;
        if let Some(map) = &map {
            map_ids(lower.as_fd(), map.as_fd(), Reach::One)?;
        }
        // The upper's root is what the box sees as the project's.
        make_directory(box_dir.dir_fd(), "fs/upper", owners.mode & 0o7777, users)?;
        make_directory(box_dir.dir_fd(), "fs/work", 0o700, users)?;
        // Beneath a mount of its own, so that the options of the overlay do not tell the box where
        // on the host its directory is.
        let own = clone_tree(box_dir.dir_fd(), Path::new("fs"), Reach::One)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let layer = |name| rustix::fs::openat(&own, name, flags, Mode::empty());
        let (upper, work) = (layer("upper")?, layer("work")?);
        Ok([lower, upper, work, own])
    };
    // The last is only kept: a detached mount that nobody holds is taken apart, and its directories
    // are then no layers any more.
    let [lower, upper, work, _own] = layers().map_err(&failed)?;
    let layers = Layers { lower: lower.as_fd(), upper: upper.as_fd(), work: work.as_fd() };
    let marks = match users {
        Users::Range { .. } => Marks::Trusted,
        Users::Subordinate | Users::Single => Marks::User,
    };
    overlay::new(layers, marks).map_err(|error| BirthError {
        fault: StartFault::Other,
        step: GIVE_PROJECT.to_owned(),
        message: format!(
            "cannot lay the box's changes over the project {}: {error}",
            project.display()
        ),
        errno: Some(error.errno),
    })
}

/// Who owns the project, and how it may be entered.
#[derive(Clone, Copy)]
struct Owners {
    uid: u32,
    gid: u32,
    mode: u32,
}

fn owners(project: &Path) -> io::Result<Owners> {
    look_at(project)?;
    let metadata = project.metadata()?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(Owners { uid: metadata.uid(), gid: metadata.gid(), mode: metadata.mode() })
}

/// By which the project's owner on disk is the box's user inside, and the other way round. An
/// ordinary user's box needs none: the caller is the box's user already.
fn owner_map(owners: Owners, users: Users) -> Result<Option<OwnedFd>, BirthError> {
    match users {
        Users::Subordinate | Users::Single => Ok(None),
        Users::Range { .. } => {
            let one = |inside| [IdRange { inside, outside: users.owner(), count: 1 }];
            map_only(&one(owners.uid), &one(owners.gid))
                .map(Some)
                .map_err(at("make a map from the project's owner to the box's user"))
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
