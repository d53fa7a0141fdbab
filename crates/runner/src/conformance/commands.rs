//! Rules of commands: what they print, and how they end.

use super::{Held, LIMIT, Trial, all, answered, holds, next, same, until};
use crate::contract::{
    CommandStream, Event, ExecOptions, Handle, Sandbox, SandboxError, SpawnOptions, Terminal,
};
use crate::wire::{CommandLine, ExitCode};

const STDIN: SpawnOptions = SpawnOptions { stdin: true, tty: false };

fn exit(code: i32) -> Terminal {
    Terminal::Exit(ExitCode::as_told(code))
}

async fn run<S: Sandbox>(
    trial: &Trial<'_, S>,
    command: &CommandLine,
    options: ExecOptions,
) -> Result<(Vec<u8>, ExitCode), String> {
    let handle = answered("create", trial.sandbox.create(&trial.name).await)?;
    answered("exec", trial.sandbox.exec(&handle, command, &options).await)
}

async fn start<S: Sandbox>(
    trial: &Trial<'_, S>,
    command: &CommandLine,
    options: SpawnOptions,
) -> Result<(Handle, S::Command, CommandStream), String> {
    let handle = answered("create", trial.sandbox.create(&trial.name).await)?;
    let spawned = trial.sandbox.spawn(&handle, command, &options).await;
    let (command, stream) = answered("spawn", spawned)?;
    Ok((handle, command, stream))
}

pub(super) async fn exec<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (output, code) = run(trial, &trial.fixtures.hello, ExecOptions::default()).await?;
    holds("the output", &output, "hello")?;
    same("the code", code.get(), 0)
}

pub(super) async fn fail<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (output, code) = run(trial, &trial.fixtures.fail, ExecOptions::default()).await?;
    holds("the output", &output, "oops")?;
    same("the code", code.get(), 3)
}

pub(super) async fn exec_stderr<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (apart, _) = run(trial, &trial.fixtures.both, ExecOptions::default()).await?;
    holds("stdout", &apart, "out")?;
    same("whether stderr is in it", String::from_utf8_lossy(&apart).contains("err"), false)?;
    let merged = ExecOptions { stderr_to_stdout: true, ..ExecOptions::default() };
    let (both, _) = run(trial, &trial.fixtures.both, merged).await?;
    holds("both", &both, "out")?;
    holds("both", &both, "err")
}

pub(super) async fn env<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let mut command = trial.fixtures.env.clone();
    command.env.push(("CONFORMANCE".to_owned(), "a b\"$c".to_owned()));
    let (output, _) = run(trial, &command, ExecOptions::default()).await?;
    holds("the variable", &output, "a b\"$c")
}

pub(super) async fn dir<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let mut command = trial.fixtures.dir.clone();
    command.dir = Some("/tmp".to_owned());
    let (output, _) = run(trial, &command, ExecOptions::default()).await?;
    holds("the directory", &output, "/tmp")
}

pub(super) async fn timeout<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let limit = ExecOptions { timeout_ms: Some(100), ..ExecOptions::default() };
    let ended = tokio::time::timeout(LIMIT, run(trial, &trial.fixtures.hang, limit)).await;
    let (_, code) = ended.map_err(|_elapsed| "it was not ended".to_owned())??;
    same("the code", code.get(), 124)
}

pub(super) async fn frames<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (.., mut stream) = start(trial, &trial.fixtures.hello, SpawnOptions::default()).await?;
    match next(&mut stream).await? {
        Some(Event::Output(_, bytes)) if !bytes.is_empty() => {}
        other => return Err(format!("the first event is {other:?}")),
    }
    let (.., terminal) = all(&mut stream).await?;
    same("the terminal", terminal, exit(0))
}

pub(super) async fn spawn_code<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (.., mut stream) = start(trial, &trial.fixtures.fail, SpawnOptions::default()).await?;
    let (stdout, _, terminal) = all(&mut stream).await?;
    holds("stdout", &stdout, "oops")?;
    same("the terminal", terminal, exit(3))
}

