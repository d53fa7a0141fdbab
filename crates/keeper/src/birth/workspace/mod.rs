//! The workspace: what of the caller's project a box gets, and in which way.
//!
//! ```text
//! overlay ──cannot be, and is not required──▶ copy
//! bind
//! ```
//!
//! The keeper makes it as one detached mount, since it may look where the box's users may not, and
//! says what came of it: which kind it is in the end, and what is not as one would expect.

mod bind;
mod child;
mod copy;
mod mounts;
mod overlay;
mod owners;
mod patches;
mod project;
mod report;
mod tree;

pub(super) use mounts::around as mounts_around;
pub(super) use overlay::Refusal;
pub(crate) use owners::make_common_maps;
pub(super) use patches::{Target, copy_all};
pub(super) use project::{Project, look_at};

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use minimal_linux::mount::{Reach, Restrictions, clone_tree, restrict};
use minimal_proto::api::FileId;
use minimal_proto::keeper::Missing;
use minimal_proto::spec::Workspace;
use minimal_store::BoxDir;
use rustix::fs::{Nsecs, Stat, Timespec, Timestamps};

use super::{BirthError, at};
use crate::limits::Cgroups;
use crate::peers::Peers;
use crate::users::Users;

/// What is attempted, in messages.
const GIVE_PROJECT: &str = "give the project to the box";

/// Which directories below `fs/` of the box directory a workspace uses. A further life of the box
/// goes on with what is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    upper: &'static str,
    work: &'static str,
    copy: &'static str,
    /// A copy that is not complete. Only then is it renamed.
    copying: &'static str,
}

/// For the project.
pub(crate) const PROJECT: Place =
    Place { upper: "fs/upper", work: "fs/work", copy: "fs/copy", copying: "fs/copying" };

/// For the repository that the project is a worktree of.
pub(crate) const REPOSITORY: Place = Place {
    upper: "fs/repository-upper",
    work: "fs/repository-work",
    copy: "fs/repository-copy",
    copying: "fs/repository-copying",
};

/// What a keeper has to do with while something takes long.
pub(crate) struct Meanwhile<'a> {
    /// They are answered.
    pub(crate) peers: &'a mut Peers,
    /// They are left.
    pub(crate) cgroups: &'a Cgroups,
}

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    /// A directory of the host, absolute and without symbolic links.
    pub(crate) source: &'a Path,
    /// Which one, if whoever made the box said.
    pub(crate) meant: Option<FileId>,
    /// In which way: anything but none.
    pub(crate) kind: Workspace,
    /// Whether this way only.
    pub(crate) required: bool,
    /// Where the box keeps its part.
    pub(crate) place: Place,
    /// What a copy leaves out.
    pub(crate) exclude: &'a [String],
}

/// The host's own, read-write.
pub(super) use bind::make as bind;
/// What the host has is shown, read-only: whoever else than its owner has a file there has it in the
/// box too, if that has them.
pub(super) use bind::read_only as show;

/// A layer of the box's own over what the host has.
pub(super) fn lay_over(
    source: &Project,
    layer: (&str, &str),
    box_dir: &BoxDir,
    users: Users,
) -> Result<OwnedFd, Refusal> {
    overlay::make(source, layer, box_dir, users)
}

/// A workspace that was made.
#[derive(Debug)]
pub(crate) struct Made {
    /// Detached.
    pub(crate) mount: OwnedFd,
    /// What it is in the end.
    pub(crate) kind: Workspace,
    /// What is not as one would expect of it.
    pub(crate) missing: Vec<Missing>,
}

/// Makes a workspace. While it is copied, which takes as long as it takes, the daemon is
/// answered.
pub(crate) fn make(
    wish: &Wish<'_>,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Made, BirthError> {
    let project = Project::open(wish.source, wish.meant, GIVE_PROJECT)?;
    let mut missing: Vec<Missing> = owners::strangers(&project, users).into_iter().collect();
    let (mount, kind) = match wish.kind {
        Workspace::Bind => {
            missing.extend(bind::what_is_missing(&project));
            (bind::make(&project, users, GIVE_PROJECT)?, Workspace::Bind)
        }
        Workspace::Copy => {
            let (mount, left_out) = copy::make(&project, wish, box_dir, users, meanwhile)?;
            missing.extend(left_out);
            (mount, Workspace::Copy)
        }
        Workspace::Overlay | Workspace::None => {
            // A life that had to copy goes on with its copy.
            let laid = match has(box_dir, wish.place.copy) {
                true => Err(None),
                false => {
                    overlay::make(&project, (wish.place.upper, wish.place.work), box_dir, users)
                        .map_err(Some)
                }
            };
            match laid {
                Ok(mount) => {
                    missing.extend(overlay::what_is_missing(&project));
                    (mount, Workspace::Overlay)
                }
                Err(Some(refusal)) if wish.required || !refusal.is_about_overlays() => {
                    return Err(refusal.into_error(wish.source));
                }
                Err(refusal) => {
                    missing.extend(refusal.map(|refusal| Missing {
                        what: "workspace_overlay".to_owned(),
                        why: format!(
                            "an overlay cannot be laid over `{}`, so the box has a copy of it: {refusal}",
                            wish.source.display()
                        ),
                    }));
                    let (mount, left_out) = copy::make(&project, wish, box_dir, users, meanwhile)?;
                    missing.extend(left_out);
                    (mount, Workspace::Copy)
                }
            }
        }
    };
    Ok(Made { mount, kind, missing })
}

/// The times of a file, to give them to another.
fn times(stat: &Stat) -> Timestamps {
    // stat(2) and utimensat(2) count nanoseconds in integers of different kinds, by architecture.
    fn nanoseconds(count: impl TryInto<Nsecs>) -> Nsecs {
        count.try_into().unwrap_or(0)
    }
    Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: nanoseconds(stat.st_atime_nsec) },
        last_modification: Timespec {
            tv_sec: stat.st_mtime,
            tv_nsec: nanoseconds(stat.st_mtime_nsec),
        },
    }
}

fn has(box_dir: &BoxDir, name: &str) -> bool {
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statat(box_dir.dir_fd(), name, flags).is_ok()
}

/// A directory of the box directory as a detached mount for the box to write to.
pub(super) fn own_mount(box_dir: &BoxDir, name: &str) -> io::Result<OwnedFd> {
    let mount = clone_tree(box_dir.dir_fd(), Path::new(name), Reach::One)?;
    restrict(mount.as_fd(), Restrictions::OWN, Reach::One)?;
    Ok(mount)
}

/// Names what was attempted, and on what of the host's, in what went wrong with it.
pub(super) fn about<'a>(what: &'a str, path: &'a Path) -> impl Fn(io::Error) -> BirthError + 'a {
    move |error| BirthError {
        message: format!("cannot {what}: {}: {error}", path.display()),
        ..BirthError::new(what, &error)
    }
}

fn removed(box_dir: &BoxDir, name: &str) -> Result<(), BirthError> {
    let fs = box_dir.dir_fd();
    minimal_store::remove::remove_tree(fs, std::ffi::OsStr::new(name))
        .map_err(|error| io::Error::other(minimal_proto::error::Chain(&error).to_string()))
        .map_err(at("remove an unfinished copy"))
}
