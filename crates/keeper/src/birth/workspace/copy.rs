//! A copy of the project, in the box's directory.
//!
//! A process of its own copies, and its keeper waits: as long as it takes, answering the daemon, and
//! until somebody asks for a stop. It is made beside its place and renamed, so that a copy that is
//! there is whole.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_linux::{fds, title};
use minimal_proto::Signal;
use minimal_proto::ending::StartFault;
use minimal_proto::keeper::Missing;
use minimal_store::{BoxDir, hook};
use rustix::fs::OFlags;

use super::project::Project;
use super::report::{Report, Summary};
use super::tree::Copier;
use super::{Meanwhile, Place, has, mounts, own_mount, removed};
use crate::birth::own_files::make_directory;
use crate::birth::{BirthError, at, readable_before};
use crate::peers::Waited;
use crate::users::Users;

/// How long a copy that was killed may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// What is attempted, in messages.
const COPY: &str = "copy the project into the box";

/// Makes it, or finds the one of an earlier life. Also returns what it lacks.
pub(super) fn make(
    project: &Project,
    place: Place,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<(OwnedFd, Vec<Missing>), BirthError> {
    let mut missing = Vec::new();
    if !has(box_dir, place.copy) {
        // Of a life that was killed over it.
        removed(box_dir, place.copying)?;
        match copy(project, place, box_dir, users, meanwhile) {
            Ok(summary) => missing.extend(summary.missing()),
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
    place: Place,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Summary, BirthError> {
    hook::point("keeper.copy.before").map_err(at(COPY))?;
    make_directory(box_dir.dir_fd(), place.copying, 0o700, users).map_err(at(COPY))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target =
        rustix::fs::openat(box_dir.dir_fd(), place.copying, flags, rustix::fs::Mode::empty())
            .map_err(|errno| at(COPY)(errno.into()))?;
    let (mut said, say) = io::pipe().map_err(at(COPY))?;
    let keeper = rustix::process::getpid();
    let mut child = match fork().map_err(at(COPY))? {
        Forked::Child => {
            let say = std::fs::File::from(OwnedFd::from(say));
            let prepared = rustix::process::set_parent_process_death_signal(Some(
                rustix::process::Signal::KILL,
            ))
            .is_ok()
                // It may have died before we had asked to be told.
                && rustix::process::getppid() == Some(keeper)
                // Held by us, the daemon's connection would outlive the keeper.
                && fds::close_all_except(&[say.as_fd(), target.as_fd(), project.fd()]).is_ok();
            if prepared {
                title::set("min-copy").ok();
                // What it reads and writes stays in memory for a while, and would count as the
                // box's. Without that it is still right.
                meanwhile.cgroups.step_out().ok();
                let report = match hook::point("keeper.copy.copying") {
                    Ok(()) => Copier::new(users).copy(project, &target),
                    Err(error) => Report::failed("pass a fault point", &error, Summary::default()),
                };
                let report = serde_json::to_vec(&report).unwrap_or_default();
                // A keeper that is gone needs no report.
                (&say).write_all(&report).ok();
            }
            exit_now(0)
        }
        Forked::Parent(child) => child,
    };
    drop((say, target));
    let waited = meanwhile.peers.wait_for(child.as_fd()).map_err(at(COPY));
    if !matches!(waited, Ok(Waited::Ended)) {
        child.signal(Signal::KILL).map_err(at(COPY))?;
        // One that waits for a dead network mount is gone when that answers, which may be never: the
        // start has failed either way.
        if !readable_before(child.as_fd(), Instant::now() + KILL_LIMIT).map_err(at(COPY))? {
            let why = io::Error::other("it was stopped, and its file system does not answer");
            return Err(BirthError::new(COPY, &why));
        }
    }
    child.reap().map_err(at("wait for the copy of the project"))?;
    match waited? {
        Waited::Ended => {}
        Waited::Stopped => {
            return Err(BirthError {
                fault: StartFault::Other,
                step: COPY.to_owned(),
                message: "the box was stopped while the project was being copied; nothing was run"
                    .to_owned(),
                errno: None,
            });
        }
    }
    let mut report = Vec::new();
    said.read_to_end(&mut report).map_err(at(COPY))?;
    match serde_json::from_slice(&report) {
        Ok(Report::Copied(summary)) => {
            hook::point("keeper.copy.after").map_err(at(COPY))?;
            Ok(summary)
        }
        Ok(Report::Failed { what, errno, so_far }) => Err(BirthError {
            fault: StartFault::Other,
            step: COPY.to_owned(),
            message: format!(
                "cannot {COPY}: {what}, after {} files and directories with {} bytes",
                so_far.entries, so_far.bytes
            ),
            errno,
        }),
        Err(_) => Err(at(COPY)(io::Error::other("the process that copies was killed"))),
    }
}