pub(super) async fn signal<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (.., mut stream) = start(trial, &trial.fixtures.killed, SpawnOptions::default()).await?;
    let spawned = match all(&mut stream).await?.2 {
        Terminal::Exit(code) => code,
        fault @ Terminal::Fault(_) => return Err(format!("the terminal is {fault:?}")),
    };
    let (_, executed) = run(trial, &trial.fixtures.killed, ExecOptions::default()).await?;
    for code in [spawned, executed] {
        same("the code", code.get(), 143)?;
        // Not every provider tells it.
        same("the signal", code.signal().unwrap_or(15), 15)?;
    }
    Ok(())
}

pub(super) async fn spawn_stderr<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (.., mut stream) = start(trial, &trial.fixtures.both, SpawnOptions::default()).await?;
    let (stdout, stderr, terminal) = all(&mut stream).await?;
    holds("stdout", &stdout, "out")?;
    holds("stderr", &stderr, "err")?;
    same("the terminal", terminal, exit(0))
}

pub(super) async fn much<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (command, length) = &trial.fixtures.much;
    let (.., mut stream) = start(trial, command, SpawnOptions::default()).await?;
    let (stdout, _, terminal) = all(&mut stream).await?;
    same("the output's length", stdout.len(), *length)?;
    let wrong = stdout.iter().enumerate().find(|(at, byte)| usize::from(**byte) != at % 251);
    same("the first wrong byte", wrong, None)?;
    same("the terminal", terminal, exit(0))
}

pub(super) async fn lost<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let Some(command) = &trial.fixtures.lost else { return Ok(()) };
    let (.., mut stream) = start(trial, command, SpawnOptions::default()).await?;
    let (stdout, _, terminal) = all(&mut stream).await?;
    holds("stdout", &stdout, "partial")?;
    match terminal {
        Terminal::Fault(_) => Ok(()),
        Terminal::Exit(code) => Err(format!("a lost stream is told as exit {code}")),
    }
}

pub(super) async fn lost_exec<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let Some(command) = &trial.fixtures.lost else { return Ok(()) };
    let handle = answered("create", trial.sandbox.create(&trial.name).await)?;
    match trial.sandbox.exec(&handle, command, &ExecOptions::default()).await {
        Err(SandboxError::Unavailable(_)) => Ok(()),
        other => Err(format!("a lost command answers {other:?}")),
    }
}

pub(super) async fn late_input<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (_, command, mut stream) = start(trial, &trial.fixtures.stay, STDIN).await?;
    let (_, late, mut over) = start(trial, &trial.fixtures.fail, STDIN).await?;
    let mut first = Vec::new();
    until(&mut stream, &mut first, "ready").await?;
    // Until its end is known to whoever takes the input, bytes may go nowhere.
    loop {
        match trial.sandbox.write_stdin(&late, b"x\n").await {
            Err(SandboxError::CommandExited) => break,
            Ok(()) => tokio::task::yield_now().await,
            Err(other) => return Err(format!("a late write answers {other:?}")),
        }
    }
    let (stdout, _, terminal) = all(&mut over).await?;
    holds("what it printed", &stdout, "oops")?;
    same("its terminal", terminal, exit(3))?;
    answered("close_stdin after the end", trial.sandbox.close_stdin(&late).await)?;
    // Another command is not touched by it.
    answered("a write to another", trial.sandbox.write_stdin(&command, b"on\n").await)?;
    until(&mut stream, &mut first, "echo:on").await?;
    answered("close_stdin", trial.sandbox.close_stdin(&command).await)?;
    same("the other's terminal", all(&mut stream).await?.2, exit(0))
}

pub(super) async fn input<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (_, command, mut stream) = start(trial, &trial.fixtures.stay, STDIN).await?;
    let mut seen = Vec::new();
    until(&mut stream, &mut seen, "ready").await?;
    answered("write_stdin", trial.sandbox.write_stdin(&command, b"ping\n").await)?;
    until(&mut stream, &mut seen, "echo:ping").await?;
    // Every byte but the one that ends a line.
    let mut bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    bytes.push(b'\n');
    answered("write_stdin", trial.sandbox.write_stdin(&command, &bytes).await)?;
    answered("close_stdin", trial.sandbox.close_stdin(&command).await)?;
    let (stdout, _, terminal) = all(&mut stream).await?;
    let found = stdout.windows(bytes.len()).any(|part| part == bytes);
    same("whether every byte came back", found, true)?;
    same("the terminal", terminal, exit(0))
}
