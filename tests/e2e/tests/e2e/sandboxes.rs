//! This machine's boxes as a provider of sandboxes: the conformance suite on the real daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use minimal_runner::conformance::{Fixtures, Kit, suite};
use minimal_runner::contract::{
    ExecOptions, Sandbox as _, SandboxError, SpawnOptions, Terminal, Unavailable,
};
use minimal_runner::local::LocalSandbox;
use minimal_runner::wire::{CommandLine, ExitCode};
use minimal_sdk::{Client, SocketConnector};
use minimal_testkit::TestEnv;

fn command(words: &[&str]) -> CommandLine {
    let mut words = words.iter().map(|word| (*word).to_owned());
    let cmd = words.next().unwrap();
    CommandLine { cmd, args: words.collect(), ..CommandLine::default() }
}

fn sh(script: &str) -> CommandLine {
    command(&["sh", "-c", script])
}

struct Boxes<'a> {
    env: &'a TestEnv,
    can_pause: bool,
    names: AtomicU32,
}

fn local(env: &TestEnv) -> LocalSandbox {
    let socket = env.state_dir().join("minimald.sock");
    LocalSandbox::new(Client::new(Arc::new(SocketConnector::new(socket))))
}

/// Whether boxes of this user can stand still here.
pub(crate) fn can_pause(env: &TestEnv) -> bool {
    let id = env.detached("sleep 86404");
    let freezer = env.show(&id)["enforcement"]["freezer"].is_string();
    env.min(["rm", "--force", &id]).run().assert_code(0);
    freezer
}

impl Kit for Boxes<'_> {
    type Sandbox = LocalSandbox;

    async fn fresh(&self) -> LocalSandbox {
        local(self.env).can_pause(self.can_pause)
    }

    fn name(&self) -> String {
        // Every second is one that no box can be called.
        let n = self.names.fetch_add(1, Ordering::Relaxed);
        if n.is_multiple_of(2) { format!("conformance-{n}") } else { format!("Conformance_{n}") }
    }

    fn fixtures(&self) -> Fixtures {
        fixtures()
    }
}

/// Commands that behave as the suite wants, in a box.
pub(crate) fn fixtures() -> Fixtures {
    Fixtures {
        hello: command(&["echo", "hello"]),
        fail: sh("echo oops; exit 3"),
        killed: sh("kill -TERM $$"),
        both: sh("echo out; echo err >&2"),
        stay: sh("echo ready; sed -u 's/^/echo:/'"),
        much: (
            command(&["perl", "-e", "print join('', map { chr } 0..250) x 12000"]),
            251 * 12_000,
        ),
        hang: command(&["sleep", "86401"]),
        env: sh("echo \"$CONFORMANCE\""),
        dir: command(&["pwd"]),
        cat: command(&["cat", "a/b/file"]),
        mode: command(&["stat", "-c", "%a", "a/b/file"]),
        lost: None,
    }
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn boxes_keep_every_rule() {
    let env = TestEnv::new();
    if !minimal_testkit::need::userns(env.account()) {
        return;
    }
    env.min(["host", "show"]).run().assert_code(0);
    let kit = Boxes { env: &env, can_pause: can_pause(&env), names: AtomicU32::new(0) };
    block_on(async { assert_eq!(suite(&kit).await, []) });
}

/// What is long, what cannot be started, whose box is somebody else's, and what nobody saw end.
#[test]
fn ends_are_true_or_unknown() {
    let env = TestEnv::new();
    if !minimal_testkit::need::userns(env.account()) {
        return;
    }
    env.min(["host", "show"]).run().assert_code(0);
    block_on(async {
        let sandbox = local(&env);
        let handle = sandbox.create("box-1").await.unwrap();
        let exec = ExecOptions::default();
        let (output, code) =
            sandbox.exec(&handle, &sh("yes | head -c 20000000; exit 42"), &exec).await.unwrap();
        assert_eq!((output.len(), code.get()), (20_000_000, 42));
        let (output, code) =
            sandbox.exec(&handle, &command(&["/nowhere/program"]), &exec).await.unwrap();
        assert_eq!(code.get(), 127);
        assert!(!output.is_empty(), "its output says why");

        // The daemon is killed under it: the code is its own all the same.
        let options = SpawnOptions { stdin: true, tty: false };
        let asked = sh("echo ready; read x; exit 7");
        let (waits, mut stream) = sandbox.spawn(&handle, &asked, &options).await.unwrap();
        stream.next().await.unwrap();
        env.kill_daemon();
        env.min(["host", "show"]).run().assert_code(0);
        sandbox.write_stdin(&waits, b"go\n").await.unwrap();
        assert_eq!(stream.collect().await.2, Terminal::Exit(ExitCode::as_told(7)));

        // The keeper is killed: nobody saw the end, so there is no code.
        let (lost, mut stream) =
            sandbox.spawn(&handle, &command(&["sleep", "86402"]), &options).await.unwrap();
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        env.keeper(&id).kill();
        let (.., terminal) = stream.collect().await;
        assert!(matches!(terminal, Terminal::Fault(_)), "{terminal:?}");
        let session = sandbox.session_id(&lost);
        let attached = sandbox.attach(&handle, &session).await.map(|_| ());
        assert_eq!(attached, Err(SandboxError::Unavailable(Unavailable::ExitUnknown)));
        // Its box is there, with what it holds, and says that it has ended.
        sandbox.get(&handle).await.unwrap();
        let refused = sandbox.exec(&handle, &sh("true"), &exec).await;
        assert!(matches!(refused, Err(SandboxError::Unavailable(_))), "{refused:?}");

        // A box of somebody's own is none of ours, whatever it is called.
        env.min(["run", "-d", "--name", "own", "--", "sleep", "86403"]).run().assert_code(0);
        let own = sandbox.handle("own");
        assert_eq!(sandbox.get(&own).await, Err(SandboxError::NotFound));
        sandbox.destroy(&own).await.unwrap();
        assert_eq!(env.show("own")["state"], "running");
        assert!(matches!(sandbox.create("own").await, Err(SandboxError::Invalid(_))));
        sandbox.destroy(&handle).await.unwrap();
        assert_eq!(sandbox.list_all_names().await.unwrap().len(), 0);
    });
}
