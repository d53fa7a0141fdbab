//! Making the directory of a new box.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use minimal_proto::event::Created;
use minimal_proto::{BoxId, Event, EventData, Spec, Timestamp};
use rustix::io::Errno;

use super::{BOXES, NEW, StateDir};
use crate::box_dir::{BoxDir, BoxDirError, FILES, JOURNAL, LIFE_LOCK, LOG, MAX_SPEC, SPEC};
use crate::regular::{self, PRIVATE_DIR};
use crate::{hook, journal, remove};

/// A box's directory could not be made, and there is no such box.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The id is taken by a box that is there.
    #[error("make the box {id}: it exists")]
    Exists {
        /// The id.
        id: BoxId,
    },
    /// The spec is longer than any reader accepts.
    #[error("make the box {id}: its spec is longer than {MAX_SPEC} bytes")]
    LongSpec {
        /// The id.
        id: BoxId,
    },
    /// The file system is full, or the quota used up.
    #[error("{attempt} `{}`: there is no space", path.display())]
    NoSpace {
        /// What was attempted.
        attempt: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Anything else.
    #[error("{attempt} `{}`", path.display())]
    Io {
        /// What was attempted.
        attempt: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl CreateError {
    fn io(attempt: &'static str, path: PathBuf, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoSpace { attempt, path, source },
            _ => Self::Io { attempt, path, source },
        }
    }
}

impl StateDir {
    /// Makes the directory of a new box, with its spec and its first event. It appears under its
    /// id in one step, complete. Every file made here is paid for by each start, so `generation`
    /// and `execs/` are left to the second life and the first exec.
    ///
    /// Nothing is fsynced: [`crate::JournalWriter::sync`] does that once the box runs, and whoever
    /// tells the id to anyone before that calls it first.
    ///
    /// # Errors
    /// There is no such box; what could not be undone is removed by
    /// [`StateDir::finish_reaping`].
    pub fn create_box(
        &self,
        id: BoxId,
        spec: &Spec,
        created: Created,
        ts: Timestamp,
    ) -> Result<BoxDir, CreateError> {
        let spec = serde_json::to_vec(spec).expect("a spec has string keys only");
        if spec.len() as u64 > MAX_SPEC {
            return Err(CreateError::LongSpec { id });
        }
        let event =
            Event { seq: 1, ts, box_id: id, parent: None, data: EventData::Created(created) };
        let new = format!("{NEW}{id}");
        let boxes = self.boxes.as_fd();
        match rustix::fs::mkdirat(boxes, &new, PRIVATE_DIR) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(CreateError::Exists { id }),
            Err(errno) => {
                let path = self.path.join(BOXES).join(new);
                return Err(CreateError::io("make the directory", path, errno.into()));
            }
        }
        self.fill(id, &new, &spec, &event).inspect_err(|_| {
            // Of no use to the caller, who is told why there is no box; swept at the next start.
            drop(remove::remove_tree(boxes, new.as_ref()));
        })
    }

    fn fill(
        &self,
        id: BoxId,
        new: &str,
        spec: &[u8],
        event: &Event,
    ) -> Result<BoxDir, CreateError> {
        let path = self.path.join(BOXES).join(new);
        let hook = |name| {
            hook::point(name)
                .map_err(|source| CreateError::io("make the box directory", path.clone(), source))
        };
        hook("store.create.after_mkdir")?;
        let mut dir = match BoxDir::open_at(self.boxes.as_fd(), Path::new(new), &path) {
            Ok(dir) => dir,
            Err(error) => {
                let source = match error {
                    BoxDirError::Open { source, .. } => source,
                    other => io::Error::other(other),
                };
                return Err(CreateError::io("open the directory", path, source));
            }
        };
        let fd = dir.dir_fd();
        let write = |name: &str, bytes: &[u8]| {
            write_new(fd, name, bytes)
                .map_err(|source| CreateError::io("write", path.join(name), source))
        };
        write(SPEC, spec)?;
        hook("store.create.after_spec")?;
        write(LIFE_LOCK, b"")?;
        journal::create(fd, event)
            .map_err(|source| CreateError::io("write", path.join(JOURNAL), source))?;
        hook("store.create.after_journal")?;
        for name in [LOG, FILES] {
            rustix::fs::mkdirat(fd, name, PRIVATE_DIR).map_err(|errno| {
                CreateError::io("make the directory", path.join(name), errno.into())
            })?;
        }
        hook("store.create.before_rename")?;
        let boxes = self.boxes.as_fd();
        let name = id.to_string();
        let target = self.box_path(id);
        // A box's directory is never empty, so a rename onto one fails.
        match rustix::fs::renameat(boxes, new, boxes, &name) {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::NOTEMPTY) => return Err(CreateError::Exists { id }),
            Err(errno) => {
                return Err(CreateError::io("name the box directory", target, errno.into()));
            }
        }
        dir.rename_to(target);
        hook("store.create.after_rename").inspect_err(|_| {
            // The error says that there is no box. If this fails there is one that nobody runs.
            let _undone = rustix::fs::renameat(boxes, &name, boxes, new);
        })?;
        Ok(dir)
    }
}

/// Writes a file that is not there yet.
fn write_new(dir: BorrowedFd<'_>, name: &str, bytes: &[u8]) -> io::Result<()> {
    regular::create(dir, name)?.write_all(bytes)
}
