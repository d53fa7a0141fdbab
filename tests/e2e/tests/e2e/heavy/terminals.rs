//! Terminals, many of them.

use minimal_testkit::{LIMIT, TestEnv, for_each_user};

/// Runs a command a thousand times, eight at a time, each in a terminal of its own: its code and its line.
/// The command has the number as `$N`.
fn a_thousand(env: &TestEnv, command: &str) {
    let one =
        format!("export N=$1; out=$(script -qec '{command}' /dev/null </dev/null); echo $? $out");
    env.file("one", one);
    let script = "seq 1 1000 | xargs -P 8 -n 1 sh ./one | tr -d '\\r'";
    let output = env.bash(script).limit(LIMIT * 6).run();
    output.assert_code(0);
    let mut lines: Vec<String> = output.text().lines().map(str::to_owned).collect();
    lines.sort();
    let mut expected: Vec<String> = (1..=1000).map(|n| format!("{} line {n}", n % 120)).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

/// Says its number and returns it, as a program of a line would.
const QUICK: &str = "sh -c \"echo line $N; exit $((N % 120))\"";

for_each_user! {
    /// Quick programs, whose output is there and whole when they are gone already.
    fn a_thousand_lines_of_boxes(env) {
        a_thousand(env, &format!("min run -q --rm -t -- {QUICK}"));
        assert_eq!(env.boxes().len(), 0);
    }

    /// The same, of execs in one box.
    fn a_thousand_lines_of_execs(env) {
        let id = env.detached("sleep 86711");
        a_thousand(env, &format!("min exec -q -t {id} -- {QUICK}"));
    }
}
