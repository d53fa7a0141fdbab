//! `stop` and `kill`.

use minimal_testkit::{LIMIT, for_each_user, wait_until};
use rustix::process::Signal;

for_each_user! {
    /// TERM to every process of the box, sessions of their own included.
    fn everyone_gets_term(env) {
        let script = "sh -c 'trap \"echo child got it; exit 0\" TERM; echo child; sleep 86521 & wait' & \
                      setsid sh -c 'trap \"echo session got it; exit 0\" TERM; echo session; sleep 86522 & wait' & \
                      trap 'wait; exit 4' TERM; echo entry; sleep 86523 & wait";
        let id = env.detached(script);
        for marker in ["sleep 86521", "sleep 86522", "sleep 86523"] {
            env.wait_for_process(marker);
        }
        env.min(["stop", &id]).run().assert_code(0);
        let record = env.show(&id);
        assert_eq!(record["state"], "stopped");
        assert_eq!(record["ending"]["reason"], "stopped");
        assert_eq!(record["ending"]["exit_code"], 4);
        let log = String::from_utf8(env.logs(&id)).unwrap();
        assert!(log.contains("child got it\n") && log.contains("session got it\n"), "{log}");
        env.min(["wait", &id]).run().assert_code(4);
    }

    /// `--force` sends no TERM first.
    fn by_force(env) {
        let id = env.detached("trap 'echo got it' TERM; echo up; while :; do sleep 86524 & wait; done");
        env.wait_for_process("sleep 86524");
        env.min(["stop", "--force", &id]).run().assert_code(0);
        assert_eq!(env.logs(&id), b"up\n");
        let ending = env.ending(&id);
        assert_eq!(ending["reason"], "stopped");
        assert_eq!(ending["signal"], "SIGKILL");
    }

    /// Stopping what has ended succeeds, says so, and changes nothing; two at once are one.
    fn idempotent(env) {
        env.run_sh("exit 3").run().assert_code(3);
        let before = env.show("sh-1");
        env.min(["stop", "sh-1"]).run().assert_code(0).assert_stderr_has("had already ended");
        env.min(["stop", "--force", "sh-1"]).run().assert_code(0);
        assert_eq!(env.show("sh-1"), before);
        let id = env.detached("sleep 86525");
        env.wait_for_process("sleep 86525");
        let stops: Vec<_> = (0..5).map(|_| env.min(["stop", &id]).spawn()).collect();
        for stop in stops {
            stop.wait().assert_code(0);
        }
        let ends = env.events(&id).iter().filter(|event| event["type"] == "exited").count();
        assert_eq!(ends, 1);
    }

    /// An entrypoint that returned before the stop's first signal ended by itself.
    fn an_exit_that_was_first(env) {
        let mut running = env.run_sh("read _; exit 6").stdin_piped().spawn();
        wait_until("it runs", LIMIT, || {
            let boxes = env.boxes();
            if boxes.iter().any(|record| record["state"] == "running") { Ok(()) } else { Err(boxes) }
        });
        let held_at_end = env.hooks().pause("keeper.end.observed");
        running.write(b"go\n");
        let held = held_at_end.reached();
        let stop = env.min(["stop", "sh-1"]).spawn();
        held.release();
        stop.wait().assert_code(0);
        running.wait().assert_code(6);
        let record = env.show("sh-1");
        assert_eq!(record["state"], "exited");
        assert_eq!(record["ending"]["reason"], "exit");
    }

    /// `kill` sends one signal to the entrypoint and changes nothing else.
    fn one_signal(env) {
        let id = env.detached("trap 'echo hup' HUP; trap 'exit 5' USR2; echo up; while :; do sleep 86526 & wait $!; done");
        env.wait_for_process("sleep 86526");
        for spelling in ["HUP", "SIGHUP", "hup", "1"] {
            env.min(["kill", "-s", spelling, &id]).run().assert_code(0);
        }
        wait_until("it has been heard", LIMIT, || {
            let log = env.logs(&id);
            if log.starts_with(b"up\nhup\n") { Ok(()) } else { Err(log) }
        });
        assert_eq!(env.show(&id)["state"], "running");
        for wrong in ["NOSUCH", "0", "65", "-9"] {
            env.min(["kill", &format!("--signal={wrong}"), &id]).run().assert_code(2);
        }
        env.min(["kill", "-s", "USR2", &id]).run().assert_code(0);
        env.min(["wait", &id]).run().assert_code(5);
        assert_eq!(env.ending(&id)["reason"], "exit");
        // To an ended box there is nothing to send.
        env.min(["kill", &id]).run().assert_code(2);
    }

    /// A kill from outside through `kill` is a signal, not a stop.
    fn killed_is_not_stopped(env) {
        let id = env.detached("sleep 86527");
        env.wait_for_process("sleep 86527");
        env.min(["kill", "-s", "KILL", &id]).run().assert_code(0);
        env.min(["wait", &id]).run().assert_code(128 + Signal::KILL.as_raw());
        assert_eq!(env.ending(&id)["reason"], "signal");
        assert_eq!(env.show(&id)["state"], "exited");
    }

    /// Several boxes in one call; one that is not there does not spare the others.
    fn several_at_once(env) {
        let ids: Vec<String> = (0..3).map(|_| env.detached("sleep 86528")).collect();
        let output = env.min(["stop", "--force", &ids[0], "nosuch", &ids[1], &ids[2]]).run();
        output.assert_code(4).assert_stderr_has("nosuch");
        for id in &ids {
            assert_eq!(env.show(id)["state"], "stopped");
        }
    }
}
