//! `wait`, by anyone, at any time.

use minimal_testkit::for_each_user;

for_each_user! {
    /// Its own time limit is no ending, and changes nothing.
    fn a_wait_that_runs_out(env) {
        let id = env.detached("trap 'exit 7' TERM; sleep 86501 & wait");
        env.wait_for_process("sleep 86501");
        let output = env.min(["wait", "--timeout", "50ms", "-o", "json", &id]).run();
        output.assert_code(1);
        assert_eq!(output.error()["code"], "wait_timeout");
        assert_eq!(env.show(&id)["state"], "running");
        env.min(["kill", &id]).run().assert_code(0);
        env.min(["wait", "--timeout", "1h", &id]).run().assert_code(7);
    }

    /// Ended before anyone waited; many at once; several boxes in one call.
    fn many_waiters(env) {
        let ended = env.detached("exit 3");
        env.min(["wait", &ended]).run().assert_code(3);
        let running = env.detached("trap 'exit 4' USR1; echo up; sleep 86502 & wait");
        env.wait_for_process("sleep 86502");
        let waits: Vec<_> = (0..10).map(|_| env.min(["wait", &running]).spawn()).collect();
        env.min(["kill", "-s", "USR1", &running]).run().assert_code(0);
        for wait in waits {
            wait.wait().assert_code(4);
        }
        let both = env.min(["wait", "-o", "jsonl", &ended, &running]).run();
        let codes: Vec<_> = both.json_lines().iter().map(|ending| ending["exit_code"].clone()).collect();
        assert_eq!(codes, [3, 4], "{both}");
    }

    /// The ending as JSON, with nulls written out.
    fn the_ending_as_json(env) {
        let id = env.detached("kill -KILL $$");
        let output = env.min(["wait", "-o", "json", &id]).run();
        output.assert_code(137);
        let ending = output.json();
        assert_eq!(ending["reason"], "signal");
        assert_eq!(ending["signal"], "SIGKILL");
        assert_eq!(ending["signal_number"], 9);
        assert_eq!(ending["core_dumped"], false);
        assert!(ending.as_object().unwrap().contains_key("exit_code"), "{ending}");
        assert!(ending["at"].as_str().unwrap().ends_with('Z'), "{ending}");
        assert_eq!(ending["observed_by"], "keeper");
    }
}
