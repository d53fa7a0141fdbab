//! The daemon is killed while commands run in a box.

use minimal_e2e::{Execs, Gate};
use minimal_testkit::for_each_user;

/// Steps of the daemon during an exec, at which it kills itself once.
const STEPS: [&str; 4] = [
    "daemon.exec.before_ask",
    "daemon.exec.after_asked",
    "daemon.exec.after_started",
    "daemon.stream.before_exited",
];

for_each_user! {
    /// The ending and every byte, both ways, as without; and it ran once.
    fn at_each_step(env) {
        let id = env.detached("sleep 86661");
        let execs = Execs::of(env, &id);
        let input: Vec<u8> = (0..400_000u32).flat_map(u32::to_le_bytes).collect();
        for (number, step) in STEPS.iter().enumerate() {
            env.hooks().kill(step);
            let output = execs.sh("cat; echo done >&2; exit 42").stdin(input.clone()).run();
            env.hooks().wait_fired(&format!("{step}.kill"));
            output.assert_code(42).assert_stderr_has("done\n");
            assert!(output.stdout == input, "{step}: bytes differ: {output}");
            let ran: Vec<_> = execs
                .all()
                .into_iter()
                .filter(|record| record["ending"]["exit_code"] == 42)
                .collect();
            assert_eq!(ran.len(), number + 1, "{step}: {ran:?}");
        }
    }

    /// One that ends without a daemon has its ending, and its log, for the next.
    fn an_end_without_a_daemon(env) {
        let gate = Gate::new(env, "gate");
        let id = env
            .min(["run", "-d", "--workspace", "bind", "--", "sleep", "86662"])
            .run()
            .word()
            .to_owned();
        let execs = Execs::of(env, &id);
        let exec = execs.detached(&format!("{}; echo done; exit 9", gate.wait()));
        let program = env.wait_for_process(&format!("sh -c {}", &gate.wait()[..8]));
        env.kill_daemon();
        gate.open();
        program.wait_gone(minimal_testkit::LIMIT);
        assert_eq!(env.daemon(), None);
        execs.verb("wait", &exec).assert_code(9);
        execs.verb("logs", &exec).assert_code(0).assert_stdout("done\n");
        assert_eq!(env.show(&id)["execs"], serde_json::json!([]));
    }

    /// Waiters, followers and onlookers of one that lives go on with the next daemon.
    fn everyone_goes_on(env) {
        let gate = Gate::new(env, "gate");
        let id = env
            .min(["run", "-d", "--workspace", "bind", "--", "sleep", "86663"])
            .run()
            .word()
            .to_owned();
        let execs = Execs::of(env, &id);
        let exec = execs.detached(&format!("echo one; {}; echo two; exit 6", gate.wait()));
        let wait = env.min(["wait", &id, "--exec", &exec]).spawn();
        let follow = env.min(["logs", "-f", &id, "--exec", &exec]).spawn();
        let attach = env.min(["attach", "--watch", &id, "--exec", &exec]).spawn();
        follow.wait_for_stdout("one\n");
        attach.wait_for_stdout("one\n");
        for _ in 0..3 {
            env.kill_daemon();
            assert_eq!(env.show(&id)["state"], "running");
        }
        assert_eq!(execs.show(&exec)["state"], "running");
        gate.open();
        wait.wait().assert_code(6);
        follow.wait().assert_code(0).assert_stdout("one\ntwo\n");
        attach.wait().assert_code(6).assert_stdout("one\ntwo\n");
    }

    /// Input and its sum are right though the daemon dies three times on the way.
    fn a_stream_of_input(env) {
        let id = env.detached("sleep 86664");
        let input: String = (1..=3_000_000).map(|number| format!("{number}\n")).collect();
        let expected = env.bash("seq 1 3000000 | sha256sum").run().text().to_owned();
        let mut running = env.min(["exec", &id, "--", "sh", "-c", "head -c 1; sha256sum; echo sum >&2"]).stdin_piped().spawn();
        let (first, rest) = input.as_bytes().split_at(1);
        running.write(first);
        running.wait_for_stdout("1");
        let mut pieces = rest.chunks(rest.len() / 4 + 1);
        for piece in pieces.by_ref().take(3) {
            running.write(piece);
            env.kill_daemon();
        }
        pieces.for_each(|piece| running.write(piece));
        running.close_stdin();
        let output = running.wait();
        output.assert_code(0);
        let sum_of_rest = env.bash("seq 1 3000000 | tail -c +2 | sha256sum").run().text().to_owned();
        assert_eq!(output.text(), format!("1{sum_of_rest}"));
        assert_ne!(expected, sum_of_rest);
    }
}
