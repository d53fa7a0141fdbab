//! `min runner`: this machine's boxes, served to a hub that the scenario plays.

mod answers;
mod foreign;
pub(crate) mod hub;

use std::sync::atomic::{AtomicU32, Ordering};

use minimal_runner::conformance::{Fixtures, Kit, suite};
use minimal_runner::contract::{
    ExecOptions, Sandbox as _, SandboxError, SpawnOptions, Status, StreamFault, Terminal,
};
use minimal_runner::hub::{RunnerSandbox, Served};
use minimal_runner::wire::{CommandLine, ExitCode};
use minimal_testkit::{LIMIT, Proxy, TestEnv, for_each_user, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use self::hub::{Hub, block_on, connect};
use crate::sandboxes;

const STDIN: SpawnOptions = SpawnOptions { stdin: true, tty: false };

fn sh(script: &str) -> CommandLine {
    CommandLine {
        cmd: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        ..CommandLine::default()
    }
}

fn exit(code: i32) -> Terminal {
    Terminal::Exit(ExitCode::as_told(code))
}

/// What `min runner status` says of a runner.
fn status(env: &TestEnv, name: &str) -> Value {
    let output = env.min(["runner", "status", name, "-o", "json"]).run();
    output.assert_code(0);
    output.json()["runners"][0].clone()
}

/// Waits until it says that a runner is in this state.
fn wait_for(env: &TestEnv, name: &str, state: &str) -> Value {
    wait_until(&format!("runner {name} is {state}"), LIMIT, || {
        let status = status(env, name);
        if status["state"] == state { Ok(status) } else { Err(status) }
    })
}

for_each_user! {
    /// A command's code is its own, and its output whole, though its link is cut, its runner killed and
    /// its daemon too.
    fn commands_outlive_link_runner_and_daemon(env) {
        block_on(async {
            let hub = Hub::listen().await;
            let mut runner = connect(env, &hub.url(), "one");
            let mut connected = hub.runner().await;
            let (path, shown) = connected.asked.clone();
            assert!(path.starts_with("/api/runners/ws?name=one&hostname="), "{path}");
            assert_eq!(shown, format!("Bearer {}", hub::TOKEN));
            wait_for(env, "one", "connected");
            let handle = connected.sandbox.create("box-1").await.unwrap();
            let exec = ExecOptions::default();
            let ran = connected.sandbox.exec(&handle, &sh("echo out; exit 42"), &exec).await;
            assert_eq!(ran, Ok((b"out\n".to_vec(), ExitCode::as_told(42))));

            let script = sh("printf one; read x; printf $x; read x; printf $x; read x; exit $x");
            let spawned = connected.sandbox.spawn(&handle, &script, &STDIN).await;
            let (mut command, mut stream) = spawned.unwrap();
            let session = connected.sandbox.session_id(&command);
            for (lost, (word, so_far)) in [("two", "onetwo"), ("three", "onetwothree"), ("7", "")]
                .into_iter()
                .enumerate()
            {
                match lost {
                    0 => connected.cut(),
                    1 => {
                        runner.process().kill();
                        assert_eq!(wait_for(env, "one", "gone")["name"], "one");
                        drop(runner.wait());
                        runner = connect(env, &hub.url(), "one");
                    }
                    _ => {
                        env.kill_daemon();
                        connected.cut();
                    }
                }
                let (.., terminal) = stream.collect().await;
                assert_eq!(terminal, Terminal::Fault(StreamFault::RunnerDisconnected));
                connected = hub.runner().await;
                (command, stream) = connected.sandbox.attach(&handle, &session).await.unwrap();
                let line = format!("{word}\n");
                connected.sandbox.write_stdin(&command, line.as_bytes()).await.unwrap();
                let mut seen = Vec::new();
                while !so_far.is_empty() && seen != so_far.as_bytes() {
                    match stream.next().await.unwrap() {
                        minimal_runner::contract::Event::Output(_, bytes) => seen.extend(bytes),
                        other => panic!("{other:?} after {seen:?}"),
                    }
                }
            }
            let (stdout, _, terminal) = stream.collect().await;
            assert_eq!((stdout.as_slice(), terminal), (&b"onetwothree"[..], exit(7)));
            let (_, mut again) = connected.sandbox.attach(&handle, &session).await.unwrap();
            assert_eq!(again.collect().await, (stdout, Vec::new(), exit(7)));

            // What has no session ends with its link.
            let hanging = connected.sandbox.clone();
            let hanging = tokio::spawn(async move {
                let sleep = sh("exec sleep 86791");
                hanging.exec(&hanging.handle("box-1"), &sleep, &ExecOptions::default()).await
            });
            env.wait_for_process("sleep 86791");
            connected.cut();
            assert!(matches!(hanging.await.unwrap(), Err(SandboxError::Unavailable(_))));
            env.wait_for_no_process("sleep 86791");
            connected = hub.runner().await;

            connected.sandbox.get(&handle).await.unwrap();
            // It leaves in good order, and what it has served stays.
            runner.signal(Signal::TERM);
            let ended = connected.ended().await;
            assert!(matches!(ended, Served::ByRunner), "{ended:?}");
            let output = runner.wait();
            output.assert_code(0).assert_stderr_has("The runner has left");
            assert_eq!(status(env, "one")["state"], "stopped");
            assert_eq!(env.newest()["state"], "running");
        });
    }
}

/// Everything the contract asks of a provider, through a hub, a link, `min runner connect`, the daemon
/// and boxes.
struct Whole {
    sandbox: RunnerSandbox,
    names: AtomicU32,
}

impl Kit for Whole {
    type Sandbox = RunnerSandbox;

    async fn fresh(&self) -> RunnerSandbox {
        self.sandbox.clone()
    }

    fn name(&self) -> String {
        let n = self.names.fetch_add(1, Ordering::Relaxed);
        format!("runner-00112233445566778899aabbccddeeff-{n:08x}")
    }

    fn fixtures(&self) -> Fixtures {
        sandboxes::fixtures()
    }
}

for_each_user! {
    /// The conformance suite, from end to end, over a link that splits and holds back what it carries.
    fn the_whole_way_keeps_every_rule(env) {
        let can_pause = sandboxes::can_pause(env);
        block_on(async {
            let hub = Hub::listen().await;
            let proxy = Proxy::new(hub.address, 7, 0);
            let runner = connect(env, &format!("http://{}", proxy.address()), "one");
            let mut sandbox = hub.runner().await.sandbox;
            if !can_pause {
                sandbox = sandbox.without_suspend();
            }
            let kit = Whole { sandbox: sandbox.clone(), names: AtomicU32::new(0) };
            assert_eq!(suite(&kit).await, []);

            // What only this runner promises: the signal beside its code, a reason beside 127, a home
            // by the name that hubs know it by, and a state that says that all stands still.
            let handle = sandbox.create("box").await.unwrap();
            let exec = ExecOptions { stderr_to_stdout: true, ..ExecOptions::default() };
            let (_, code) = sandbox.exec(&handle, &sh("kill -USR1 $$"), &exec).await.unwrap();
            assert_eq!((code.get(), code.signal()), (138, Some(10)));
            let (_, code) = sandbox.exec(&handle, &sh("exit 138"), &exec).await.unwrap();
            assert_eq!((code.get(), code.signal()), (138, None));
            let none = CommandLine { cmd: "nosuch".to_owned(), ..CommandLine::default() };
            let (output, code) = sandbox.exec(&handle, &none, &exec).await.unwrap();
            assert_eq!(code.get(), 127);
            assert!(String::from_utf8_lossy(&output).contains("nosuch"), "{output:?}");
            let program = b"#!/bin/sh\ncd /home/sprite && pwd -P && echo $HOME\n";
            sandbox.write_file(&handle, "/home/sprite/p", program, Some(0o755)).await.unwrap();
            let run = CommandLine { cmd: "/home/sprite/p".to_owned(), ..CommandLine::default() };
            let ran = sandbox.exec(&handle, &run, &exec).await.unwrap();
            assert_eq!(String::from_utf8_lossy(&ran.0), "/home/box\n/home/box\n");
            if can_pause {
                sandbox.suspend(&handle).await.unwrap();
                assert_eq!(sandbox.get(&handle).await.unwrap().status, Status::Suspended);
                let refused = sandbox.exec(&handle, &sh("true"), &exec).await;
                assert!(matches!(refused, Err(SandboxError::Unavailable(_))), "{refused:?}");
                sandbox.resume(&handle).await.unwrap();
            }
            assert_eq!(sandbox.get(&handle).await.unwrap().status, Status::Running);
            runner.signal(Signal::TERM);
            runner.wait().assert_code(0);
        });
    }
}

/// Runners of one machine do not see each other's sandboxes, and two cannot have one name.
#[test]
fn each_runner_has_its_own_name_and_its_own_sandboxes() {
    let env = &TestEnv::new();
    if !minimal_testkit::need::userns(env.account()) {
        return;
    }
    block_on(async {
        let hub = Hub::listen().await;
        let one = connect(env, &hub.url(), "one");
        let of_one = hub.runner().await.sandbox;
        let two = connect(env, &hub.url(), "two");
        let of_two = hub.runner().await.sandbox;
        let handle = of_one.create("box-1").await.unwrap();
        assert_eq!(of_one.list_all_names().await.unwrap().len(), 1);
        assert_eq!(of_two.list_all_names().await.unwrap().len(), 0);
        let foreign = of_two.handle("box-1");
        assert_eq!(of_two.get(&foreign).await, Err(SandboxError::NotFound));
        let ran = of_two.exec(&foreign, &sh("true"), &ExecOptions::default()).await;
        assert_eq!(ran, Err(SandboxError::NotFound));
        of_two.destroy(&foreign).await.unwrap();
        assert!(matches!(of_two.create("box-1").await, Err(SandboxError::Invalid(_))));
        assert!(of_one.get(&handle).await.is_ok());

        let other = connect(env, &hub.url(), "one").wait();
        other.assert_code(2).assert_stderr_has("runs on this machine already (pid ");
        let names = env.min(["runner", "status", "-o", "jsonl"]).run().json_lines();
        let names: Vec<_> = names.iter().map(|runner| runner["name"].clone()).collect();
        assert_eq!(names, ["one", "two"]);
        env.min(["runner", "status", "three"]).run().assert_code(4);
        for runner in [one, two] {
            runner.signal(Signal::INT);
            runner.wait().assert_code(0);
        }
    });
}
