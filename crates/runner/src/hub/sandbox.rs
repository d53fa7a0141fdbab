//! A runner as a provider of sandboxes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::Connection;
use super::routes::malformed;
use crate::contract::{
    Answer, Capability, CommandStream, ExecOptions, Handle, Info, Sandbox, SandboxError, Session,
    SpawnOptions, Status,
};
use crate::wire::{CommandLine, ExitCode, Op, Results, SandboxName, SandboxNameError};

/// How long a runner may take to answer.
const LIMIT: Option<Duration> = Some(Duration::from_secs(30));

/// How much longer than its command's own limit an exec may take.
const EXEC_MORE: Duration = Duration::from_secs(10);

/// The sandboxes of one runner.
#[derive(Clone, Debug)]
pub struct RunnerSandbox {
    connection: Connection,
    suspends: bool,
}

/// A command behind a runner.
#[derive(Clone, Debug)]
pub struct RunnerCommand {
    name: SandboxName,
    session: String,
    subscription: u64,
}

impl RunnerSandbox {
    /// The sandboxes behind a connection.
    #[must_use]
    pub const fn new(connection: Connection) -> Self {
        Self { connection, suspends: true }
    }

    /// The same, of a runner whose host is known to have no way to suspend: the protocol cannot say
    /// so beforehand, and that runner answers `not_supported`.
    #[must_use]
    pub fn without_suspend(self) -> Self {
        Self { suspends: false, ..self }
    }

    async fn ask(&self, op: Op) -> Answer<serde_json::Map<String, Value>> {
        self.connection.call(&op, LIMIT).await
    }

    async fn open(&self, name: SandboxName, op: Op) -> Answer<(RunnerCommand, CommandStream)> {
        let (session, subscription, stream) = self.connection.open(&op, LIMIT).await?;
        Ok((RunnerCommand { name, session, subscription }, stream))
    }
}

fn name_of(handle: &Handle) -> Answer<SandboxName> {
    named(&handle.name)
}

fn named(name: &str) -> Answer<SandboxName> {
    name.parse().map_err(|error: SandboxNameError| SandboxError::Invalid(error.to_string()))
}

/// What a write answers, in the contract's words: total, and lost input is not written.
fn written(answer: Answer<serde_json::Map<String, Value>>) -> Answer<()> {
    match answer {
        Ok(_) => Ok(()),
        Err(SandboxError::CommandExited | SandboxError::NotFound) => {
            Err(SandboxError::CommandExited)
        }
        Err(SandboxError::Unavailable(why)) => Err(SandboxError::WriteFailed(why.to_string())),
        Err(other) => Err(other),
    }
}

impl Sandbox for RunnerSandbox {
    type Command = RunnerCommand;

