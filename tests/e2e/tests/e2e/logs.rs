//! `logs`: what a box printed, whole or in part.

use minimal_e2e::Gate;
use minimal_testkit::for_each_user;

for_each_user! {
    /// Streams apart, and together.
    fn streams(env) {
        let id = env.detached("echo one; echo two >&2; echo three; exit 0");
        env.min(["wait", &id]).run().assert_code(0);
        let both = env.min(["logs", &id]).run();
        both.assert_code(0).assert_stdout("one\nthree\n");
        assert_eq!(both.stderr, "two\n");
        let only = |stream: &str| env.min(["logs", "--stream", stream, &id]).run();
        only("stdout").assert_code(0).assert_stdout("one\nthree\n");
        assert_eq!(only("stdout").stderr, "");
        assert_eq!(only("stderr").stderr, "two\n");
        only("stderr").assert_stdout("");
        only("nosuch").assert_code(2);
    }

    /// The last lines; more than there are; none; a last line without its end.
    fn tail(env) {
        let id = env.detached("seq 1 1000; printf end");
        env.min(["wait", &id]).run().assert_code(0);
        let tail = |n: &str| env.min(["logs", "--tail", n, &id]).run();
        tail("3").assert_code(0).assert_stdout("999\n1000\nend");
        tail("1").assert_stdout("end");
        tail("0").assert_stdout("");
        assert_eq!(tail("5000").stdout, env.logs(&id));
        tail("-1").assert_code(2);
    }

    /// Since a time: a moment of the box itself, and a duration before now.
    fn since(env) {
        let gate = Gate::new(env, "gate");
        let script = format!("echo before; {}; echo after", gate.wait());
        let running = env.min(["run", "--workspace", "bind", "--", "sh", "-c", &script]).spawn();
        running.wait_for_stdout("before\n");
        let between = env.command("/bin/date".as_ref(), ["-u", "+%Y-%m-%dT%H:%M:%S.%6NZ"]).run().word().to_owned();
        gate.open();
        running.wait().assert_code(0);
        env.min(["logs", "--since", &between, "sh-1"]).run().assert_code(0).assert_stdout("after\n");
        env.min(["logs", "--since", "1h", "sh-1"]).run().assert_stdout("before\nafter\n");
        env.min(["logs", "--since", "2000-01-01T00:00:00Z", "sh-1"]).run().assert_stdout("before\nafter\n");
        env.min(["logs", "--since", "2200-01-01T00:00:00Z", "sh-1"]).run().assert_code(0).assert_stdout("");
        env.min(["logs", "--since", "yesterday", "sh-1"]).run().assert_code(2);
    }

    /// A time before each line, and the line unchanged after it.
    fn timestamps(env) {
        let id = env.detached("echo one; echo; printf two");
        env.min(["wait", &id]).run().assert_code(0);
        let output = env.min(["logs", "--timestamps", &id]).run();
        output.assert_code(0);
        let lines: Vec<(&str, &str)> =
            output.text().lines().map(|line| line.split_once(' ').unwrap_or((line, ""))).collect();
        assert_eq!(lines.iter().map(|(_, line)| *line).collect::<Vec<_>>(), ["one", "", "two"], "{output}");
        for (time, _) in lines {
            assert!(time.ends_with('Z') && time.len() == "2026-01-02T03:04:05.000006Z".len(), "{output}");
        }
    }

    /// Following ends at the end of the box, also when it has ended already.
    fn follow(env) {
        let gate = Gate::new(env, "gate");
        let script = format!("echo one; {}; echo two; exit 3", gate.wait());
        let id = env.min(["run", "-d", "--workspace", "bind", "--", "sh", "-c", &script]).run().word().to_owned();
        let follow = env.min(["logs", "-f", &id]).spawn();
        follow.wait_for_stdout("one\n");
        let tail = env.min(["logs", "-f", "--tail", "0", &id]).spawn();
        gate.open();
        follow.wait().assert_code(0).assert_stdout("one\ntwo\n");
        let tail = tail.wait();
        assert!(matches!(tail.text(), "" | "two\n"), "{tail}");
        env.min(["logs", "-f", &id]).run().assert_code(0).assert_stdout("one\ntwo\n");
    }

    /// Bytes of every value.
    fn exact(env) {
        let input: Vec<u8> = (0..=255u8).cycle().take(1 << 20).collect();
        env.run(["cat"]).stdin(input.clone()).run().assert_code(0);
        assert!(env.logs("cat-1") == input, "the log differs");
    }
}
