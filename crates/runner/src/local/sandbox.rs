//! The contract, carried out by the daemon's API.

use std::collections::BTreeSet;

use minimal_proto::ExecId;
use minimal_proto::api::{ExecRecord, StopBox};
use minimal_proto::exec::ExecMode;
use minimal_sdk::ExecQuery;

use super::command::{HOME, How, code_of};
use super::{LocalCommand, LocalSandbox, error_of};
use crate::contract::{
    Answer, Capability, CommandStream, ExecOptions, Handle, Info, Sandbox, SandboxError, Session,
    SpawnOptions, Status, Unavailable,
};
use crate::wire::{CommandLine, ExitCode};

impl LocalSandbox {
    /// A session of a sandbox: an exec that was spawned.
    async fn session(&self, handle: &Handle, session: &str) -> Answer<ExecRecord> {
        let record = self.find(&handle.name).await?;
        let exec: ExecId = session.parse().map_err(|_not_an_id| SandboxError::NotFound)?;
        let exec = self.client.exec(record.id, &exec.to_string()).await;
        let exec = exec.map_err(|error| error_of(&error))?;
        match exec.mode {
            ExecMode::Detached => Ok(exec),
            ExecMode::Attached | ExecMode::Tty => Err(SandboxError::NotFound),
        }
    }
}

impl Sandbox for LocalSandbox {
    type Command = LocalCommand;

    fn provider(&self) -> &'static str {
        "local"
    }

    fn capabilities(&self) -> BTreeSet<Capability> {
        let mut offered = BTreeSet::from([Capability::Attach, Capability::TerminateSession]);
        if self.can_pause {
            offered.insert(Capability::Suspend);
        }
        offered
    }

    async fn create(&self, name: &str) -> Answer<Handle> {
        match self.running(name).await {
            Ok(_) => {}
            Err(SandboxError::NotFound) => drop(self.make(name).await?),
            Err(error) => return Err(error),
        }
        Ok(self.handle(name))
    }

    async fn get(&self, handle: &Handle) -> Answer<Info> {
        let record = self.find(&handle.name).await?;
        let status = match record.ending {
            None if record.paused => Status::Suspended,
            None => Status::Running,
            Some(_) => Status::Unknown,
        };
        Ok(Info { status, path: Some(HOME.to_owned()) })
    }

    async fn destroy(&self, handle: &Handle) -> Answer<()> {
        loop {
            let record = match self.find(&handle.name).await {
                Ok(record) => record,
                Err(SandboxError::NotFound) => return Ok(()),
                Err(error) => return Err(error),
            };
            match self.client.remove(record.id, true).await.map_err(|error| error_of(&error)) {
                Ok(()) | Err(SandboxError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn list_all_names(&self) -> Answer<BTreeSet<String>> {
        self.names().await
    }

    async fn suspend(&self, handle: &Handle) -> Answer<()> {
        if !self.can_pause {
            return Err(SandboxError::NotSupported);
        }
        let id = self.running(&handle.name).await?.id;
        self.client.pause(id).await.map(|_| ()).map_err(|error| error_of(&error))
    }

    async fn resume(&self, handle: &Handle) -> Answer<Handle> {
        if !self.can_pause {
            return Err(SandboxError::NotSupported);
        }
        let id = self.running(&handle.name).await?.id;
        let resumed = self.client.unpause(id).await;
        resumed.map(|_| self.handle(&handle.name)).map_err(|error| error_of(&error))
    }

    async fn write_file(
        &self,
        handle: &Handle,
        path: &str,
        data: &[u8],
        mode: Option<u32>,
    ) -> Answer<()> {
        self.put_file(&handle.name, path, data, mode).await
    }

    async fn exec(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &ExecOptions,
    ) -> Answer<(Vec<u8>, ExitCode)> {
        let id = self.running(&handle.name).await?.id;
        let how = How { mode: ExecMode::Attached, input: false, timeout_ms: options.timeout_ms };
        let exec = self.run(id, command, how).await?.id;
        self.collect(id, exec, options.stderr_to_stdout).await
    }

    async fn spawn(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &SpawnOptions,
    ) -> Answer<(LocalCommand, CommandStream)> {
        let id = self.running(&handle.name).await?.id;
        let how = How { mode: ExecMode::Detached, input: options.stdin, timeout_ms: None };
        let exec = self.run(id, command, how).await?.id;
        self.listen(id, exec).await
    }

    fn session_id(&self, command: &LocalCommand) -> String {
        command.exec.to_string()
    }

    async fn write_stdin(&self, command: &LocalCommand, data: &[u8]) -> Answer<()> {
        let writer = self.writer(Self::subject(command), command.exec);
        match writer.put(self, Some(data)).await {
            Err(SandboxError::NotFound | SandboxError::CommandExited) => {
                self.forget_writer(command.exec);
                Err(SandboxError::CommandExited)
            }
            Err(SandboxError::Unavailable(why)) => Err(SandboxError::WriteFailed(why.to_string())),
            other => other,
        }
    }

    async fn close_stdin(&self, command: &LocalCommand) -> Answer<()> {
        let writer = self.writer(Self::subject(command), command.exec);
        match writer.put(self, None).await {
            Err(SandboxError::NotFound | SandboxError::CommandExited) => {
                self.forget_writer(command.exec);
                Ok(())
            }
            other => other,
        }
    }

    async fn stop_command(&self, command: &LocalCommand) -> Answer<()> {
        command.let_go.notify_one();
        Ok(())
    }

    async fn list_sessions(&self, handle: &Handle) -> Answer<Vec<Session>> {
        let id = self.find(&handle.name).await?.id;
        let mut sessions = Vec::new();
        let mut query = ExecQuery { limit: Some(1000), after: None };
        loop {
            let page = self.client.execs(id, query).await.map_err(|error| error_of(&error))?;
            let spawned = page.execs.iter().filter(|exec| exec.mode == ExecMode::Detached);
            sessions.extend(spawned.map(row));
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(sessions),
            }
        }
    }

    async fn attach(
        &self,
        handle: &Handle,
        session_id: &str,
    ) -> Answer<(LocalCommand, CommandStream)> {
        let exec = self.session(handle, session_id).await?;
        if let Some(ending) = &exec.ending
            && code_of(ending).is_none()
        {
            return Err(SandboxError::Unavailable(Unavailable::ExitUnknown));
        }
        self.listen(exec.box_id, exec.id).await
    }

    async fn terminate_session(&self, handle: &Handle, session_id: &str) -> Answer<()> {
        let exec = match self.session(handle, session_id).await {
            Ok(exec) => exec,
            Err(SandboxError::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        let stop = StopBox { force: true, grace_ms: None };
        match self.client.stop_exec(exec.box_id, exec.id, stop).await {
            Ok(_) => Ok(()),
            Err(error) => match error_of(&error) {
                SandboxError::NotFound => Ok(()),
                error => Err(error),
            },
        }
    }
}

fn row(exec: &ExecRecord) -> Session {
    let words: Vec<String> = exec.argv.iter().map(minimal_proto::ByteString::to_lossy).collect();
    Session {
        id: exec.id.to_string(),
        command: words.join(" "),
        created_at: Some(exec.created_at.to_string()),
        last_activity_at: exec.ended_at.map(|at| at.to_string()),
        has_ended: exec.ending.is_some(),
        exit_code: exec.ending.as_ref().and_then(code_of),
    }
}
