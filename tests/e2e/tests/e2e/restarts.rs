//! Services whose command is started again.

use minimal_e2e::Execs;
use minimal_testkit::{LIMIT, TestEnv, for_each_user, wait_until};
use serde_json::Value;

/// Starts a service with this policy and script, and returns the box's id.
fn started(env: &TestEnv, restart: &str, script: &str) -> String {
    let file =
        format!("[services.s]\nexec = [\"sh\", \"-c\", '''{script}''']\nrestart = {restart}\n");
    env.file("minimal.toml", file + "vars = { TOKEN = { inherit = true } }\n");
    env.min(["box", "start", "-e", "TOKEN", "s"])
        .env("TOKEN", "correct-battery")
        .run()
        .word()
        .to_owned()
}

/// Waits until the entrypoint was started again so often.
fn restarted(env: &TestEnv, id: &str, times: u64) {
    wait_until("it was started again", LIMIT, || {
        let entrypoint = env.show(id)["entrypoint"].clone();
        if entrypoint["restarts"] == times && entrypoint["state"] == "running" {
            Ok(())
        } else {
            Err(entrypoint)
        }
    });
}

fn count(env: &TestEnv, id: &str, kind: &str) -> usize {
    env.events(id).iter().filter(|event| event["type"] == kind).count()
}

const COUNTS: &str = "n=$(cat /tmp/n 2>/dev/null || echo 0); echo $((n+1)) >/tmp/n; ";

for_each_user! {
    /// Until it stays: in the same box, with its values, one log, and no life more.
    fn until_it_stays(env) {
        let script = format!("{COUNTS} echo run $n $TOKEN $(id -un) $(pwd); sleep 86731 & test $n -ge 2 || exit 3; wait");
        let id = started(env, "{ policy = \"on_failure\", backoff = \"1ms\", max = 3 }", &script);
        restarted(env, &id, 2);
        env.wait_for_process("sleep 86731");
        let line = |n| format!("run {n} correct-battery box /workbench\n");
        wait_until("all has come", LIMIT, || {
            let log = String::from_utf8(env.logs(&id)).unwrap();
            if log == line(0) + &line(1) + &line(2) { Ok(()) } else { Err(log) }
        });
        let record = env.show(&id);
        assert_eq!((&record["lives"], &record["state"]), (&1.into(), &"running".into()));
        assert_eq!(record["entrypoint"]["returned"]["exit_code"], 3);
        assert_eq!((count(env, &id, "entrypoint_returned"), count(env, &id, "restarted")), (2, 2));
        Execs::of(env, &id).sh("echo \"[$TOKEN]\"").run().assert_stdout("[]\n");
        let search = "grep -rlF correct-battery \"$MINIMAL_STATE_DIR\" --exclude-dir=log 2>/dev/null";
        assert_eq!(env.bash(search).run().text(), "", "values are on no disk");
        env.min(["kill", "-s", "KILL", &id]).run().assert_code(0);
        restarted(env, &id, 3);
        env.min(["stop", &id]).run().assert_code(0);
        assert_eq!(env.ending(&id)["reason"], "stopped");
        env.wait_for_no_process("sleep 86731");
    }

    /// As often in a row as it may, and then the box is not ready.
    fn used_up(env) {
        let id = started(env, "{ policy = \"always\", backoff = \"1ms\", max = 2 }", "echo again; exit 4");
        env.min(["wait", &id]).run().assert_code(125);
        let ending = env.ending(&id);
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"not_ready".into(), &4.into()));
        assert!(ending["detail"]["message"].as_str().unwrap().contains("as often as it may"), "{ending}");
        assert_eq!(env.show(&id)["state"], "exited");
        assert_eq!(env.logs(&id), b"again\nagain\nagain\n");
        assert_eq!((count(env, &id, "entrypoint_returned"), count(env, &id, "restarted")), (3, 2));
    }

    /// A success is no failure.
    fn a_success_stays(env) {
        let id = started(env, "\"on_failure\"", "exit 0");
        wait_until("it has returned", LIMIT, || {
            let entrypoint = env.show(&id)["entrypoint"].clone();
            if entrypoint["state"] == "returned" { Ok(()) } else { Err(entrypoint) }
        });
        assert_eq!(count(env, &id, "restarted"), 0);
        env.min(["stop", &id]).run().assert_code(0);
    }

    /// A stop in the pause before a restart ends the box at once.
    fn stopped_in_the_pause(env) {
        let id = started(env, "{ policy = \"always\", backoff = \"2h\", backoff_max = \"3h\" }", "exit 5");
        wait_until("it has returned", LIMIT, || {
            let entrypoint = env.show(&id)["entrypoint"].clone();
            if entrypoint["state"] == "returned" { Ok(()) } else { Err(entrypoint) }
        });
        Execs::of(env, &id).sh("exit 6").run().assert_code(6);
        env.kill_daemon();
        env.min(["stop", &id]).run().assert_code(0);
        let ending = env.ending(&id);
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"stopped".into(), &5.into()));
        assert_eq!(count(env, &id, "restarted"), 0);
    }

    /// A program that is gone when it is to be started again counts as a failure, and says so.
    fn a_program_that_is_gone(env) {
        env.file("minimal.toml", "[services.s]\nexec = [\"/workbench/own\"]\nrestart = { policy = \"always\", backoff = \"1ms\", max = 2 }\n");
        env.script("own", "#!/bin/sh\nrm /workbench/own\nexit 7\n");
        let id = env.min(["box", "start", "s"]).run().word().to_owned();
        env.min(["wait", &id]).run().assert_code(125);
        let record = env.show(&id);
        assert_eq!(record["ending"]["exit_code"], 7);
        assert!(record["health_reason"].as_str().unwrap().contains("was not started again"), "{record}");
        assert_ne!(record["ending"]["detail"], Value::Null);
    }

    /// From the command line.
    fn by_option(env) {
        let id = env.min(["box", "start", "--restart", "always", "--", "sh", "-c", "test -e /tmp/n && exec sleep 86732; >/tmp/n"]).run().word().to_owned();
        env.wait_for_process("sleep 86732");
        restarted(env, &id, 1);
        env.min(["stop", "--force", &id]).run().assert_code(0);
    }
}
