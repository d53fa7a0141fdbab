//! Where runners of this machine are found: `<state>/runners/<name>/`, with a lock that says whether
//! one runs and a record of how it is.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use minimal_linux::record_lock::{holder, try_write_lock};
use minimal_proto::{ErrorCode, Timestamp};
use minimal_runner::dial::RunnerName;
use serde::{Deserialize, Serialize};

use crate::error::Failure;

const RUNNERS: &str = "runners";
const LOCK: &str = "lock";
const RECORD: &str = "runner.json";
const RECORD_BESIDE: &str = "runner.json.new";

/// The longest record that is read: its longest parts are an address and an error.
const RECORD_MAX: u64 = 64 << 10;

/// How a runner is. Schema `min/v1/runner`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) schema: String,
    pub(super) name: String,
    /// The hub's address.
    pub(super) hub: String,
    /// Of the process that wrote it.
    pub(super) pid: u32,
    pub(super) state: RunnerState,
    /// Since when it is in that state.
    pub(super) since: Timestamp,
    /// How many attempts to connect have failed in a row.
    pub(super) attempts: u32,
    /// When the next one is due, while it waits.
    pub(super) next_attempt_at: Option<Timestamp>,
    /// Why it is not connected, or why it was not the last time.
    pub(super) error: Option<String>,
}

/// How a runner is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RunnerState {
    /// It dials.
    Connecting,
    /// It serves.
    Connected,
    /// It waits for its next attempt.
    Waiting,
    /// It has left, or given up.
    Stopped,
    /// It was killed: nobody runs, and nobody has said so.
    Gone,
}

impl RunnerState {
    /// The word, as in JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Waiting => "waiting",
            Self::Stopped => "stopped",
            Self::Gone => "gone",
        }
    }
}

/// The place of one runner, which nobody else has while this lives.
#[derive(Debug)]
pub(super) struct Place {
    dir: PathBuf,
    // Opened once, and closed with the process: closing any descriptor of it gives the lock up.
    _lock: File,
}

impl Place {
    /// Takes the place of a runner.
    ///
    /// # Errors
    /// Another process has it, or it cannot be made.
    pub(super) fn take(state_dir: &Path, name: &RunnerName) -> Result<Self, Failure> {
        let dir = state_dir.join(RUNNERS).join(name.as_str());
        let failed = |error: &io::Error| {
            let message = format!("take the directory of runner `{name}`, `{}`", dir.display());
            Failure::new(ErrorCode::Internal, message).because(error)
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(|error| failed(&error))?;
        let mut options = File::options();
        let lock = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let lock = lock.open(dir.join(LOCK)).map_err(|error| failed(&error))?;
        if !try_write_lock(lock.as_fd(), 0).map_err(|error| failed(&error))? {
            let pid = holder(lock.as_fd(), 0).ok().flatten().and_then(|holder| holder.pid);
            let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            let message = format!("a runner called `{name}` runs on this machine already{pid}");
            return Err(Failure::new(ErrorCode::NameHeld, message)
                .hint("`min runner status` shows it; two runners need two names"));
        }
        Ok(Self { dir, _lock: lock })
    }

    /// Writes the record.
    ///
    /// # Errors
    /// It cannot be written. What was there is whole.
    pub(super) fn write(&self, record: &Record) -> io::Result<()> {
        let text = serde_json::to_string(record).map_err(io::Error::other)?;
        let beside = self.dir.join(RECORD_BESIDE);
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside);
        file.and_then(|mut file| file.write_all(text.as_bytes()))?;
        // Renamed when it is whole, so that nobody reads half of it.
        fs::rename(&beside, self.dir.join(RECORD))
    }
}

/// The records of all runners there have been, by name.
///
/// # Errors
/// The directory cannot be listed.
pub(super) fn records(state_dir: &Path) -> io::Result<Vec<Result<Record, (String, io::Error)>>> {
    let mut names = Vec::new();
    match fs::read_dir(state_dir.join(RUNNERS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(entries) => {
            for entry in entries {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    let read = |name: String| match record(state_dir, &name) {
        Ok(record) => Some(Ok(record)),
        // A runner that is about to write its first one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err((name, error))),
    };
    Ok(names.into_iter().filter_map(read).collect())
}

fn record(state_dir: &Path, name: &str) -> io::Result<Record> {
    let dir = state_dir.join(RUNNERS).join(name);
    let mut text = String::new();
    File::open(dir.join(RECORD))?.take(RECORD_MAX).read_to_string(&mut text)?;
    let mut record: Record = serde_json::from_str(&text).map_err(io::Error::other)?;
    let lock = File::options().read(true).write(true).open(dir.join(LOCK))?;
    let runs = holder(lock.as_fd(), 0)?.is_some();
    if !runs && record.state != RunnerState::Stopped {
        record.state = RunnerState::Gone;
        record.next_attempt_at = None;
    }
    Ok(record)
}
