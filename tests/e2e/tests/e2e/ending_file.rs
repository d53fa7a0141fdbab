//! `--ending-file` and `--ending-fd`: for scripts that must tell our codes and the command's apart.

use minimal_testkit::command::json_file;
use minimal_testkit::for_each_user;
use serde_json::Value;

for_each_user! {
    /// The command's own 125 and ours are told apart.
    fn our_codes_and_the_commands(env) {
        let file = env.work().join("ending.json");
        let run = |command: &[&str]| {
            env.min(["run", "--ending-file", "ending.json", "--"].iter().chain(command)).run()
        };
        run(&["sh", "-c", "exit 125"]).assert_code(125);
        assert_eq!(json_file(&file)["reason"], "exit");
        assert_eq!(json_file(&file)["exit_code"], 125);
        run(&["nosuch"]).assert_code(127);
        assert_eq!(json_file(&file)["reason"], "start_failed");
        run(&["sh", "-c", "kill -TERM $$"]).assert_code(143);
        assert_eq!(json_file(&file)["signal"], "SIGTERM");
        assert_eq!(json_file(&file)["exit_code"], Value::Null);
    }

    /// Written also when nothing ran: it is then no ending, but says why.
    fn when_nothing_ran(env) {
        let file = env.work().join("ending.json");
        env.min(["run", "--name", "held", "-d", "--", "sleep", "86511"]).run().assert_code(0);
        let output = env.min(["run", "--name", "held", "--ending-file", "ending.json", "--", "true"]).run();
        output.assert_code(2);
        let written = json_file(&file);
        assert_eq!(written["exit_code"], Value::Null, "{written}");
        assert!(written.to_string().contains("name_held"), "{written}");
        env.min(["stop", "--force", "held"]).run().assert_code(0);
    }

    /// Nobody who detaches sees an ending: one of earlier must not pass for it.
    fn not_of_what_is_left_running(env) {
        let name = env.min(["run", "-d", "--name", "held", "--", "sleep", "86512"]).run();
        name.assert_code(0);
        for words in [&["run", "-d"][..], &["exec", "-d", "held"]] {
            let output = env.min(words.iter().chain(&["--ending-file", "ending.json", "--", "true"])).run();
            output.assert_code(2).assert_stderr_has("--ending-file");
        }
        assert_eq!(env.boxes().len(), 1);
        env.min(["stop", "--force", "held"]).run().assert_code(0);
    }

    /// To a descriptor, with the streams left alone; by `wait` too.
    fn to_a_descriptor(env) {
        let script = "min run --ending-fd 3 -- sh -c 'echo out; exit 9' 3>ending.json; echo \"code $?\"; \
                      min wait --ending-fd 4 sh-1 4>waited.json >/dev/null; echo \"code $?\"";
        env.bash(script).run().assert_code(0).assert_stdout("out\ncode 9\ncode 9\n");
        assert_eq!(json_file(&env.work().join("ending.json"))["exit_code"], 9);
        assert_eq!(json_file(&env.work().join("waited.json"))["exit_code"], 9);
    }

    /// `/dev/stdout` and its like are what is open there, and never a file to be replaced: what was
    /// written before stays, and what comes after follows.
    fn to_a_stream_by_its_path(env) {
        let script = "min run --name a -d -- sleep 86512 >/dev/null; \
                      (echo before; min exec --ending-file /dev/stdout a -- sh -c 'echo out; exit 9'; echo \"code $?\") >>all; \
                      (echo before >&2; min exec --ending-file /dev/stderr a -- sh -c 'exit 8'; echo after >&2) 2>>errors; \
                      min exec --ending-file /dev/fd/5 a -- sh -c 'exit 7' 5>>fifth; \
                      min stop --force a >/dev/null 2>&1; cut -c1-6 all errors fifth";
        let output = env.bash(script).run();
        output.assert_code(0).assert_stdout("before\nout\n{\"at\":\ncode 9\nbefore\n{\"at\":\nafter\n{\"at\":\n");
    }

    /// A descriptor that is not open, and a file that cannot be made, are told before anything runs.
    fn where_it_cannot_be_written(env) {
        let output = env.min(["run", "--ending-fd", "77", "--", "true"]).run();
        output.assert_code(2).assert_stderr_has("77");
        let output = env.min(["run", "--ending-file", "/nosuch/ending", "--", "true"]).run();
        assert_ne!(output.code(), Some(0), "{output}");
        output.assert_stderr_has("/nosuch/ending");
        assert_eq!(env.boxes().len(), 0);
    }
}