    fn provider(&self) -> &'static str {
        "runner"
    }

    fn capabilities(&self) -> BTreeSet<Capability> {
        let mut offered = BTreeSet::from([Capability::Attach]);
        if self.suspends {
            offered.insert(Capability::Suspend);
        }
        offered
    }

    async fn create(&self, name: &str) -> Answer<Handle> {
        self.ask(Op::Create { name: named(name)? }).await?;
        Ok(self.handle(name))
    }

    async fn get(&self, handle: &Handle) -> Answer<Info> {
        let info = self.ask(Op::Get { name: name_of(handle)? }).await?;
        let status = match info.get("status").and_then(Value::as_str) {
            Some("running") => Status::Running,
            Some("suspended") => Status::Suspended,
            Some(_) | None => Status::Unknown,
        };
        Ok(Info { status, path: info.get("path").and_then(Value::as_str).map(str::to_owned) })
    }

    async fn destroy(&self, handle: &Handle) -> Answer<()> {
        match self.ask(Op::Destroy { name: name_of(handle)? }).await {
            Ok(_) | Err(SandboxError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn list_all_names(&self) -> Answer<BTreeSet<String>> {
        let result = self.ask(Op::List).await?;
        let names = Results::read_list(&result);
        let names = names.ok_or_else(|| malformed("malformed_list", &Value::Object(result)))?;
        Ok(names.into_iter().collect())
    }

    async fn suspend(&self, handle: &Handle) -> Answer<()> {
        self.ask(Op::Suspend { name: name_of(handle)? }).await.map(|_| ())
    }

    async fn resume(&self, handle: &Handle) -> Answer<Handle> {
        self.ask(Op::Resume { name: name_of(handle)? }).await?;
        Ok(self.handle(&handle.name))
    }

    async fn write_file(
        &self,
        handle: &Handle,
        path: &str,
        data: &[u8],
        mode: Option<u32>,
    ) -> Answer<()> {
        let (path, data) = (path.to_owned(), data.to_vec());
        self.ask(Op::WriteFile { name: name_of(handle)?, path, data, mode }).await.map(|_| ())
    }

    async fn exec(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &ExecOptions,
    ) -> Answer<(Vec<u8>, ExitCode)> {
        let ExecOptions { timeout_ms, stderr_to_stdout } = *options;
        let command = command.clone();
        let op = Op::Exec { name: name_of(handle)?, command, timeout_ms, stderr_to_stdout };
        let limit = timeout_ms.map(|limit| Duration::from_millis(limit) + EXEC_MORE);
        let result = self.connection.call(&op, limit).await?;
        let read = Results::read_exec(&result);
        read.ok_or_else(|| malformed("malformed_exec_reply", &Value::Object(result)))
    }

    async fn spawn(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &SpawnOptions,
    ) -> Answer<(RunnerCommand, CommandStream)> {
        let SpawnOptions { stdin, tty } = *options;
        let (name, command) = (name_of(handle)?, command.clone());
        let op = Op::Spawn { name: name.clone(), command, stdin, tty, detachable: true };
        self.open(name, op).await
    }

    fn session_id(&self, command: &RunnerCommand) -> String {
        command.session.clone()
    }

    async fn write_stdin(&self, command: &RunnerCommand, data: &[u8]) -> Answer<()> {
        let RunnerCommand { name, session, .. } = command.clone();
        written(self.ask(Op::Stdin { name, session_id: session, data: data.to_vec() }).await)
    }

    async fn close_stdin(&self, command: &RunnerCommand) -> Answer<()> {
        let RunnerCommand { name, session, .. } = command.clone();
        match self.ask(Op::StdinClose { name, session_id: session }).await {
            Ok(_) | Err(SandboxError::NotFound | SandboxError::CommandExited) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn stop_command(&self, command: &RunnerCommand) -> Answer<()> {
        self.connection.unsubscribe(&command.session, command.subscription);
        Ok(())
    }

    async fn list_sessions(&self, handle: &Handle) -> Answer<Vec<Session>> {
        let result = self.ask(Op::ListSessions { name: name_of(handle)? }).await?;
        let rows = result.get("sessions").and_then(Value::as_array);
        let rows = rows.and_then(|rows| rows.iter().map(row).collect());
        rows.ok_or_else(|| malformed("malformed_sessions_reply", &Value::Object(result.clone())))
    }

    async fn attach(
        &self,
        handle: &Handle,
        session_id: &str,
    ) -> Answer<(RunnerCommand, CommandStream)> {
        let (name, session_id) = (name_of(handle)?, session_id.to_owned());
        let op = Op::Attach { name: name.clone(), session_id, stdin: true };
        self.open(name, op).await
    }

    async fn public_url(&self, _handle: &Handle) -> Answer<String> {
        Err(SandboxError::NotSupported)
    }

    async fn host_path(&self, handle: &Handle, path: &str) -> String {
        const HOME: &str = "/home/sprite";
        let rest = path.strip_prefix(HOME).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = rest else { return path.to_owned() };
        match self.get(handle).await {
            Ok(Info { path: Some(home), .. }) => format!("{home}{rest}"),
            Ok(Info { path: None, .. }) | Err(_) => path.to_owned(),
        }
    }
}

fn row(row: &Value) -> Option<Session> {
    let text = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Session {
        id: text("id")?,
        command: text("command").unwrap_or_default(),
        created_at: text("created_at"),
        last_activity_at: text("last_activity_at"),
        has_ended: Results::read_exit_code(row).is_some(),
        exit_code: Results::read_exit_code(row),
    })
}
