//! Making the directory of a new box.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use minimal_proto::event::Created;
use minimal_proto::{BoxId, Event, EventData, Spec, Timestamp};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{BlankDir, StateDir};
use crate::box_dir::{BoxDir, JOURNAL, MAX_SPEC, SPEC};
use crate::{hook, journal, regular};

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
    pub(super) fn io(attempt: &'static str, path: PathBuf, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoSpace { attempt, path, source },
            _ => Self::Io { attempt, path, source },
        }
    }
}

impl StateDir {
    /// Makes the directory of a new box, with its spec and its first event. It appears under its
    /// id in one step, complete.
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
        self.create_box_in(self.blank_dir()?, id, spec, created, ts)
    }

    /// The same, from a directory that was made ahead.
    ///
    /// # Errors
    /// As for [`StateDir::create_box`].
    pub fn create_box_in(
        &self,
        blank: BlankDir,
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
        let dir = blank.dir();
        let path = dir.path().to_owned();
        let hook = |name| {
            hook::point(name)
                .map_err(|source| CreateError::io("make the box directory", path.clone(), source))
        };
        let fd = dir.dir_fd();
        regular::open(fd, SPEC, OFlags::WRONLY)
            .and_then(|mut file| file.write_all(&spec))
            .map_err(|source| CreateError::io("write", path.join(SPEC), source))?;
        hook("store.create.after_spec")?;
        journal::begin(fd, &event)
            .map_err(|source| CreateError::io("write", path.join(JOURNAL), source))?;
        hook("store.create.after_journal")?;
        hook("store.create.before_rename")?;
        let (new, boxes) = (blank.place.as_fd(), self.boxes.as_fd());
        let name = id.to_string();
        let target = self.box_path(id);
        // A box's directory is never empty, so a rename onto one fails.
        match rustix::fs::renameat(new, &blank.name, boxes, &name) {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::NOTEMPTY) => return Err(CreateError::Exists { id }),
            Err(errno) => {
                return Err(CreateError::io("name the box directory", target, errno.into()));
            }
        }
        hook("store.create.after_rename").inspect_err(|_| {
            // The error says that there is no box. If this fails there is one that nobody runs.
            let _undone = rustix::fs::renameat(boxes, &name, new, &blank.name);
        })?;
        Ok(blank.named(target))
    }
}
