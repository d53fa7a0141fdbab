//! Rules of sessions: who listens, who joins, who lets go.

use super::{Held, Trial, all, answered, holds, same, until};
use crate::contract::{
    Capability, CommandStream, ExecOptions, Handle, Sandbox, SandboxError, SpawnOptions, Terminal,
};
use crate::wire::ExitCode;

const STDIN: SpawnOptions = SpawnOptions { stdin: true, tty: false };

fn exit(code: i32) -> Terminal {
    Terminal::Exit(ExitCode::as_told(code))
}

/// A command that has printed `ready`, and the id of its session.
async fn staying<S: Sandbox>(
    trial: &Trial<'_, S>,
) -> Result<(Handle, S::Command, CommandStream, Vec<u8>, String), String> {
    let sandbox = trial.sandbox;
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    let spawned = sandbox.spawn(&handle, &trial.fixtures.stay, &STDIN).await;
    let (command, mut stream) = answered("spawn", spawned)?;
    let mut seen = Vec::new();
    until(&mut stream, &mut seen, "ready").await?;
    let sessions = answered("list_sessions", sandbox.list_sessions(&handle).await)?;
    let session = sessions.first().ok_or("a session is not listed")?.id.clone();
    Ok((handle, command, stream, seen, session))
}

fn attaches<S: Sandbox>(trial: &Trial<'_, S>) -> bool {
    trial.sandbox.capabilities().contains(&Capability::Attach)
}

pub(super) async fn let_go<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (handle, command, mut stream, _, session) = staying(trial).await?;
    for _ in 0..2 {
        answered("stop_command", trial.sandbox.stop_command(&command).await)?;
    }
    let (.., terminal) = all(&mut stream).await?;
    same("whether a code is told", matches!(terminal, Terminal::Exit(_)), false)?;
    if attaches(trial) {
        // It runs on.
        let attached = trial.sandbox.attach(&handle, &session).await;
        let (again, mut stream) = answered("attach", attached)?;
        answered("write_stdin", trial.sandbox.write_stdin(&again, b"on\n").await)?;
        until(&mut stream, &mut Vec::new(), "echo:on").await?;
        answered("close_stdin", trial.sandbox.close_stdin(&again).await)?;
        same("the terminal", all(&mut stream).await?.2, exit(0))?;
    }
    Ok(())
}

pub(super) async fn newest_first<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let (handle, command, mut stream, _, first) = staying(trial).await?;
    let (_, second, mut other, _, newest) = staying(trial).await?;
    same("whether the newest is listed first", newest != first, true)?;
    let sessions = answered("list_sessions", trial.sandbox.list_sessions(&handle).await)?;
    let ids: Vec<_> = sessions.iter().map(|session| session.id.as_str()).collect();
    same("the list", ids, vec![newest.as_str(), first.as_str()])?;
    for (command, stream) in [(command, &mut stream), (second, &mut other)] {
        answered("close_stdin", trial.sandbox.close_stdin(&command).await)?;
        all(stream).await?;
    }
    Ok(())
}

pub(super) async fn attach<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    if !attaches(trial) {
        return Ok(());
    }
    let (handle, command, mut owner, mut seen, session) = staying(trial).await?;
    answered("write_stdin", trial.sandbox.write_stdin(&command, b"one\n").await)?;
    until(&mut owner, &mut seen, "echo:one").await?;
    let attached = trial.sandbox.attach(&handle, &session).await;
    let (other, mut joined) = answered("attach", attached)?;
    let mut replay = Vec::new();
    until(&mut joined, &mut replay, "echo:one").await?;
    answered("write_stdin", trial.sandbox.write_stdin(&other, b"two\n").await)?;
    answered("close_stdin", trial.sandbox.close_stdin(&command).await)?;
    for (stream, seen) in [(&mut owner, &mut seen), (&mut joined, &mut replay)] {
        let (rest, _, terminal) = all(stream).await?;
        seen.extend(rest);
        same("the terminal", terminal, exit(0))?;
    }
    holds("what the owner saw", &seen, "echo:two")?;
    same("what the attacher saw", String::from_utf8_lossy(&replay), String::from_utf8_lossy(&seen))
}

