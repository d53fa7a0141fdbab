//! Further commands in a box that runs.

use minimal_e2e::Execs;
use minimal_testkit::for_each_user;

for_each_user! {
    /// Streams, input and exit code are the command's own, and so is its record.
    fn attached(env) {
        let id = env.detached("sleep 86601");
        let execs = Execs::of(env, &id);
        execs.sh("exit 42").run().assert_code(42);
        execs.sh("echo out; echo err >&2; cat; exit 3").stdin("input\n").run()
            .assert_code(3)
            .assert_stdout("out\ninput\n")
            .assert_stderr_has("err\n");
        let input: Vec<u8> = (0..=255u8).cycle().take(3_000_000).collect();
        execs.sh("cat").stdin(input.clone()).run().assert_code(0).assert_stdout(&input);
        // As docker's users write it, and by part of the box's id.
        env.min(["exec", &id[28..], "echo", "-n", "x"]).run().assert_code(0).assert_stdout("x");
        env.min(["box", "exec", &id, "--", "true"]).run().assert_code(0);
        let states: Vec<_> = execs.all().iter().map(|it| it["ending"]["exit_code"].clone()).collect();
        assert_eq!(states, [0, 0, 0, 3, 42]);
        assert_eq!(env.show(&id)["execs"], serde_json::json!([]));
        assert_eq!(env.logs(&id), b"", "the box's own output is another");
        assert_eq!(env.show(&id)["state"], "running");
    }

    /// Detached: its id is told, and everything is known by it, also after its box has ended.
    fn detached(env) {
        let id = env.detached("sleep 86602");
        let execs = Execs::of(env, &id);
        let exec = execs.detached("echo one; echo two >&2; read x || echo end of input; exit 9");
        execs.verb("wait", &exec).assert_code(9);
        execs.verb("logs", &exec).assert_code(0).assert_stdout("one\nend of input\n").assert_stderr_has("two\n");
        let attach = execs.verb("attach", &exec);
        attach.assert_code(9).assert_stdout("one\nend of input\n");
        let lives = execs.detached("sleep 86603");
        env.wait_for_process("sleep 86603");
        assert_eq!(env.show(&id)["execs"], serde_json::json!([lives]));
        assert_eq!(execs.show(&lives)["state"], "running");
        env.min(["stop", &id]).run().assert_code(0);
        execs.verb("wait", &lives).assert_code(143);
        for exec in [&exec[28..], &exec] {
            execs.verb("wait", exec).assert_code(9);
            execs.verb("logs", exec).assert_stdout("one\nend of input\n");
        }
        env.min(["rm", &id]).run().assert_code(0);
        execs.verb("wait", &exec).assert_code(4);
    }

    /// Where it starts, as whom, and with what variables: the box's, unless something else is said.
    fn place_and_variables(env) {
        let id = env
            .min(["run", "-d", "-e", "GIVEN=secret", "-w", "/tmp", "--", "sleep", "86604"])
            .run()
            .word()
            .to_owned();
        let sh = |options: &[&str], script: &str| {
            let words = ["exec"].iter().chain(options).copied();
            let words = words.chain([id.as_str(), "--", "sh", "-c", script]);
            env.min(words).env("FROM_CALLER", "caller").run()
        };
        sh(&[], "pwd; id -un; echo \"[$GIVEN]\"").assert_code(0).assert_stdout("/tmp\nbox\n[]\n");
        sh(&["-w", "/usr"], "pwd").assert_stdout("/usr\n");
        let script = "echo $A $FROM_CALLER $HOME";
        sh(&["-e", "A=1", "-e", "FROM_CALLER"], script).assert_stdout("1 caller /home/box\n");
        env.file("vars", "A=from file\n");
        sh(&["--env-file", "vars"], "echo $A").assert_stdout("from file\n");
        sh(&["-e", "MISSING"], "true").assert_code(2).assert_stderr_has("nothing was run");
    }

    /// Its values are in no file, running or ended, and in no other exec's environment.
    fn values_are_in_no_file(env) {
        let id = env.detached("sleep 86605");
        let secret = "battery-staple-correct";
        let mut running = env
            .min(["exec", "-e", "TOKEN", &id, "--", "sh", "-c", "echo ${#TOKEN}; read _"])
            .env("TOKEN", secret)
            .stdin_piped()
            .spawn();
        running.wait_for_stdout("22\n");
        let holders = || {
            let search = format!("grep -rlF {secret} \"$MINIMAL_STATE_DIR\" 2>/dev/null");
            env.bash(&search).run().text().to_owned()
        };
        assert_eq!(holders(), "");
        let others = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c TOKEN";
        Execs::of(env, &id).sh(&format!("{others}; env | grep -c TOKEN")).run();
        running.write(b"go\n");
        running.wait().assert_code(0);
        assert_eq!(holders(), "");
        assert!(!env.min(["events", "-o", "json", &id]).run().text().contains(secret));
    }
}
