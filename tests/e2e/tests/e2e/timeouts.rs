//! Time limits of a box.

use minimal_testkit::for_each_user;

for_each_user! {
    /// The whole tree ends, by the ladder of a stop, and the ending says why.
    fn the_whole_tree_ends(env) {
        let script = "trap 'echo cleaning up; exit 3' TERM; setsid sleep 86481 & echo up; sleep 86482 & wait";
        let output = env.min(["run", "--timeout", "1s", "--", "sh", "-c", script]).run();
        output.assert_code(124).assert_stdout("up\ncleaning up\n");
        assert_eq!(env.find("sleep 8648"), []);
        let record = env.show("sh-1");
        assert_eq!(record["state"], "exited");
        assert_eq!(record["ending"]["reason"], "timeout");
        assert_eq!(record["ending"]["exit_code"], 3);
    }

    /// A command that ends in time ends as itself, whatever code it returns.
    fn an_end_in_time(env) {
        env.min(["run", "--timeout", "1h", "--", "sh", "-c", "exit 124"]).run().assert_code(124);
        assert_eq!(env.ending("sh-1")["reason"], "exit");
    }

    /// It holds without the client and without the daemon.
    fn without_client_and_daemon(env) {
        let id = env
            .min(["run", "-d", "--timeout", "1500ms", "--", "sleep", "86483"])
            .run()
            .word()
            .to_owned();
        let keeper = env.keeper(&id);
        env.kill_daemon();
        keeper.wait_gone(minimal_testkit::LIMIT);
        env.min(["wait", &id]).run().assert_code(124);
    }

    /// Zero, negative, without a unit, not a duration, beyond the clock: refused, each by its reason.
    fn wrong_durations(env) {
        for (text, reason) in [
            ("0", "zero"),
            ("0s", "zero"),
            ("-1s", "negative"),
            ("10", "unit"),
            ("soon", "not a duration"),
            ("99999999999999999999h", "beyond the clock"),
        ] {
            let output = env.min(["run", &format!("--timeout={text}"), "--", "true"]).run();
            output.assert_code(2).assert_stderr_has(reason);
        }
        assert_eq!(env.boxes().len(), 0);
    }

    /// The longest duration there is does not wrap around.
    fn the_longest_duration(env) {
        env.min(["run", "--timeout", "106751d", "--", "true"]).run().assert_code(0);
    }
}
