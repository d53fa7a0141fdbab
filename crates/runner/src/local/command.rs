//! A command in a box: an exec, and its events as the contract has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use minimal_proto::api::{CreateExec, ExecRecord};
use minimal_proto::exec::{ExecCommand, ExecMode};
use minimal_proto::stream::Stream;
use minimal_proto::{BoxId, ByteString, Ending, ExecId, Reason};
use minimal_sdk::{AttachOptions, AttachStream, StreamEvent, Subject};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{LocalSandbox, error_of};
use crate::contract::{
    Answer, CommandStream, Emitter, SandboxError, StreamFault, Terminal, Unavailable,
    command_stream,
};
use crate::wire::{CommandLine, ExitCode, Output};

/// Where a box's user is at home, and what hubs call it.
pub(super) const HOME: &str = "/home/box";
const HOME_OF_HUBS: &str = "/home/sprite";

/// A command in a box.
#[derive(Clone, Debug)]
pub struct LocalCommand {
    pub(super) box_id: BoxId,
    pub(super) exec: ExecId,
    /// Told when its caller lets go.
    pub(super) let_go: Arc<Notify>,
}

/// How a command is run, beside its line.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) mode: ExecMode,
    pub(super) input: bool,
    pub(super) timeout_ms: Option<u64>,
}

impl LocalSandbox {
    /// Runs a command in a box.
    pub(super) async fn run(
        &self,
        box_id: BoxId,
        line: &CommandLine,
        how: How,
    ) -> Answer<ExecRecord> {
        let argv = [&line.cmd].into_iter().chain(&line.args);
        let values: BTreeMap<String, ByteString> = line
            .env
            .iter()
            .map(|(name, value)| (name.clone(), ByteString::from(value.as_str())))
            .collect();
        let command = ExecCommand {
            argv: argv.map(|word| ByteString::from(word.as_str())).collect(),
            cwd: Some(home_path(line.dir.as_deref().unwrap_or_default()).into()),
            user: None,
            variables: values.keys().cloned().collect(),
            timeout_ms: how.timeout_ms,
            stop_grace_ms: None,
            mode: how.mode,
            input: how.input,
            terminal: None,
        };
        let create = CreateExec { command, values };
        let made = self.client.create_exec(box_id, &create, Uuid::now_v7()).await;
        made.map_err(|error| error_of(&error))
    }

    /// The events of an exec from its first byte.
    pub(super) async fn listen(
        &self,
        box_id: BoxId,
        exec: ExecId,
    ) -> Answer<(LocalCommand, CommandStream)> {
        let attached = self.client.attach((box_id, exec), AttachOptions::default()).await;
        let (events, _) = attached.map_err(|error| error_of(&error))?;
        let (emitter, stream) = command_stream(StreamFault::ClosedBeforeExit);
        let let_go = Arc::new(Notify::new());
        let (sandbox, told) = (self.clone(), Arc::clone(&let_go));
        drop(tokio::spawn(async move {
            if let Some((emitter, terminal)) = pump(events, emitter, told).await {
                // Before anybody can know of the end, and write again.
                sandbox.forget_writer(exec);
                emitter.end(terminal);
            }
        }));
        Ok((LocalCommand { box_id, exec, let_go }, stream))
    }

    /// Everything that an exec of ours prints, and its code. Its output is kept until it is read
    /// here, so that none is missing at any length.
    pub(super) async fn collect(
        &self,
        box_id: BoxId,
        exec: ExecId,
        merged: bool,
    ) -> Answer<(Vec<u8>, ExitCode)> {
        let options = AttachOptions { pin: true, ..AttachOptions::default() };
        let attached = self.client.attach((box_id, exec), options).await;
        let (mut events, handle) = attached.map_err(|error| error_of(&error))?;
        let unknown = |why| SandboxError::Unavailable(why);
        let mut output = Vec::new();
        loop {
            match events.next().await {
                Ok(StreamEvent::Output { stream, offset, bytes }) => {
                    if merged || stream != Stream::Stderr {
                        output.extend_from_slice(&bytes);
                    }
                    handle.read(offset + bytes.len() as u64);
                }
                Ok(StreamEvent::Exited(ending)) => {
                    let code = code_of(&ending);
                    if let Some(words) = why_not_started(&ending) {
                        output.extend_from_slice(words.as_bytes());
                    }
                    let code = code.ok_or(unknown(Unavailable::ExitUnknown))?;
                    return Ok((output, code));
                }
                Ok(StreamEvent::Gap { .. } | StreamEvent::Detached) | Err(_) => {
                    return Err(unknown(Unavailable::ClosedBeforeExit));
                }
                Ok(_) => {}
            }
        }
    }

