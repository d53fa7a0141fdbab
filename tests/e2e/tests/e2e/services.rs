//! Boxes that live until they are stopped.

use minimal_e2e::Execs;
use minimal_testkit::{LIMIT, TestEnv, for_each_user, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Starts a script in a box that lives until it is stopped, and returns the box's id.
fn started(env: &TestEnv, script: &str) -> String {
    env.min(["box", "start", "--", "sh", "-c", script]).run().word().to_owned()
}

/// A box without a command.
fn bare(env: &TestEnv) -> String {
    env.min(["box", "start", "--bare"]).run().word().to_owned()
}

/// Waits until its entrypoint has returned, and returns what the record says of that.
fn returned(env: &TestEnv, id: &str) -> Value {
    wait_until("its entrypoint has returned", LIMIT, || {
        let entrypoint = env.show(id)["entrypoint"].clone();
        if entrypoint["state"] == "returned" { Ok(entrypoint) } else { Err(entrypoint) }
    })
}

fn types(env: &TestEnv, id: &str) -> Vec<Value> {
    env.events(id).into_iter().map(|event| event["type"].clone()).collect()
}

for_each_user! {
    /// The return is an event, and the box is there for execs until it is stopped; its ending has the
    /// code then.
    fn a_return_is_no_end(env) {
        let id = started(env, "echo up; sleep 86701 & exit 7");
        let entrypoint = returned(env, &id);
        assert_eq!(entrypoint["returned"]["exit_code"], 7);
        assert_eq!(entrypoint["returned"]["reason"], "exit");
        env.wait_for_process("sleep 86701");
        let record = env.show(&id);
        assert_eq!((&record["state"], &record["ending"]), (&"running".into(), &Value::Null));
        assert!(env.min(["show", &id]).run().text().contains("returned: exit 7"));
        Execs::of(env, &id).sh("exit 5").run().assert_code(5);
        env.min(["kill", &id]).run().assert_code(2).assert_stderr_has("entrypoint has ended");
        env.min(["wait", "--timeout", "1ms", &id]).run().assert_code(1);
        env.min(["stop", &id]).run().assert_code(0);
        let ending = env.ending(&id);
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"stopped".into(), &7.into()));
        env.min(["wait", &id]).run().assert_code(7);
        env.wait_for_no_process("sleep 86701");
        let expected = ["created", "started", "entrypoint_returned", "exec_started", "exec_exited", "stop_requested", "exited"];
        assert_eq!(types(env, &id), expected);
        assert_eq!(env.show(&id)["entrypoint"], Value::Null);
    }

    /// Who is attached is told that the command has returned, and stays to the end.
    fn an_attached_client_stays(env) {
        let id = started(env, "echo up; kill -s ABRT $$");
        let attach = env.min(["attach", &id]).spawn();
        attach.wait_for_stderr("was ended by SIGABRT. The box runs on");
        env.min(["stop", &id]).run().assert_code(0);
        attach.wait().assert_code(134).assert_stdout("up\n");
    }

    /// A box without a command is a place for execs, and its stop ends them.
    fn bare_boxes(env) {
        let id = bare(env);
        let record = env.show(&id);
        assert_eq!((&record["state"], &record["type"]), (&"running".into(), &"sandbox".into()));
        assert_eq!((&record["program"], &record["entrypoint"]["state"]), (&Value::Null, &"none".into()));
        let execs = Execs::of(env, &id);
        execs.sh("echo in; pwd; id -un; exit 3").run().assert_code(3).assert_stdout("in\n/workbench\nbox\n");
        env.min(["kill", &id]).run().assert_code(2).assert_stderr_has("no entrypoint");
        let exec = execs.detached("trap 'echo got it; exit 6' TERM; echo ready; sleep 86702 & wait");
        env.wait_for_process("sleep 86702");
        env.min(["stop", &id]).run().assert_code(0);
        let ending = env.ending(&id);
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"stopped".into(), &0.into()));
        assert_eq!(ending["detail"]["observed_of"], "init");
        assert_eq!(execs.show(&exec)["ending"]["reason"], "box_ended");
        execs.verb("wait", &exec).assert_code(6);
        let forced = bare(env);
        env.min(["stop", "--force", &forced]).run().assert_code(0);
        assert_eq!(env.ending(&forced)["signal"], "SIGKILL");
        env.min(["rm", &id, &forced]).run().assert_code(0);
    }

    /// A stop while the command runs is as of any box.
    fn stopped_while_it_runs(env) {
        let id = started(env, "trap 'exit 4' TERM; echo up; sleep 86703 & wait");
        env.wait_for_process("sleep 86703");
        env.min(["stop", &id]).run().assert_code(0);
        let ending = env.ending(&id);
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"stopped".into(), &4.into()));
        assert!(!types(env, &id).contains(&"entrypoint_returned".into()));
    }

    /// What ignores TERM in a box whose command has returned is killed when the grace is over.
    fn a_grace_after_the_return(env) {
        let id = started(env, "exit 3");
        returned(env, &id);
        let exec = Execs::of(env, &id).detached("trap '' TERM; sleep 86704; sleep 86705");
        env.wait_for_process("sleep 86704");
        env.min(["stop", "--grace", "1ms", &id]).run().assert_code(0);
        env.wait_for_no_process("sleep 86705");
        assert_eq!(env.ending(&id)["exit_code"], 3);
        Execs::of(env, &id).verb("wait", &exec).assert_code(137);
    }

    /// A time limit is one of such a box too.
    fn a_timeout_ends_it(env) {
        let id = env.min(["box", "start", "--timeout", "300ms", "--", "sh", "-c", "exit 8"]).run().word().to_owned();
        env.min(["wait", &id]).run().assert_code(124);
        let ending = env.ending(&id);
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"timeout".into(), &8.into()));
    }

    /// A daemon that comes later knows what has returned, and serves such boxes.
    fn a_later_daemon(env) {
        let (id, bare) = (started(env, "echo up; exit 9"), bare(env));
        let before = returned(env, &id);
        env.kill_daemon();
        assert_eq!(env.show(&id)["entrypoint"], before);
        let attach = env.min(["attach", &id]).spawn();
        attach.wait_for_stderr("returned 9. The box runs on");
        Execs::of(env, &bare).sh("exit 2").run().assert_code(2);
        env.min(["stop", &id, &bare]).run().assert_code(0);
        attach.wait().assert_code(9).assert_stdout("up\n");
    }

    /// A killed keeper: nobody saw the end, and what the command had returned is none.
    fn a_lost_keeper(env) {
        let (id, bare) = (started(env, "sleep 86706 & exit 0"), bare(env));
        returned(env, &id);
        env.wait_for_process("sleep 86706");
        for box_id in [&id, &bare] {
            env.keeper(box_id).kill();
            env.min(["wait", box_id]).run().assert_code(125);
            assert_eq!(env.ending(box_id)["reason"], "lost");
        }
        assert_eq!(env.ending(&id)["detail"]["entrypoint_returned"]["exit_code"], 0);
        assert!(env.ending(&bare)["detail"]["entrypoint_returned"].is_null());
        env.wait_for_no_process("sleep 86706");
        env.min(["rm", &id, &bare]).run().assert_code(0);
    }

    /// An init that somebody on the host kills takes the box with it, as it died.
    fn a_lost_init(env) {
        let (id, bare) = (started(env, "exit 0"), bare(env));
        returned(env, &id);
        for box_id in [&id, &bare] {
            let keeper = env.keeper(box_id);
            let is_its = |process: &minimal_testkit::Process| process.parent == keeper.pid;
            let init = env.find("min-init").into_iter().find(is_its).expect("a box has an init");
            init.signal(Signal::KILL);
            env.min(["wait", box_id]).run().assert_code(137);
            let ending = env.ending(box_id);
            assert_eq!((&ending["reason"], &ending["signal"]), (&"signal".into(), &"SIGKILL".into()));
            assert_eq!(ending["detail"]["observed_of"], "init");
        }
    }

    /// Services of a project: started by name, once at a time, and never waited for by a run.
    fn of_a_project(env) {
        env.file(
            "minimal.toml",
            "[services.web]\nexec = [\"sh\", \"-c\", \"echo %{word}; sleep 86707\"]\nrestart = \"never\"\n\
             args.word = { type = \"string\" }\n[tasks.once]\nexec = \"true\"\n",
        );
        let start = |words: &[&str]| env.min(["box", "start"].iter().chain(words)).run();
        start(&["once"]).assert_code(2).assert_stderr_has("min run once");
        start(&["wbe"]).assert_code(2).assert_stderr_has("services of this project: web");
        let help = start(&["web", "--help"]);
        assert!(help.text().contains("min box start web --word <string>"), "{}", help.text());
        start(&[]).assert_code(2).assert_stderr_has("nothing to start");
        env.min(["run", "web"]).run().assert_code(2).assert_stderr_has("min box start web");
        let id = start(&["web", "--word", "up"]).word().to_owned();
        env.wait_for_process("sleep 86707");
        let record = env.show("web");
        assert_eq!((&record["id"], &record["type"]), (&id.as_str().into(), &"service".into()));
        assert_eq!(env.logs(&id), b"up\n");
        start(&["web", "--word", "x"]).assert_code(2).assert_stderr_has("nothing was run");
        env.min(["stop", "web"]).run().assert_code(0);
        let next = start(&["-o", "json", "web", "--word", "x"]).json();
        assert_eq!(next["name"], "web");
        env.min(["stop", "--force", "web"]).run().assert_code(0);
    }

    /// A start that fails says so as a run does, and prints no id.
    fn a_start_that_fails(env) {
        let failed = env.min(["box", "start", "--", "/no/such"]).run();
        failed.assert_code(127).assert_stdout("").assert_stderr_has("did not start");
    }
}
