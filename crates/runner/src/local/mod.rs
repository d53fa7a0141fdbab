//! This machine's boxes as a provider of sandboxes, through the daemon's API.
//!
//! A sandbox is a box of type `sandbox` without an entrypoint. Commands are execs: those of `exec` end
//! with their caller, those of `spawn` are detached, so that they and their logs outlive whoever
//! started them, and a session's id is the exec's. What a name means is in the box's spec, in the
//! variable [`NAME_VARIABLE`], and whose it is in [`RUNNER_VARIABLE`], so nothing about sandboxes is kept
//! anywhere else.

mod boxes;
mod command;
mod files;
mod sandbox;
mod writer;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use minimal_proto::{ErrorCode, ExecId};
use minimal_sdk::{CallError, Client};

pub use self::boxes::{NAME_VARIABLE, RUNNER_VARIABLE};
pub use self::command::LocalCommand;
use self::writer::Writer;
use crate::contract::{SandboxError, Unavailable};

/// The boxes of one daemon. Clones are the same.
#[derive(Clone, Debug)]
pub struct LocalSandbox {
    client: Client,
    /// The runner whose sandboxes these are; none: those that are no runner's.
    runner: Option<String>,
    /// Whether this host can have boxes stand still.
    can_pause: bool,
    /// Who writes the input of which session: one for each, whoever asks.
    writers: Arc<Mutex<BTreeMap<ExecId, Arc<Writer>>>>,
}

impl LocalSandbox {
    /// The boxes of the daemon that `client` reaches.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, runner: None, can_pause: false, writers: Arc::default() }
    }

    /// The same, on a host where boxes can stand still (the `freezer` of a box's enforcement): what is
    /// not said to be possible is not offered to a hub.
    #[must_use]
    pub fn can_pause(self, can_pause: bool) -> Self {
        Self { can_pause, ..self }
    }

    /// Those of the runner of this name: what one runner makes no other sees, since another hub may
    /// be behind it.
    #[must_use]
    pub fn of_runner(client: Client, runner: impl Into<String>) -> Self {
        Self { client, runner: Some(runner.into()), can_pause: false, writers: Arc::default() }
    }
}

/// What an error of the API is in the words of the contract. Only the daemon's own word is certain
/// enough for an absence.
fn error_of(error: &CallError) -> SandboxError {
    let words = error.to_string();
    match error.code() {
        ErrorCode::NotFound => SandboxError::NotFound,
        ErrorCode::BadRequest | ErrorCode::InvalidSpec => SandboxError::Invalid(words),
        ErrorCode::Forbidden | ErrorCode::Refused => SandboxError::Denied(words),
        ErrorCode::NotSupported => SandboxError::NotSupported,
        ErrorCode::ExitUnknown => SandboxError::Unavailable(Unavailable::ExitUnknown),
        _ => SandboxError::Unavailable(Unavailable::Other(words)),
    }
}
