//! The sandbox contract: what every provider of sandboxes can be asked for, in one set of words.
//!
//! ```text
//! Sandbox ── create, get, exec, … ──▶ a provider: this machine, a runner, memory
//!    │ spawn, attach
//!    └─▶ (Command, CommandStream)      events of one subscriber, the last of them a Terminal
//!              ▲
//!          Emitter                     the provider's end; dropping it is a terminal too
//! ```
//!
//! A command's stream has exactly one terminal, by construction: the end is sent by a method that
//! takes the [`Emitter`], or by its drop, and nothing can be sent after it.

mod error;
mod retry;
mod stream;
mod values;

use std::collections::BTreeSet;
use std::fmt;

pub use error::{SandboxError, StreamFault, Unavailable};
pub use retry::{Backoff, with_backoff};
pub use stream::{BACKLOG_MAX, CommandStream, Emitter, Event, Terminal, command_stream};
pub use values::{
    Capability, ExecOptions, Handle, Info, NetworkPolicy, Session, SpawnOptions, Status,
};

use crate::wire::{CommandLine, ExitCode};

/// An answer of a provider.
pub type Answer<T> = Result<T, SandboxError>;

/// A provider of sandboxes. Every operation works with a handle's provider and name alone.
///
/// What an adapter does not advertise in [`Sandbox::capabilities`] answers
/// [`SandboxError::NotSupported`]; the methods with a body do.
pub trait Sandbox: Send + Sync {
    /// A running command, as this provider finds it again.
    type Command: Clone + fmt::Debug + Send + Sync + 'static;

    /// Who provides.
    fn provider(&self) -> &'static str;

    /// What is offered beyond what all offer.
    fn capabilities(&self) -> BTreeSet<Capability>;

    /// The handle of a name. Asks nobody.
    fn handle(&self, name: &str) -> Handle {
        Handle { provider: self.provider(), name: name.to_owned(), instance_id: None }
    }

    /// Makes the sandbox of this name, or adopts it.
    fn create(&self, name: &str) -> impl Future<Output = Answer<Handle>> + Send;

    /// Makes it, and never adopts. The handle has an instance id.
    fn create_new(&self, _name: &str) -> impl Future<Output = Answer<Handle>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Whether it is there, and how. `NotFound` only if that is certain: callers then give up what
    /// it holds.
    fn get(&self, handle: &Handle) -> impl Future<Output = Answer<Info>> + Send;

    /// Ends it and deletes what it holds. One that is gone is no error.
    fn destroy(&self, handle: &Handle) -> impl Future<Output = Answer<()>> + Send;

    /// The names of all. A view that is not whole is an error.
    fn list_all_names(&self) -> impl Future<Output = Answer<BTreeSet<String>>> + Send;

    /// Stops it from running, and keeps what it holds.
    fn suspend(&self, _handle: &Handle) -> impl Future<Output = Answer<()>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Lets it run again. A failure loses nothing.
    fn resume(&self, _handle: &Handle) -> impl Future<Output = Answer<Handle>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Writes a file and the directories above it. `mode` are permission bits, whatever the umask.
    fn write_file(
        &self,
        handle: &Handle,
        path: &str,
        data: &[u8],
        mode: Option<u32>,
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Runs a command to its end. A code other than 0 is an answer. A command whose end was not
    /// seen is an error, and its output is not given.
    fn exec(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &ExecOptions,
    ) -> impl Future<Output = Answer<(Vec<u8>, ExitCode)>> + Send;

    /// Starts a command. It runs on when its stream is dropped.
    fn spawn(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &SpawnOptions,
    ) -> impl Future<Output = Answer<(Self::Command, CommandStream)>> + Send;

    /// The id of a command's session, for `attach`.
    fn session_id(&self, command: &Self::Command) -> String;

    /// Writes to a command's input. Total: an ended command answers `CommandExited`.
    fn write_stdin(
        &self,
        command: &Self::Command,
        data: &[u8],
    ) -> impl Future<Output = Answer<()>> + Send;

    /// Ends a command's input: it reads an end of file.
    fn close_stdin(&self, command: &Self::Command) -> impl Future<Output = Answer<()>> + Send;

    /// Lets go of a command: its stream ends here, and the command runs on. As often as one likes.
    fn stop_command(&self, command: &Self::Command) -> impl Future<Output = Answer<()>> + Send;

    /// The sessions of a sandbox, newest first.
    fn list_sessions(&self, handle: &Handle) -> impl Future<Output = Answer<Vec<Session>>> + Send;

    /// Joins a session: everything from its first byte, then what comes.
    fn attach(
        &self,
        _handle: &Handle,
        _session_id: &str,
    ) -> impl Future<Output = Answer<(Self::Command, CommandStream)>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Ends a session. Success only when its end, or its absence, is confirmed.
    fn terminate_session(
        &self,
        _handle: &Handle,
        _session_id: &str,
    ) -> impl Future<Output = Answer<()>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Limits what it reaches to these domains; none: nothing.
    fn apply_network_policy(
        &self,
        _handle: &Handle,
        _policy: &NetworkPolicy,
    ) -> impl Future<Output = Answer<()>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Where the world reaches it.
    fn public_url(&self, _handle: &Handle) -> impl Future<Output = Answer<String>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Keeps a copy of its state; the copy's id.
    fn create_checkpoint(&self, _handle: &Handle) -> impl Future<Output = Answer<String>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// Brings a kept state back.
    fn restore_checkpoint(
        &self,
        _handle: &Handle,
        _id: &str,
    ) -> impl Future<Output = Answer<()>> + Send {
        async { Err(SandboxError::NotSupported) }
    }

    /// The path under which the machine of the sandbox has `path`: the same, unless the provider
    /// knows another.
    fn host_path(&self, _handle: &Handle, path: &str) -> impl Future<Output = String> + Send {
        let path = path.to_owned();
        async { path }
    }
}

#[cfg(test)]
mod tests;
