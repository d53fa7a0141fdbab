//! Requests that are one call of the provider.

use serde_json::{Map, Value, json};

use crate::contract::{Answer, ExecOptions, Info, Sandbox, SandboxError, Session, Status};
use crate::wire::{Code, Op, Refusal, Results};

/// Carries a request out that is neither `spawn` nor a session's.
pub(super) async fn answer<S: Sandbox>(sandbox: &S, op: Op) -> Result<Map<String, Value>, Refusal> {
    carry_out(sandbox, op).await.map_err(|error| refusal(&error))
}

async fn carry_out<S: Sandbox>(sandbox: &S, op: Op) -> Answer<Map<String, Value>> {
    let done = |()| Map::new();
    match op {
        Op::Create { name } => sandbox.create(name.as_str()).await.map(|_| Map::new()),
        Op::Get { name } => sandbox.get(&sandbox.handle(name.as_str())).await.map(|it| info(&it)),
        Op::Destroy { name } => sandbox.destroy(&sandbox.handle(name.as_str())).await.map(done),
        Op::List => {
            let names = sandbox.list_all_names().await?;
            Ok(Results::list(&names.into_iter().collect::<Vec<_>>()))
        }
        Op::Suspend { name } => sandbox.suspend(&sandbox.handle(name.as_str())).await.map(done),
        Op::Resume { name } => {
            sandbox.resume(&sandbox.handle(name.as_str())).await.map(|_| Map::new())
        }
        Op::WriteFile { name, path, data, mode } => {
            let handle = sandbox.handle(name.as_str());
            sandbox.write_file(&handle, &path, &data, mode).await.map(done)
        }
        Op::Exec { name, command, timeout_ms, stderr_to_stdout } => {
            let handle = sandbox.handle(name.as_str());
            let options = ExecOptions { timeout_ms, stderr_to_stdout };
            let (output, code) = sandbox.exec(&handle, &command, &options).await?;
            Ok(Results::exec(&output, code))
        }
        Op::ListSessions { name } => {
            let sessions = sandbox.list_sessions(&sandbox.handle(name.as_str())).await?;
            let rows: Vec<Value> = sessions.iter().map(row).collect();
            Ok(Map::from_iter([("sessions".to_owned(), rows.into())]))
        }
        Op::Spawn { .. }
        | Op::Stdin { .. }
        | Op::StdinClose { .. }
        | Op::Detach { .. }
        | Op::Attach { .. } => Err(SandboxError::NotSupported),
    }
}

fn info(info: &Info) -> Map<String, Value> {
    let status = match info.status {
        Status::Running => "running",
        Status::Suspended => "suspended",
        Status::Unknown => "unknown",
    };
    let mut result = Map::from_iter([("status".to_owned(), Value::from(status))]);
    if let Some(path) = &info.path {
        result.insert("path".to_owned(), path.as_str().into());
    }
    result
}

fn row(session: &Session) -> Value {
    let mut row = json!({
        "id": session.id,
        "command": session.command,
        "created_at": session.created_at,
        "last_activity_at": session.last_activity_at,
        "tty": false,
    });
    if let Some(code) = session.exit_code {
        row["exit_code"] = code.get().into();
        if let Some(signal) = code.signal() {
            row["signal"] = signal.into();
        }
    }
    row
}

/// What an error of the contract is on the wire.
pub(super) fn refusal(error: &SandboxError) -> Refusal {
    match error {
        SandboxError::NotFound => Refusal { code: Code::NotFound, detail: None },
        SandboxError::CommandExited => Refusal { code: Code::CommandExited, detail: None },
        SandboxError::NotSupported => Refusal { code: Code::NotSupported, detail: None },
        SandboxError::Invalid(detail) => Refusal::new(Code::Invalid, detail.as_str()),
        SandboxError::WriteFailed(detail) => Refusal::new(Code::WriteFailed, detail.as_str()),
        SandboxError::Unavailable(why) => Refusal::new(Code::Unavailable, why.as_str()),
        SandboxError::RateLimited(_) | SandboxError::Truncated => {
            Refusal::new(Code::Unavailable, error.to_string())
        }
        SandboxError::AlreadyExists
        | SandboxError::Denied(_)
        | SandboxError::RestoreFailed(_)
        | SandboxError::Provider { .. } => {
            Refusal::new(Code::Other("provider".to_owned()), error.to_string())
        }
    }
}
