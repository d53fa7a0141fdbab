//! What the host has, itself: read-write with its owner's id only, or read-only.

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

/// Read-write.
pub(in crate::birth) fn make(
    source: &Project,
    users: Users,
    what: &str,
) -> Result<OwnedFd, BirthError> {
    let failed = about(what, &source.path);
    let map = owners::owner_only(source, users).map_err(&failed)?;
    mounted(source, map.as_ref(), Restrictions::OWN).map_err(failed)
}

/// Read-only. Also says what is not as one would expect: a file system that cannot show its files
/// with other owners shows them as nobody's.
pub(in crate::birth) fn read_only(
    source: &Project,
    users: Users,
    what: &str,
) -> Result<(OwnedFd, Option<Missing>), BirthError> {
    let failed = about(what, &source.path);
    let map = owners::everyone(source, users).map_err(&failed)?;
    match mounted(source, map.as_ref(), Restrictions::HOST) {
        Ok(mount) => Ok((mount, None)),
        Err(error) if map.is_some() && is_invalid(&error) => {
            let mount = mounted(source, None, Restrictions::HOST).map_err(failed)?;
            let why = format!(
                "the file system of `{}` cannot show its files as the box's user's: in the box they are \
                 nobody's, and what anybody may read can be read",
                source.path.display()
            );
            Ok((mount, Some(Missing { what: "mount_owners".to_owned(), why })))
        }
        Err(error) => Err(failed(error)),
    }
}

fn mounted(
    source: &Project,
    map: Option<&OwnedFd>,
    restrictions: Restrictions,
) -> io::Result<OwnedFd> {
    let attempt = |reach| -> io::Result<OwnedFd> {
        let mount = clone_tree(source.fd(), Path::new(""), reach)?;
        if let Some(map) = map {
            map_ids(mount.as_fd(), map.as_fd(), reach)?;
        }
        restrict(mount.as_fd(), restrictions, reach)?;
        Ok(mount)
    };
    // With what is mounted below, unless that cannot be shown with other owners.
    attempt(Reach::Recursive).or_else(|error| match is_invalid(&error) {
        true => attempt(Reach::One),
        false => Err(error),
    })
}

fn is_invalid(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
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
