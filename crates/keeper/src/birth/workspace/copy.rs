//! A copy of the project, in the box's directory.
//!
//! It is made beside its place and renamed, so that a copy that is there is whole.

use std::os::fd::{AsFd as _, OwnedFd};

use minimal_proto::keeper::Missing;
use minimal_store::BoxDir;
use rustix::fs::OFlags;

use super::project::Project;
use super::report::Summary;
use super::tree::Copier;
use super::{Meanwhile, Wish, child, has, mounts, own_mount, removed};
use crate::birth::own_files::make_directory;
use crate::birth::{BirthError, at};
use crate::users::Users;

/// What is attempted, in messages.
const COPY: &str = "copy the project into the box";
/// What goes on meanwhile.
const DOING: &str = "the project was being copied";

/// Makes it, or finds the one of an earlier life. Also returns what it lacks.
pub(super) fn make(
    project: &Project,
    wish: &Wish<'_>,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<(OwnedFd, Vec<Missing>), BirthError> {
    let place = wish.place;
    let mut missing = Vec::new();
    if !has(box_dir, place.copy) {
        // Of a life that was killed over it.
        removed(box_dir, place.copying)?;
        match copy(project, wish, box_dir, users, meanwhile) {
            Ok(summary) => missing.extend(summary.missing("workspace_copy")),
            Err(error) => {
                // What is of no use to anyone must not fill the disk. That it cannot be removed
                // comes second to why there is no copy, and it goes with the box.
                removed(box_dir, place.copying).ok();
                return Err(error);
            }
        }
        let dir = box_dir.dir_fd();
        rustix::fs::renameat(dir, place.copying, dir, place.copy)
            .map_err(|errno| at(COPY)(errno.into()))?;
        missing.extend(mounts::not_shown(&project.mounts_below));
    }
    let mount = own_mount(box_dir, place.copy).map_err(at("give the copied project to the box"))?;
    Ok((mount, missing))
}

fn copy(
    project: &Project,
    wish: &Wish<'_>,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Summary, BirthError> {
    let Wish { place, exclude, .. } = wish;
    make_directory(box_dir.dir_fd(), place.copying, 0o700, users).map_err(at(COPY))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target =
        rustix::fs::openat(box_dir.dir_fd(), place.copying, flags, rustix::fs::Mode::empty())
            .map_err(|errno| at(COPY)(errno.into()))?;
    let held = [target.as_fd(), project.fd()];
    child::copy((COPY, DOING), &held, meanwhile, || {
        Copier::new(users, exclude).copy(project, &target)
    })
}
