//! Many boxes: each has its line, its ending, and leaves nothing.

use minimal_testkit::{LIMIT, for_each_user, wait_until};
use serde_json::Value;

for_each_user! {
    /// A thousand boxes that print one line and return a code, eight at a time.
    fn a_thousand_lines(env) {
        let script = "seq 1 1000 | xargs -P 8 -I{} sh -c \
                      'out=$(min run -q -- sh -c \"echo line {}; exit \\$(({} % 120))\" </dev/null); \
                       echo \"$? $out\"'";
        let output = env.bash(script).limit(LIMIT * 4).run();
        output.assert_code(0);
        let mut lines: Vec<String> = output.text().lines().map(str::to_owned).collect();
        lines.sort();
        let mut expected: Vec<String> = (1..=1000).map(|n| format!("{} line {n}", n % 120)).collect();
        expected.sort();
        assert_eq!(lines, expected);
        let boxes = env.boxes();
        assert_eq!(boxes.len(), 1000);
        for record in &boxes {
            assert_eq!(record["ending"]["reason"], "exit", "{record}");
        }
    }

    /// Two hundred boxes created at once: none fails; all of them are adopted by the next daemon, and
    /// all end.
    fn two_hundred_at_once(env) {
        let starts: Vec<_> = (0..200)
            .map(|_| env.min(["run", "-d", "--", "sleep", "86611"]).limit(LIMIT * 4).spawn())
            .collect();
        for start in starts {
            start.wait().assert_code(0);
        }
        assert_eq!(env.find("sleep 86611").len(), 200);
        env.kill_daemon();
        let boxes = env.boxes();
        assert_eq!(boxes.len(), 200);
        for record in &boxes {
            assert_eq!(record["state"], "running", "{record}");
        }
        env.min(["host", "stop", "--boxes", "--force"]).limit(LIMIT * 4).run().assert_code(0);
        wait_until("nothing is left", LIMIT, || {
            let left = env.processes();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        let reasons: Vec<Value> =
            env.boxes().iter().map(|record| record["ending"]["reason"].clone()).collect();
        assert!(reasons.iter().all(|reason| reason == "stopped"), "{reasons:?}");
    }
}
