//! Services that say when they are ready.

use minimal_testkit::{Min, TestEnv, for_each_user};
use serde_json::Value;

/// A start of a service with this script and probe.
fn start(env: &TestEnv, script: &str, ready: &str) -> Min {
    env.file(
        "minimal.toml",
        format!("[services.s]\nexec = [\"sh\", \"-c\", '''{script}''']\nrestart = \"never\"\nready = {ready}\n"),
    );
    env.min(["box", "start", "s"])
}

fn has_ready(env: &TestEnv) -> bool {
    env.events("s").iter().any(|event| event["type"] == "ready")
}

for_each_user! {
    /// A start returns once the command says so, which runs where the entrypoint does.
    fn by_a_command(env) {
        let probe = "{ exec = [\"sh\", \"-c\", \"test $(id -un) = box && test $PWD = /workbench && test -e up\"], interval = \"1ms\" }";
        let id = start(env, ">up; exec sleep 86741", probe).run().word().to_owned();
        assert!(has_ready(env));
        env.min(["stop", "--force", &id]).run().assert_code(0);
        // Nobody waits who does not want to.
        drop(start(env, "exec sleep 86741", "{ exec = [\"test\", \"-e\", \"/tmp/up\"] }"));
        let id = env.min(["box", "start", "--no-wait", "s"]).run().word().to_owned();
        assert_eq!(env.show(&id)["entrypoint"]["ready"], false);
        env.min(["stop", "--force", &id]).run().assert_code(0);
    }

    /// The start waits for the answer.
    fn waited_for(env) {
        let probe = "{ exec = [\"test\", \"-e\", \"/tmp/up\"], interval = \"1ms\" }";
        let script = "mkfifo /tmp/go; read _ </tmp/go; >/tmp/up; exec sleep 86742";
        let starting = start(env, script, probe).spawn();
        minimal_testkit::wait_until("the box waits", minimal_testkit::LIMIT, || {
            let go = env.min(["exec", "s", "--", "test", "-p", "/tmp/go"]).run();
            if go.code() == Some(0) { Ok(()) } else { Err(go.code()) }
        });
        assert!(!starting.has_ended());
        assert_eq!(env.show("s")["entrypoint"]["ready"], false);
        env.min(["exec", "s", "--", "sh", "-c", "echo >/tmp/go"]).run().assert_code(0);
        let id = starting.wait().word().to_owned();
        assert_eq!(env.show(&id)["entrypoint"]["ready"], true);
        assert!(has_ready(env));
        env.kill_daemon();
        assert_eq!(env.show(&id)["entrypoint"]["ready"], true);
        assert_eq!(env.show(&id)["execs"], serde_json::json!([]), "a probe has no record");
        env.min(["stop", "--force", &id]).run().assert_code(0);
    }

    /// A port of the box's own network, and no other's.
    fn by_a_port(env) {
        let script = "exec perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => q(127.0.0.1), LocalPort => 18461) or die $!; while (my $c = $s->accept) { close $c }'";
        let id = start(env, script, "{ port = 18461, interval = \"1ms\" }").run().word().to_owned();
        assert_eq!(env.show(&id)["entrypoint"]["ready"], true);
        assert!(std::net::TcpStream::connect(("127.0.0.1", 18461)).is_err(), "it is not the host's");
        env.min(["stop", "--force", &id]).run().assert_code(0);
        let host = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = host.local_addr().unwrap().port();
        let probe = format!("{{ port = {port}, interval = \"1ms\", timeout = \"300ms\" }}");
        let failed = start(env, "exec sleep 86743", &probe).run();
        failed.assert_code(125).assert_stdout("").assert_stderr_has("Connection refused");
        let ending = env.ending("s");
        assert_eq!((&ending["reason"], &ending["signal"]), (&"not_ready".into(), &"SIGTERM".into()));
        assert!(ending["detail"]["message"].as_str().unwrap().contains(&format!("port {port}")), "{ending}");
        env.wait_for_no_process("sleep 86743");
    }

    /// Not in time: the box ends, and says what the last look has found. Also one that hangs.
    fn not_in_time(env) {
        let probe = "{ exec = [\"sh\", \"-c\", \"exit 9\"], interval = \"1ms\", timeout = \"300ms\" }";
        let failed = start(env, "trap 'exit 4' TERM; sleep 86744 & wait", probe).run();
        failed.assert_code(125).assert_stdout("").assert_stderr_has("`sh` returned 9");
        let record = env.show("s");
        assert_eq!((&record["state"], &record["ending"]["exit_code"]), (&"exited".into(), &4.into()));
        assert!(!has_ready(env));
        let hangs = start(env, "exec sleep 86745", "{ exec = [\"sleep\", \"86746\"], timeout = \"300ms\" }").run();
        hangs.assert_code(125).assert_stderr_has("the probe has not answered");
        let missing = start(env, "exec sleep 86745", "{ exec = \"/no/such\", interval = \"1ms\", timeout = \"200ms\" }").run();
        missing.assert_code(125).assert_stderr_has("cannot execute `/no/such`");
        env.wait_for_no_process("sleep 8674");
    }

    /// A stop before that is a stop.
    fn stopped_before(env) {
        let starting = start(env, "exec sleep 86747", "{ exec = [\"sleep\", \"86748\"] }").spawn();
        env.wait_for_process("sleep 86748");
        env.min(["stop", "s"]).run().assert_code(0);
        starting.wait().assert_code(143).assert_stdout("").assert_stderr_has("ended before it was ready");
        assert_eq!(env.ending("s")["reason"], "stopped");
        assert_eq!(env.show("s")["entrypoint"], Value::Null);
        env.wait_for_no_process("sleep 8674");
    }
}