    pub(super) fn subject(command: &LocalCommand) -> Subject {
        Subject::from((command.box_id, command.exec))
    }
}

/// Hands an exec's events on, as fast as they are read, until its end, which is given back. None if
/// nobody listens any more.
async fn pump(
    mut events: AttachStream,
    mut emitter: Emitter,
    let_go: Arc<Notify>,
) -> Option<(Emitter, Terminal)> {
    loop {
        let event = tokio::select! {
            () = let_go.notified() => {
                emitter.end(Terminal::Fault(StreamFault::Stopped));
                return None;
            }
            event = async {
                emitter.ready().await;
                events.next().await
            } => event,
        };
        if !emitter.is_heard() {
            return None;
        }
        let terminal = match event {
            Ok(StreamEvent::Output { stream, bytes, .. }) => {
                let output = match stream {
                    Stream::Stdout | Stream::Pty => Output::Stdout,
                    Stream::Stderr => Output::Stderr,
                };
                emitter.output(output, bytes.to_vec());
                continue;
            }
            Ok(StreamEvent::Gap { from, to }) => {
                emitter.gap(to - from);
                continue;
            }
            Ok(StreamEvent::Exited(ending)) => {
                if let Some(words) = why_not_started(&ending) {
                    emitter.output(Output::Stdout, words.into_bytes());
                }
                match code_of(&ending) {
                    Some(code) => Terminal::Exit(code),
                    None => Terminal::Fault(StreamFault::ExitUnknown),
                }
            }
            Ok(StreamEvent::Detached) | Err(_) => Terminal::Fault(StreamFault::ClosedBeforeExit),
            Ok(_) => continue,
        };
        return Some((emitter, terminal));
    }
}

/// The code of an ending; none if nobody saw it. 127 for whatever could not be started.
pub(super) fn code_of(ending: &Ending) -> Option<ExitCode> {
    match ending.reason() {
        Reason::Lost => None,
        Reason::StartFailed => Some(ExitCode::as_told(127)),
        _ => {
            let code = ExitCode::as_told(ending.shell_status().into());
            Some(match ending.signal() {
                Some(signal) => code.by_signal(signal.number()),
                None => code,
            })
        }
    }
}

/// Why a command was not started, for its output.
fn why_not_started(ending: &Ending) -> Option<String> {
    if ending.reason() != Reason::StartFailed {
        return None;
    }
    let words = ending.detail().get("message").and_then(|it| it.as_str());
    Some(format!("{}\n", words.unwrap_or("the command could not be started")))
}

/// A path of a hub in a box: from the home on, unless it leads elsewhere.
pub(super) fn home_path(path: &str) -> String {
    for home in ["~", HOME_OF_HUBS] {
        if let Some(rest) = path.strip_prefix(home)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{HOME}{rest}");
        }
    }
    match path {
        "" => HOME.to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => format!("{HOME}/{relative}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_home() {
        for (path, expected) in [
            ("", "/home/box"),
            ("~", "/home/box"),
            ("~/a", "/home/box/a"),
            ("a/b", "/home/box/a/b"),
            ("/home/sprite", "/home/box"),
            ("/home/sprite/a", "/home/box/a"),
            ("/home/sprites/a", "/home/sprites/a"),
            ("~a", "/home/box/~a"),
            ("/tmp", "/tmp"),
        ] {
            assert_eq!(home_path(path), expected, "{path}");
        }
    }
}
