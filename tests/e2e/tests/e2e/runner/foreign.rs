//! The protocol as others read it: `tests/runner-client`, in Python, written from the reference alone.
//! Its hub has our runner, and its runner our hub.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicU32;

use minimal_runner::conformance::suite;
use minimal_testkit::{TestEnv, need};
use rustix::process::Signal;

use super::Whole;
use super::hub::{Hub, TOKEN, block_on, connect};

const PYTHON: &str = "/usr/bin/python3";

fn client(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../runner-client").join(file)
}

fn has_websockets() -> bool {
    let imported = Command::new(PYTHON).args(["-c", "import websockets"]).output();
    let imported = imported.is_ok_and(|output| output.status.success());
    need::met("websockets", imported, "python3-websockets is not installed")
}

#[test]
fn a_hub_written_from_the_reference_has_our_runner() {
    let env = &TestEnv::new();
    if !need::userns(env.account()) || !has_websockets() {
        return;
    }
    let hub = env.command(Path::new(PYTHON), [client("hub.py")]).env("RUNNER_TOKEN", TOKEN).spawn();
    let port = hub.stdout_until("its port", |bytes| bytes.ends_with(b"\n"));
    let port = String::from_utf8(port).unwrap();
    let runner = connect(env, &format!("http://127.0.0.1:{}/base/", port.trim()), "py-1");
    hub.wait_for_stdout("ok");
    runner.signal(Signal::TERM);
    runner.wait().assert_code(0);
    hub.wait().assert_code(0);
}

#[test]
fn a_runner_written_from_the_reference_keeps_every_rule_for_our_hub() {
    let env = &TestEnv::new();
    if !has_websockets() {
        return;
    }
    block_on(async {
        let hub = Hub::listen().await;
        let words = [client("runner.py").into_os_string(), hub.url().into(), "py-1".into()];
        let runner = env.command(Path::new(PYTHON), words).env("RUNNER_TOKEN", TOKEN).spawn();
        let connected = hub.runner().await;
        let sandbox = connected.sandbox.clone().without_suspend();
        let kit = Whole { sandbox, names: AtomicU32::new(0) };
        assert_eq!(suite(&kit).await, []);
        connected.hang_up().await;
        runner.wait().assert_code(0);
    });
}
