//! Copies of single files and directories of the host, in what is the box's own.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::keeper::Missing;
use rustix::fs::{AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid};

use super::project::Project;
use super::report::{Report, Summary};
use super::tree::Copier;
use super::{Meanwhile, child};
use crate::birth::BirthError;

/// What is attempted, in messages.
const WHAT: &str = "copy files of the host into the box";
/// What goes on meanwhile.
const DOING: &str = "files of the host were being copied";

/// What is copied, and where to.
#[derive(Debug)]
pub(in crate::birth) struct Target {
    /// What.
    pub(in crate::birth) source: Project,
    /// One of the box's own directories.
    pub(in crate::birth) root: OwnedFd,
    /// Below it.
    pub(in crate::birth) path: PathBuf,
    /// Where that is in the box, for messages.
    pub(in crate::birth) dest: PathBuf,
    /// Who owns what is made; none: ourselves.
    pub(in crate::birth) owner: Option<u32>,
}

/// Copies them, in order: a later one takes the place of an earlier one. Returns what was left out.
pub(in crate::birth) fn copy_all(
    targets: &[Target],
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Vec<Missing>, BirthError> {
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let held: Vec<_> = targets.iter().flat_map(|it| [it.source.fd(), it.root.as_fd()]).collect();
    let summary = child::copy((WHAT, DOING), &held, meanwhile, || {
        let mut left_out = Summary::default();
        for target in targets {
            let mut copier = Copier::onto(target.owner);
            let copied = one(target, &mut copier);
            left_out.add(copier.into_summary());
            if let Err(error) = copied {
                let (source, dest) = (target.source.path.display(), target.dest.display());
                return Report::failed(&format!("{source} to {dest}"), &error, left_out);
            }
        }
        Report::Copied(left_out)
    })?;
    Ok(summary.missing("patches"))
}

fn one(target: &Target, copier: &mut Copier<'_>) -> io::Result<()> {
    let Some((parent, name)) = target.path.parent().zip(target.path.file_name()) else {
        // Of one of its own directories as a whole only what is in another can be a copy.
        return copier.into(&target.source, &target.root);
    };
    let parent = directory(&target.root, parent, target.owner)?;
    copier.one(&target.source, parent.as_fd(), &CString::new(name.as_bytes())?)
}

/// A directory below one of the box's own, made where there is none. No link is followed: what the
/// project holds decides nothing about where something is written.
fn directory(root: &OwnedFd, path: &Path, owner: Option<u32>) -> io::Result<OwnedFd> {
    let mut at = root.try_clone()?;
    for name in path {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::mkdirat(&at, name, Mode::RWXU) {
            Ok(()) => {
                if let Some(owner) = owner {
                    let (uid, gid) = (Some(Uid::from_raw(owner)), Some(Gid::from_raw(owner)));
                    rustix::fs::chownat(&at, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
                }
                rustix::fs::chmodat(&at, name, Mode::from_raw_mode(0o755), AtFlags::empty())?;
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        at = rustix::fs::openat2(&at, name, flags, Mode::empty(), resolve).map_err(|errno| {
            match errno {
                rustix::io::Errno::LOOP => {
                    io::Error::other("a symbolic link is on the way, and none is followed")
                }
                errno => errno.into(),
            }
        })?;
    }
    Ok(at)
}
