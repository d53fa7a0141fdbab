//! The daemon is killed at every step of a run, with both streams busy.

use minimal_e2e::Gate;
use minimal_testkit::{LIMIT, TestEnv, for_each_user};
use serde_json::Value;

/// Steps of the daemon during create, stream, stop and end, at which it kills itself once.
const STEPS: [&str; 5] = [
    "daemon.create.before_dir",
    "daemon.create.after_dir",
    "daemon.create.after_launch",
    "daemon.create.after_started",
    "daemon.stream.before_exited",
];

fn echo_with_a_daemon_killed_at(env: &TestEnv, step: &str, number: usize) {
    env.hooks().kill(step);
    let input: Vec<u8> = (0..400_000u32).flat_map(u32::to_le_bytes).collect();
    let name = format!("echo-{number}");
    let output = env
        .min(["run", "--name", &name, "--", "sh", "-c", "cat; echo done >&2; exit 42"])
        .stdin(input.clone())
        .run();
    env.hooks().wait_fired(&format!("{step}.kill"));
    output.assert_code(42).assert_stderr_has("done\n");
    assert!(output.stdout == input, "{step}: bytes differ: {output}");
    // One box, not one for each try.
    let boxes = env.boxes();
    let of_name: Vec<&Value> = boxes.iter().filter(|record| record["name"] == *name).collect();
    assert_eq!(of_name.len(), 1, "{step}: {of_name:?}");
    assert_eq!(of_name[0]["ending"]["exit_code"], 42, "{step}");
    assert_eq!(env.show(&name)["log"]["bytes"], input.len() + 5, "{step}");
}

for_each_user! {
    /// The ending and every byte, both ways, as without.
    fn at_each_step_of_an_attached_run(env) {
        for (number, step) in STEPS.iter().enumerate() {
            echo_with_a_daemon_killed_at(env, step, number);
        }
    }

    /// A box that ends while no daemon runs has its ending, once, for the next one.
    fn an_end_without_a_daemon(env) {
        let gate = Gate::new(env, "gate");
        let script = format!("{}; echo last words; exit 5", gate.wait());
        let id = env
            .min(["run", "-d", "--workspace", "bind", "--", "sh", "-c", &script])
            .run()
            .word()
            .to_owned();
        let keeper = env.keeper(&id);
        env.kill_daemon();
        gate.open();
        keeper.wait_gone(LIMIT);
        assert_eq!(env.daemon(), None);
        env.min(["wait", &id]).run().assert_code(5);
        assert_eq!(env.logs(&id), b"last words\n");
        let ends = env.events(&id).into_iter().filter(|event| event["type"] == "exited").count();
        assert_eq!(ends, 1);
    }

    /// A keeper that has closed its socket and still holds its lock has ended its box: a daemon that
    /// had read the journal before that reads it again.
    fn an_end_between_two_looks(env) {
        let gate = Gate::new(env, "gate");
        let script = format!("echo one; {}; echo two; exit 17", gate.wait());
        let run = env
            .min(["run", "--workspace", "bind", "--", "sh", "-c", &script])
            .stdin("")
            .spawn();
        run.wait_for_stdout("one\n");
        let (daemon, keeper) =
            (env.hooks().pause("daemon.adopt.before_connect"), env.hooks().pause("keeper.end.closed"));
        env.kill_daemon();
        // It knows of the box, and has not connected.
        let daemon = daemon.reached();
        gate.open();
        let keeper = keeper.reached();
        daemon.release();
        run.wait().assert_code(17).assert_stdout("one\ntwo\n");
        assert_eq!(env.newest()["health"], "ok");
        keeper.release();
    }

    /// A `wait` and a `logs -f` that are under way go on with the next daemon.
    fn waiters_and_followers_go_on(env) {
        let gate = Gate::new(env, "gate");
        let script = format!("echo one; {}; echo two; exit 6", gate.wait());
        let id = env
            .min(["run", "-d", "--workspace", "bind", "--", "sh", "-c", &script])
            .run()
            .word()
            .to_owned();
        let wait = env.min(["wait", &id]).spawn();
        let follow = env.min(["logs", "-f", &id]).spawn();
        let events = env.min(["events", "--follow", "-o", "jsonl", &id]).spawn();
        follow.wait_for_stdout("one\n");
        events.wait_for_stdout("started");
        for _ in 0..3 {
            // One of the three clients brings up the next.
            env.kill_daemon();
        }
        gate.open();
        wait.wait().assert_code(6);
        follow.wait().assert_code(0).assert_stdout("one\ntwo\n");
        let seen = events.wait();
        seen.assert_code(0);
        let numbers: Vec<u64> =
            seen.json_lines().iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
        let expected: Vec<u64> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "each event once: {seen}");
    }

    /// A stop that was asked for is carried out whatever becomes of the daemon.
    fn a_stop_under_way(env) {
        let id = env.detached("trap '' TERM; sleep 86422; sleep 86421");
        env.wait_for_process("sleep 86422");
        env.hooks().kill("daemon.stop.before_ask");
        env.min(["stop", "--force", &id]).run().assert_code(0);
        env.hooks().wait_fired("daemon.stop.before_ask.kill");
        let ending = env.ending(&id);
        assert_eq!(ending["reason"], "stopped");
        assert_eq!(ending["signal"], "SIGKILL");
        env.wait_for_no_process("sleep 8642");
    }
}