pub(super) async fn attach_ended<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    if !attaches(trial) {
        return Ok(());
    }
    let sandbox = trial.sandbox;
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    let spawned = sandbox.spawn(&handle, &trial.fixtures.fail, &SpawnOptions::default()).await;
    let (_, mut stream) = answered("spawn", spawned)?;
    let first = all(&mut stream).await?;
    let sessions = answered("list_sessions", sandbox.list_sessions(&handle).await)?;
    let session = sessions.first().ok_or("an ended session is not listed")?;
    // Twice at once: the end of one replay is not the other's.
    let attached = sandbox.attach(&handle, &session.id).await;
    let (_, mut one) = answered("attach", attached)?;
    let attached = sandbox.attach(&handle, &session.id).await;
    let (_, mut two) = answered("attach", attached)?;
    same("what the second attacher saw", all(&mut two).await?, first.clone())?;
    same("what the first attacher saw", all(&mut one).await?, first)
}

pub(super) async fn attach_lost<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let Some(command) = trial.fixtures.lost.as_ref().filter(|_| attaches(trial)) else {
        return Ok(());
    };
    let sandbox = trial.sandbox;
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    let spawned = sandbox.spawn(&handle, command, &SpawnOptions::default()).await;
    let (_, mut stream) = answered("spawn", spawned)?;
    all(&mut stream).await?;
    // A provider that was lost with it cannot be asked.
    let Ok(sessions) = sandbox.list_sessions(&handle).await else { return Ok(()) };
    let Some(session) = sessions.first() else { return Ok(()) };
    match sandbox.attach(&handle, &session.id).await {
        Err(SandboxError::Unavailable(_)) => Ok(()),
        Err(other) => Err(format!("attach to a lost session answers {other:?}")),
        Ok((_, mut stream)) => match all(&mut stream).await? {
            (.., Terminal::Exit(code)) => Err(format!("a lost session is told as exit {code}")),
            (.., Terminal::Fault(_)) => Ok(()),
        },
    }
}

pub(super) async fn every_subscriber<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    if !attaches(trial) {
        return Ok(());
    }
    let (handle, command, owner, _, session) = staying(trial).await?;
    let mut streams = vec![owner];
    for _ in 0..4 {
        let attached = trial.sandbox.attach(&handle, &session).await;
        streams.push(answered("attach", attached)?.1);
    }
    answered("close_stdin", trial.sandbox.close_stdin(&command).await)?;
    for stream in &mut streams {
        same("a subscriber's terminal", all(stream).await?.2, exit(0))?;
    }
    Ok(())
}

pub(super) async fn many<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    if !attaches(trial) {
        return Ok(());
    }
    let (handle, command, mut owner, mut seen, session) = staying(trial).await?;
    let mut joined = Vec::new();
    for line in 0..20 {
        // What it prints and who joins meet in every order.
        let text = format!("line {line}\n");
        let (write, attached) = tokio::join!(
            trial.sandbox.write_stdin(&command, text.as_bytes()),
            trial.sandbox.attach(&handle, &session),
        );
        answered("write_stdin", write)?;
        joined.push(answered("attach", attached)?.1);
    }
    answered("close_stdin", trial.sandbox.close_stdin(&command).await)?;
    seen.extend(all(&mut owner).await?.0);
    holds("what the owner saw", &seen, "echo:line 19")?;
    for stream in &mut joined {
        let (all, ..) = all(stream).await?;
        same("an attacher's view", String::from_utf8_lossy(&all), String::from_utf8_lossy(&seen))?;
    }
    Ok(())
}

pub(super) async fn unknown<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    if !attaches(trial) {
        return Ok(());
    }
    let handle = answered("create", trial.sandbox.create(&trial.name).await)?;
    let attached = trial.sandbox.attach(&handle, "s-none").await.map(|_| ());
    same("attach to no session", attached, Err(SandboxError::NotFound))
}

pub(super) async fn terminate<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    if !sandbox.capabilities().contains(&Capability::TerminateSession) {
        return Ok(());
    }
    let (handle, command, mut stream, _, session) = staying(trial).await?;
    for _ in 0..2 {
        answered("terminate_session", sandbox.terminate_session(&handle, &session).await)?;
    }
    all(&mut stream).await?;
    let write = sandbox.write_stdin(&command, b"x\n").await;
    same("a write to what was terminated", write, Err(SandboxError::CommandExited))?;
    answered("get", sandbox.get(&handle).await)?;
    let exec = sandbox.exec(&handle, &trial.fixtures.hello, &ExecOptions::default()).await;
    holds("the output of a further command", &answered("exec", exec)?.0, "hello")
}
