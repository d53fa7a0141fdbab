//! Files and directories of the host that a spec asks for by name.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use minimal_proto::api::HostFile;
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
        None => find(&shown.source)?,
    };
    let refused = |why: String, errno| BirthError {
        fault: StartFault::Other,
        step: WHAT.to_owned(),
        message: format!("cannot {WHAT}: {}: {why}", path.display()),
        errno,
    };
    on_host::check_no_state(&path, box_dir).map_err(|error| refused(error.to_string(), None))?;
    if KERNEL.iter().any(|kernel| path.starts_with(kernel)) && !path.starts_with(MEMORY) {
        return Err(refused("it is the kernel's and no file of the host".to_owned(), None));
    }
    let source = Project::open_source(&path, meant.and_then(|meant| meant.file), WHAT)?;
    let kind = FileType::from_raw_mode(source.stat.st_mode);
    let special = match kind {
        FileType::Directory | FileType::RegularFile => None,
        FileType::Socket => Some("a socket"),
        FileType::Fifo => Some("a named pipe"),
        FileType::BlockDevice | FileType::CharacterDevice => Some("a device"),
        FileType::Symlink | FileType::Unknown => Some("neither a file nor a directory"),
    };
    if let Some(special) = special {
        let why = format!("it is {special}, and a box is shown files and directories only");
        return Err(refused(why, None));
    }
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

/// Where a source is that nobody has looked for yet.
fn find(written: &Path) -> Result<PathBuf, BirthError> {
    let failed = workspace::about(WHAT, written);
    let path = on_host::at_home(written).map_err(&failed)?;
    if !path.is_absolute() {
        return Err(failed(io::Error::other("it is relative to a project, and there is none")));
    }
    if !workspace::mounts_around(&path).map_err(&failed)?.local {
        workspace::look_at(&path).map_err(&failed)?;
    }
    path.canonicalize().map_err(failed)
}
