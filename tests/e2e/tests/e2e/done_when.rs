//! The journeys the product stands for.

use minimal_testkit::{LIMIT, for_each_user, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};

for_each_user! {
    /// Each output on its stream, the command's own code, and a record that says the same.
    fn streams_and_code(env) {
        let output = env.run_sh("echo out; echo err >&2; exit 7").run();
        output.assert_code(7).assert_stdout("out\n");
        assert!(output.stderr.starts_with("err\n"), "{output}");
        output.assert_stderr_has("Kept box sh-1. Remove it with min box rm sh-1.");
        let record = env.show("sh-1");
        assert_eq!(record["schema"], "min/v1/box");
        assert_eq!(record["state"], "exited");
        let ending = &record["ending"];
        assert_eq!(ending["reason"], "exit");
        assert_eq!(ending["exit_code"], 7);
        for null in ["signal", "signal_number"] {
            assert_eq!(ending.get(null), Some(&Value::Null), "written out: {ending}");
        }
    }

    /// A death by signal and a code above 128 stay apart.
    fn signal_is_not_a_code(env) {
        env.run_sh("kill -SEGV $$").run().assert_code(139);
        let ending = env.ending("sh-1");
        assert_eq!(ending["reason"], "signal");
        assert_eq!(ending["signal"], "SIGSEGV");
        assert_eq!(ending["signal_number"], 11);
        assert_eq!(ending["exit_code"], Value::Null);
        env.run_sh("exit 139").run().assert_code(139);
        let ending = env.ending("sh-2");
        assert_eq!(ending["reason"], "exit");
        assert_eq!(ending["exit_code"], 139);
        assert_eq!(ending["signal"], Value::Null);
    }

    /// A program that is missing, one that is none, and a timeout.
    fn failed_starts_and_timeout(env) {
        env.run(["nosuch"]).run().assert_code(127);
        env.run(["/etc/passwd"]).run().assert_code(126);
        for name in ["nosuch-1", "passwd-1"] {
            let record = env.show(name);
            assert_eq!(record["state"], "failed");
            assert_eq!(record["ending"]["reason"], "start_failed");
            assert_eq!(record["ending"]["exit_code"], Value::Null);
            assert_eq!(record["ending"]["signal"], Value::Null);
        }
        env.min(["run", "--timeout", "300ms", "--", "sleep", "60"]).run().assert_code(124);
        let ending = env.ending("sleep-1");
        assert_eq!(ending["reason"], "timeout");
        // What the kernel said is kept beside the reason.
        assert_eq!(ending["signal"], "SIGTERM");
    }

    /// Bytes through a box and back while the daemon is killed: none lost, none twice. The two
    /// gigabytes are in `heavy`.
    fn bytes_both_ways_across_killed_daemons(env) {
        let input: Vec<u8> = (0..8u32 << 20).flat_map(u32::to_le_bytes).collect();
        let running = env.run(["cat"]).stdin(input.clone()).spawn();
        for part in 1..=3 {
            running.stdout_until("a further part", |so_far| so_far.len() > part * (8 << 20));
            env.kill_daemon();
        }
        let output = running.wait();
        output.assert_code(0);
        assert!(output.stdout == input, "what came back is not what went in");
    }

    /// Two thousand lines, three killed daemons, one code.
    fn a_daemon_killed_three_times(env) {
        let running = env
            .run_sh("for i in $(seq 1 2000); do echo $i; sleep 0.002; done; exit 42")
            .spawn();
        for line in [100, 700, 1500] {
            running.wait_for_stdout(&format!("\n{line}\n"));
            env.kill_daemon();
        }
        let output = running.wait();
        output.assert_code(42);
        let expected: String = (1..=2000).map(|i| format!("{i}\n")).collect();
        output.assert_stdout(expected);
        assert_eq!(env.ending("sh-1")["exit_code"], 42);
    }

    /// A keeper that is killed takes its box along, and nobody invents a code.
    fn a_killed_keeper_is_lost(env) {
        let running = env.run_sh("echo up; sleep 86411 & sleep 86412").spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86412");
        let id = env.newest()["id"].as_str().expect("a box has an id").to_owned();
        env.keeper(&id).kill();
        let output = running.wait();
        output.assert_code(125).assert_stdout("up\n");
        env.wait_for_no_process("sleep 8641");
        let record = env.show(&id);
        assert_eq!(record["state"], "stopped");
        assert_eq!(record["ending"]["reason"], "lost");
        assert_eq!(record["ending"]["exit_code"], Value::Null);
        assert_eq!(record["ending"]["signal"], Value::Null);
        assert_eq!(record["ending"]["observed_by"], "daemon");
        assert_eq!(env.logs(&id), b"up\n");
    }

    /// The box of a killed client completes; its output and code are there for whoever comes.
    fn a_killed_client_changes_nothing(env) {
        let running = env
            .run_sh("echo first; trap 'echo got it; exit 9' USR1; sleep 86413 & wait; echo not this")
            .spawn();
        running.wait_for_stdout("first\n");
        env.wait_for_process("sleep 86413");
        running.process().kill();
        assert_eq!(running.wait().signal(), Some(Signal::KILL.as_raw()));
        assert_eq!(env.show("sh-1")["state"], "running");
        env.min(["kill", "-s", "USR1", "sh-1"]).run().assert_code(0);
        env.min(["wait", "sh-1"]).run().assert_code(9);
        assert_eq!(env.logs("sh-1"), b"first\ngot it\n");
    }

    /// What a command leaves running ends with it, in a session of its own or not.
    fn nothing_outlives_the_command(env) {
        env.run_sh("setsid sleep 86414 & sleep 86415 & exit 3").run().assert_code(3);
        // No waiting: it was empty before the ending was told.
        assert_eq!(env.find("sleep 8641"), []);
        assert_eq!(env.ending("sh-1")["reason"], "exit");
    }

    /// A command substitution returns, also when it is the one that starts the daemon.
    fn a_cold_command_substitution_returns(env) {
        let output = env.bash("x=$(min run -- echo hi) && echo \"got $x\"").run();
        output.assert_code(0).assert_stdout("got hi\n");
    }

    /// A reader that leaves: the client says which box runs on.
    fn a_closed_pipe_names_the_box(env) {
        let script = "min run -- yes | head -1; echo \"${PIPESTATUS[0]}\"";
        let output = env.bash(script).run();
        output.assert_code(0).assert_stdout("y\n141\n").assert_stderr_has("yes-1");
        assert_eq!(env.show("yes-1")["state"], "running");
        env.min(["stop", "--force", "yes-1"]).run().assert_code(0);
        assert_eq!(env.show("yes-1")["state"], "stopped");
    }

    /// `run`, `wait` now, `wait` later and `wait` after a restart of the daemon agree.
    fn one_code_by_every_way(env) {
        env.run_sh("exit 42").run().assert_code(42);
        let id = env.detached("exit 42");
        env.min(["wait", &id]).run().assert_code(42);
        env.min(["wait", &id]).run().assert_code(42);
        let running = env.detached("trap 'exit 42' TERM; echo ready; sleep 86416 & wait");
        env.wait_for_process("sleep 86416");
        env.kill_daemon();
        wait_until("the box has printed", LIMIT, || {
            let log = env.logs(&running);
            if log == b"ready\n" { Ok(()) } else { Err(log) }
        });
        env.kill_daemon();
        env.min(["kill", &running]).run().assert_code(0);
        env.kill_daemon();
        let answer = env.min(["wait", "-o", "json", &running]).run();
        answer.assert_code(42);
        assert_eq!(answer.json()["reason"], "exit");
        assert_eq!(answer.json()["exit_code"], json!(42));
    }
}
