//! Where output goes when it cannot go where it should.

use std::fs::OpenOptions;

use minimal_testkit::{LIMIT, for_each_user, wait_until};
use serde_json::Value;

for_each_user! {
    /// A full disk behind stdout: the reason, and the box that runs on.
    fn stdout_is_full(env) {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = env.run_sh("echo lost; sleep 86491").stdout_file(full).run();
        output.assert_code(1).assert_stderr_has("sh-1");
        let record = env.show("sh-1");
        assert_eq!(record["state"], "running");
        assert_eq!(env.logs("sh-1"), b"lost\n");
        env.min(["stop", "--force", "sh-1"]).run().assert_code(0);
    }

    /// A full disk behind stderr costs the words, not the output or the code.
    fn stderr_is_full(env) {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = env.run_sh("echo kept; exit 5").stderr_file(full).run();
        output.assert_code(5).assert_stdout("kept\n");
    }

    /// Closed descriptors at the start: no file of ours takes their numbers and gets the output.
    fn closed_descriptors(env) {
        env.bash("min run -- sh -c 'exit 6' <&-").run().assert_code(6);
        env.bash("min run -- sh -c 'echo out; exit 6' 2>&-").run().assert_code(6).assert_stdout("out\n");
        // Nobody can be told anything here; what matters is that the box is as it should be.
        let output = env.bash("min run -- sh -c 'echo out; echo err >&2; exit 6' >&-").run();
        assert_ne!(output.code(), Some(0), "{output}");
        let output = env.bash("min run -- sh -c 'exit 6' <&- >&- 2>&-").run();
        output.assert_code(6);
        for record in env.boxes() {
            let id = record["id"].as_str().unwrap();
            env.min(["wait", id]).run().assert_code(6);
        }
    }

    /// `| head -1` of a command that prints little: its own ending, or the closed pipe, never success
    /// that was not there.
    fn a_pipe_that_closes_early(env) {
        let script = "min run -- sh -c 'echo a; echo b; exit 4' | head -1; echo \"${PIPESTATUS[0]}\"";
        let output = env.bash(script).run();
        let lines: Vec<&str> = output.text().lines().collect();
        assert!(matches!(lines[..], ["a", "4" | "141"]), "{output}");
        env.min(["wait", "sh-1"]).run().assert_code(4);
    }

    /// The kept line is one line on stderr; `-q` and `--rm` leave it out, and stdout is never ours.
    fn the_kept_line(env) {
        env.run(["true"]).run().assert_stdout("").assert_stderr_has("Kept box true-1. Remove it with min box rm true-1.\n");
        let quiet = env.min(["run", "-q", "--", "true"]).run();
        assert_eq!(quiet.stderr, "");
        let removed = env.min(["run", "--rm", "--", "true"]).run();
        assert_eq!(removed.stderr, "");
        wait_until("it is removed", LIMIT, || {
            let names: Vec<Value> = env.boxes().iter().map(|record| record["name"].clone()).collect();
            if names.len() == 2 { Ok(()) } else { Err(names) }
        });
    }

    /// `-d` prints the id and nothing else; `-o json` the record.
    fn detached_prints_the_id(env) {
        let output = env.min(["run", "-d", "--", "true"]).run();
        output.assert_code(0);
        assert_eq!(env.show("true-1")["id"], output.word());
        assert_eq!(output.text().lines().count(), 1);
        let output = env.min(["run", "-d", "-o", "json", "--", "true"]).run();
        assert_eq!(output.json()["schema"], "min/v1/box");
    }
}
