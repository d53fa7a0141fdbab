//! Rules of sandboxes: there or not, suspended, with files.

use super::{Held, Trial, answered, holds, same};
use crate::contract::{
    Answer, Capability, ExecOptions, NetworkPolicy, Sandbox, SandboxError, SpawnOptions,
};
use crate::wire::ExitCode;

pub(super) async fn handle<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let handle = trial.sandbox.handle(&trial.name);
    same("the handle's name", handle.name.as_str(), &trial.name)?;
    same("the handle's provider", handle.provider, trial.sandbox.provider())?;
    answered("get of a made sandbox by a made-up handle", {
        answered("create", trial.sandbox.create(&trial.name).await)?;
        trial.sandbox.get(&handle).await
    })?;
    Ok(())
}

pub(super) async fn url<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let handle = answered("create", trial.sandbox.create(&trial.name).await)?;
    let offered = trial.sandbox.capabilities().contains(&Capability::PublicUrl);
    match trial.sandbox.public_url(&handle).await {
        Ok(url) if !offered => Err(format!("{url} is given, and no URL is advertised")),
        Ok(url) if !url.starts_with("http") => Err(format!("{url} is no URL")),
        Err(SandboxError::NotSupported) if offered => Err("a URL is advertised".to_owned()),
        Ok(_) | Err(_) => Ok(()),
    }
}

pub(super) async fn unadvertised<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let offered = trial.sandbox.capabilities();
    let sandbox = trial.sandbox;
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    let refused = |capability: Capability, what: &str, answer: Answer<()>| {
        if offered.contains(&capability) {
            // What it does is another rule's business.
            return same(what, answer == Err(SandboxError::NotSupported), false);
        }
        same(what, answer, Err(SandboxError::NotSupported))
    };
    let (_, stream) = answered(
        "spawn",
        sandbox.spawn(&handle, &trial.fixtures.hello, &SpawnOptions::default()).await,
    )?;
    drop(stream);
    let sessions = answered("list_sessions", sandbox.list_sessions(&handle).await)?;
    let session = sessions.first().ok_or("a session is not listed")?.id.clone();
    let answer = sandbox.attach(&handle, &session).await.map(|_| ());
    refused(Capability::Attach, "attach", answer)?;
    let answer = sandbox.terminate_session(&handle, &session).await;
    refused(Capability::TerminateSession, "terminate_session", answer)?;
    let answer = sandbox.apply_network_policy(&handle, &NetworkPolicy::default()).await;
    refused(Capability::NetworkPolicy, "apply_network_policy", answer)?;
    let answer = sandbox.create_checkpoint(&handle).await.map(|_| ());
    refused(Capability::Checkpoint, "create_checkpoint", answer)?;
    let answer = sandbox.restore_checkpoint(&handle, "none").await;
    refused(Capability::Checkpoint, "restore_checkpoint", answer)?;
    let answer = sandbox.create_new(&trial.other).await.map(|_| ());
    refused(Capability::CreateNew, "create_new", answer)?;
    refused(Capability::Suspend, "suspend", sandbox.suspend(&handle).await)?;
    refused(Capability::Suspend, "resume", sandbox.resume(&handle).await.map(|_| ()))
}

pub(super) async fn fresh<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    if !sandbox.capabilities().contains(&Capability::CreateNew) {
        return Ok(());
    }
    let first = answered("create_new", sandbox.create_new(&trial.name).await)?;
    let id = first.instance_id.clone().filter(|id| !id.is_empty());
    let id = id.ok_or("a fresh sandbox has no instance id")?;
    match sandbox.create_new(&trial.name).await {
        Err(SandboxError::AlreadyExists | SandboxError::Invalid(_)) => {}
        other => return Err(format!("a second creation answers {other:?}")),
    }
    answered("destroy", sandbox.destroy(&first).await)?;
    let second = answered("create_new after destroy", sandbox.create_new(&trial.name).await)?;
    same("whether a new sandbox has the old id", second.instance_id == Some(id), false)
}

pub(super) async fn adopt<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    let first = answered("create", sandbox.create(&trial.name).await)?;
    answered("write_file", sandbox.write_file(&first, "kept", b"kept", None).await)?;
    let second = answered("a second create", sandbox.create(&trial.name).await)?;
    same("the adopted name", &second.name, &first.name)?;
    answered("get", sandbox.get(&second).await).map(|_| ())
}

pub(super) async fn absent<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    let handle = sandbox.handle(&trial.name);
    same("get", sandbox.get(&handle).await, Err(SandboxError::NotFound))?;
    let exec = sandbox.exec(&handle, &trial.fixtures.hello, &ExecOptions::default()).await;
    same("exec", exec, Err(SandboxError::NotFound))
}

pub(super) async fn destroy<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    let absent = sandbox.handle(&trial.other);
    answered("destroy of what is not there", sandbox.destroy(&absent).await)?;
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    answered("destroy", sandbox.destroy(&handle).await)?;
    same("get after destroy", sandbox.get(&handle).await, Err(SandboxError::NotFound))?;
    answered("a second destroy", sandbox.destroy(&handle).await)
}

pub(super) async fn list<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    let names = answered("list_all_names", sandbox.list_all_names().await)?;
    same("whether the list has it", names.contains(&trial.name), true)?;
    answered("destroy", sandbox.destroy(&handle).await)?;
    let names = answered("list_all_names", sandbox.list_all_names().await)?;
    same("whether the list has what was destroyed", names.contains(&trial.name), false)
}

pub(super) async fn suspend<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    if !sandbox.capabilities().contains(&Capability::Suspend) {
        return Ok(());
    }
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    answered("write_file", sandbox.write_file(&handle, "a/b/file", b"kept", None).await)?;
    answered("suspend", sandbox.suspend(&handle).await)?;
    answered("get of a suspended sandbox", sandbox.get(&handle).await)?;
    let resumed = answered("resume", sandbox.resume(&handle).await)?;
    answered("get of a resumed sandbox", sandbox.get(&resumed).await)?;
    let cat = sandbox.exec(&resumed, &trial.fixtures.cat, &ExecOptions::default()).await;
    same("a file after resume", cat, Ok((b"kept".to_vec(), ExitCode::as_told(0))))
}

pub(super) async fn policy<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    if !sandbox.capabilities().contains(&Capability::NetworkPolicy) {
        return Ok(());
    }
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    for allow in [vec![], vec!["example.com".to_owned()]] {
        let policy = NetworkPolicy { allow };
        answered("apply_network_policy", sandbox.apply_network_policy(&handle, &policy).await)?;
    }
    Ok(())
}

pub(super) async fn files<S: Sandbox>(trial: &Trial<'_, S>) -> Held {
    let sandbox = trial.sandbox;
    let handle = answered("create", sandbox.create(&trial.name).await)?;
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let exec = ExecOptions::default();
    for (mode, expected) in [(Some(0o600), "600"), (Some(0o777), "777")] {
        let written = sandbox.write_file(&handle, "a/b/file", &bytes, mode).await;
        answered("write_file", written)?;
        let (read, _) = answered("exec", sandbox.exec(&handle, &trial.fixtures.cat, &exec).await)?;
        same("whether the file has its bytes", read == bytes, true)?;
        let (mode, _) = answered("exec", sandbox.exec(&handle, &trial.fixtures.mode, &exec).await)?;
        holds("the file's mode", &mode, expected)?;
    }
    Ok(())
}
