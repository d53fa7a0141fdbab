//! Files and directories of the host that a spec asks for by name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use minimal_proto::api::{FileId, HostFile};
use minimal_proto::ending::StartFault;
use minimal_proto::keeper::Missing;
use minimal_proto::spec::MountMode;
use minimal_store::BoxDir;
use rustix::fs::FileType;

use super::workspace::{self, Project};
use super::{BirthError, on_host};
use crate::shown::Shown;
use crate::users::Users;

/// What is attempted, in messages.
const WHAT: &str = "show a file of the host to the box";

/// Where nothing is a file: what the kernel makes up about the host.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Except here.
const MEMORY: &str = "/dev/shm";

/// A mount that was made.
#[derive(Debug)]
pub(super) struct Made {
    /// Detached.
    pub(super) mount: OwnedFd,
    /// What is not as one would expect of it.
    pub(super) missing: Option<Missing>,
}

/// Makes one mount. `meant` is what whoever made the box has found.
pub(super) fn make(
    shown: &Shown,
    meant: Option<&HostFile>,
    box_dir: &BoxDir,
    users: Users,
) -> Result<Made, BirthError> {
    let path = match meant {
        Some(meant) => PathBuf::from(meant.path.as_os_str()),
        None => find(&shown.source, WHAT)?,
    };
    let source = open(&path, meant.and_then(|meant| meant.file), box_dir, WHAT)?;
    let kind = FileType::from_raw_mode(source.stat.st_mode);
    let refused = |why: String, errno| refused(WHAT, &path, &why, errno);
    match shown.mode {
        MountMode::Ro => {
            let (mount, missing) = workspace::show(&source, users, WHAT)?;
            Ok(Made { mount, missing })
        }
        MountMode::Rw => Ok(Made { mount: workspace::bind(&source, users, WHAT)?, missing: None }),
        MountMode::Overlay if kind != FileType::Directory => {
            let why = "it is a file, and only a directory can have a layer over it: use `ro`, or `patches` \
                       for a copy";
            Err(refused(why.to_owned(), None))
        }
        MountMode::Overlay => {
            // By place, which the order of mounts does not change in a further life.
            let name = |part| format!("fs/mount-{}-{part}", shown.index);
            let mount =
                workspace::lay_over(&source, (&name("upper"), &name("work")), box_dir, users)
                    .map_err(|refusal| {
                        let why = format!("the box's changes cannot be laid over it: {refusal}");
                        refused(why, refusal.errno)
                    })?;
            let missing = source.mounts_below.first().map(|mount| Missing {
                what: "mount_mounts".to_owned(),
                why: format!(
                    "what is mounted at `{}` is not part of `{}`, and the box does not see it",
                    mount.display(),
                    source.path.display()
                ),
            });
            Ok(Made { mount, missing })
        }
    }
}

fn refused(what: &str, path: &Path, why: &str, errno: Option<i32>) -> BirthError {
    BirthError {
        fault: StartFault::Other,
        step: what.to_owned(),
        message: format!("cannot {what}: {}: {why}", path.display()),
        errno,
    }
}

/// Holds a file or directory of the host open that a spec asks for. `what` is attempted, in messages.
pub(super) fn open(
    path: &Path,
    meant: Option<FileId>,
    box_dir: &BoxDir,
    what: &str,
) -> Result<Project, BirthError> {
    let refused = |why: &str| refused(what, path, why, None);
    on_host::check_no_state(path, box_dir).map_err(|error| refused(&error.to_string()))?;
    if KERNEL.iter().any(|kernel| path.starts_with(kernel)) && !path.starts_with(MEMORY) {
        return Err(refused("it is the kernel's and no file of the host"));
    }
    let source = Project::open_source(path, meant, what)?;
    let special = match FileType::from_raw_mode(source.stat.st_mode) {
        FileType::Directory | FileType::RegularFile => return Ok(source),
        FileType::Socket => "a socket",
        FileType::Fifo => "a named pipe",
        FileType::BlockDevice | FileType::CharacterDevice => "a device",
        FileType::Symlink | FileType::Unknown => "neither a file nor a directory",
    };
    Err(refused(&format!("it is {special}, and a box is given files and directories only")))
}

/// Where a source is that nobody has looked for yet.
pub(super) fn find(written: &Path, what: &str) -> Result<PathBuf, BirthError> {
    let failed = workspace::about(what, written);
    let path = on_host::at_home(written).map_err(&failed)?;
    if !path.is_absolute() {
        return Err(failed(io::Error::other("it is relative to a project, and there is none")));
    }
    if !workspace::mounts_around(&path).map_err(&failed)?.local {
        workspace::look_at(&path).map_err(&failed)?;
    }
    path.canonicalize().map_err(failed)
}
