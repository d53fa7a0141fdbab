//! The project itself, read-write.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use minimal_linux::mount::{Reach, Restrictions, clone_tree, map_ids, restrict};
use minimal_proto::keeper::Missing;
use rustix::fs::StatVfsMountFlags;
use rustix::io::Errno;

use super::project::Project;
use super::{about, owners};
use crate::birth::BirthError;
use crate::users::Users;

pub(super) fn make(project: &Project, users: Users) -> Result<OwnedFd, BirthError> {
    let failed = about(&project.path);
    let map = owners::owner_only(project, users).map_err(&failed)?;
    let attempt = |reach| -> io::Result<OwnedFd> {
        let mount = clone_tree(project.fd(), Path::new(""), reach)?;
        if let Some(map) = &map {
            map_ids(mount.as_fd(), map.as_fd(), reach)?;
        }
        restrict(mount.as_fd(), Restrictions::OWN, reach)?;
        Ok(mount)
    };
    // With what is mounted below, unless that cannot be shown with other owners.
    attempt(Reach::Recursive)
        .or_else(|error| match error.raw_os_error() {
            Some(errno) if errno == Errno::INVAL.raw_os_error() => attempt(Reach::One),
            _ => Err(error),
        })
        .map_err(failed)
}

/// A project that nobody can write to is one in the box too.
pub(super) fn what_is_missing(project: &Project) -> Option<Missing> {
    let read_only = rustix::fs::fstatvfs(project.fd())
        .is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY));
    read_only.then(|| Missing {
        what: "workspace_write".to_owned(),
        why: format!("`{}` is on a file system that is mounted read-only", project.path.display()),
    })
}
