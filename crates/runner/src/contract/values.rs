//! What calls are given and answer with.

use crate::wire::ExitCode;

/// A sandbox, as every call finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Who provides it.
    pub provider: &'static str,
    /// Its name there.
    pub name: String,
    /// Which one of that name, if it was made by `create_new`.
    pub instance_id: Option<String>,
}

/// How a sandbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It runs.
    Running,
    /// It is suspended.
    Suspended,
    /// The provider has a word of its own for it.
    Unknown,
}

/// What is known about a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// How it is.
    pub status: Status,
    /// Where its home is on its machine, if the provider says.
    pub path: Option<String>,
}

/// A command that runs or has run in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id, for `attach`.
    pub id: String,
    /// What runs, for people.
    pub command: String,
    /// When it was started (RFC 3339), if that is known.
    pub created_at: Option<String>,
    /// When it last printed or read, if that is known.
    pub last_activity_at: Option<String>,
    /// Whether it is over, however it ended. A hub is not told of an end without a code.
    pub has_ended: bool,
    /// Its code, if it has ended and the code is known.
    pub exit_code: Option<ExitCode>,
}

/// What a sandbox may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// Domains; none: nothing.
    pub allow: Vec<String>,
}

/// How to run a command to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// Milliseconds after which it is ended with code 124; none: never.
    pub timeout_ms: Option<u64>,
    /// Whether stderr is part of the output; else it is dropped.
    pub stderr_to_stdout: bool,
}

/// How to start a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpawnOptions {
    /// Whether it has an input; else that is empty.
    pub stdin: bool,
    /// Whether a terminal is wished for.
    pub tty: bool,
}

/// What a provider may offer beyond what all offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// `suspend` and `resume`.
    Suspend,
    /// `apply_network_policy`.
    NetworkPolicy,
    /// `create_checkpoint` and `restore_checkpoint`.
    Checkpoint,
    /// `attach`.
    Attach,
    /// Commands with a terminal.
    Tty,
    /// `public_url`.
    PublicUrl,
    /// `terminate_session`.
    TerminateSession,
    /// `create_new`.
    CreateNew,
}
