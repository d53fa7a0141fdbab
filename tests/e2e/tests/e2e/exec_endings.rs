//! How execs end: by themselves, by a stop, a signal, a timeout, with their box.

use minimal_e2e::Execs;
use minimal_testkit::{LIMIT, for_each_user, wait_until};
use rustix::process::Signal;
use serde_json::Value;

for_each_user! {
    /// Stop, kill and timeout reach the whole group of one exec, and nothing else.
    fn the_group_and_nothing_else(env) {
        let id = env.detached("sleep 86611");
        let execs = Execs::of(env, &id);
        let other = execs.detached("sleep 86612");
        env.wait_for_process("sleep 86612");
        let in_two = "sleep 86613 & sleep 86613; exit 0";
        let exec = execs.detached(in_two);
        env.wait_for_process("sleep 86613");
        execs.verb("stop", &exec).assert_code(0);
        env.wait_for_no_process("sleep 86613");
        let ending = execs.show(&exec)["ending"].clone();
        assert_eq!((&ending["reason"], &ending["signal"]), (&"stopped".into(), &"SIGTERM".into()));
        // Stopped again: it had ended.
        execs.verb("stop", &exec).assert_code(0);

        let exec = execs.detached("trap '' TERM; sleep 86613; sleep 86613");
        env.wait_for_process("sleep 86613");
        env.min(["stop", "--force", &id, "--exec", &exec]).run().assert_code(0);
        assert_eq!(execs.show(&exec)["ending"]["signal"], "SIGKILL");
        env.wait_for_no_process("sleep 86613");

        let timed = ["exec", "--timeout", "100ms", &id, "--", "sh", "-c", in_two];
        env.min(timed).run().assert_code(124);
        env.wait_for_no_process("sleep 86613");
        assert_eq!(execs.all()[0]["ending"]["reason"], "timeout");

        let exec = execs.detached("sleep 86613");
        env.min(["kill", "-s", "USR1", &id, "--exec", &exec]).run().assert_code(0);
        execs.verb("wait", &exec).assert_code(128 + 10);
        let ending = execs.show(&exec)["ending"].clone();
        assert_eq!((&ending["reason"], &ending["signal"]), (&"signal".into(), &"SIGUSR1".into()));
        env.min(["kill", &id, "--exec", &exec]).run().assert_code(2);

        assert_eq!(execs.show(&other)["state"], "running");
        assert_eq!(env.show(&id)["execs"], serde_json::json!([other]));
    }

    /// With the box, however that ends.
    fn with_its_box(env) {
        let id = env.detached("trap 'exit 5' USR1; sleep 86614 & wait");
        let execs = Execs::of(env, &id);
        env.wait_for_process("sleep 86614");
        let exec = execs.detached("trap 'exit 6' TERM; sleep 86615 & wait");
        env.wait_for_process("sleep 86615");
        let watching = env.min(["attach", &id, "--exec", &exec]).spawn();
        env.min(["kill", "-s", "USR1", &id]).run().assert_code(0);
        env.min(["wait", &id]).run().assert_code(5);
        watching.wait().assert_code(6);
        let ending = execs.show(&exec)["ending"].clone();
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"box_ended".into(), &6.into()));
        assert_eq!(env.show(&id)["execs"], serde_json::json!([]));
        execs.sh("true").run().assert_code(2).assert_stderr_has("exited");
    }

    /// Its keeper is killed: nobody knows, and that is said.
    fn with_its_keeper(env) {
        let id = env.detached("sleep 86616");
        let execs = Execs::of(env, &id);
        let before = execs.detached("exit 8");
        execs.verb("wait", &before).assert_code(8);
        let exec = execs.detached("echo up; sleep 86617");
        env.wait_for_process("sleep 86617");
        let (wait, attach) = (
            env.min(["wait", &id, "--exec", &exec]).spawn(),
            env.min(["attach", &id, "--exec", &exec]).spawn(),
        );
        attach.wait_for_stdout("up\n");
        env.keeper(&id).kill();
        wait.wait().assert_code(125).assert_stderr_has("lost");
        attach.wait().assert_code(125).assert_stdout("up\n").assert_stderr_has("lost");
        env.wait_for_no_process("sleep 86617");
        let ending = execs.show(&exec)["ending"].clone();
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"lost".into(), &Value::Null));
        assert!(execs.show(&exec)["started_at"].is_string(), "that it ran is known");
        execs.verb("wait", &before).assert_code(8);
        env.kill_daemon();
        assert!(execs.show(&exec)["started_at"].is_string());
        execs.verb("wait", &exec).assert_code(125);
        execs.verb("logs", &exec).assert_stdout("up\n");
    }

    /// What it leaves running stays, and does not hold up its end.
    fn it_leaves_others_behind(env) {
        let id = env.detached("sleep 86618");
        let execs = Execs::of(env, &id);
        execs.sh("setsid sleep 86619 >/dev/null 2>&1 </dev/null & exit 4").run().assert_code(4);
        env.wait_for_process("sleep 86619");
        execs.sh("sleep 86620 & echo ended; exit 5").run().assert_code(5).assert_stdout("ended\n");
        let ending = execs.all()[0]["ending"].clone();
        assert_eq!(ending["detail"]["output_still_open"], true, "{ending}");
        env.wait_for_process("sleep 86620");
        assert_eq!(env.show(&id)["state"], "running");
    }

    /// One that comes while the box ends never starts, and the box has one life.
    fn one_at_the_moment_of_exit(env) {
        let id = env.detached("trap 'exit 7' USR1; sleep 86621 & wait");
        env.wait_for_process("sleep 86621");
        // The keeper stands still while the end and the request arrive.
        let keeper = env.keeper(&id);
        let execs = Execs::of(env, &id);
        execs.sh("true").run().assert_code(0);
        keeper.stop();
        let entrypoint = env.wait_for_process("sh -c trap");
        entrypoint.signal(Signal::USR1);
        let queued = execs.sh("echo too late").spawn();
        entrypoint.wait_gone(LIMIT);
        keeper.signal(Signal::CONT);
        let output = queued.wait();
        // Refused; or silent for so long that it was given up.
        assert!(matches!(output.code(), Some(2 | 125)), "{output}");
        output.assert_stdout("");
        env.min(["wait", &id]).run().assert_code(7);
        let started = env.events(&id).into_iter().filter(|event| event["type"] == "started").count();
        assert_eq!(started, 1);
        assert_eq!(execs.all().len(), 1);
    }

    /// Whoever asks while the box is killed is told what became of it: it ran, it ended with the box, or it
    /// never ran. Never that nobody knows.
    fn while_the_box_is_killed(env) {
        let id = env.detached("exec sleep 86622");
        let script = format!(
            "for loop in 1 2 3 4; do (for i in $(seq 40); do min exec {id} -- true 2>>errors; echo $? >>statuses; done) & done; \
             until [ $(cat statuses 2>/dev/null | wc -l) -ge 20 ]; do :; done; min kill -s KILL {id}; wait"
        );
        env.bash(&script).run().assert_code(0);
        let read = |name: &str| std::fs::read_to_string(env.work().join(name)).expect(name);
        let (statuses, errors) = (read("statuses"), read("errors"));
        assert_eq!(statuses.lines().count(), 160);
        // Ran; refused; ended before its program began, or with the box.
        let known = statuses.lines().all(|status| ["0", "2", "125", "137", "143"].contains(&status));
        assert!(known, "{statuses}");
        assert!(!errors.contains("not known"), "{errors}");
    }

    /// Signals to the client reach its group; a second end stops the exec, and the box runs on.
    fn signals_to_the_client(env) {
        let id = env.detached("sleep 86622");
        let execs = Execs::of(env, &id);
        let script = "trap 'echo got it; exit 21' USR1; echo up; sleep 86623 & wait";
        let running = execs.sh(script).spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86623");
        running.signal(Signal::USR1);
        running.wait().assert_code(21).assert_stdout("up\ngot it\n");

        let running = execs.sh("trap '' INT; echo up; while :; do sleep 86624; done").spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86624");
        wait_until("it was stopped", LIMIT, || {
            // Two signals that arrive together are one.
            running.signal(Signal::INT);
            let reason = execs.all()[0]["ending"]["reason"].clone();
            if reason == "stopped" { Ok(()) } else { Err(reason) }
        });
        running.wait();
        env.wait_for_no_process("sleep 86624");
        let running = execs.sh("echo up; exec sleep 86625").spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86625");
        running.signal(Signal::INT);
        assert_eq!(running.wait().signal(), Some(Signal::INT.as_raw()));
        assert_eq!(env.show(&id)["state"], "running");
    }
}
