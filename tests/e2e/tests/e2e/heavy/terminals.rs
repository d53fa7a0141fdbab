//! Terminals, many of them.

use minimal_testkit::{Terminal, TestEnv, for_each_user};

/// How many run at a time.
const AT_ONCE: usize = 8;

/// Runs a thousand quick programs, each in a terminal of its own: the line that each has said, and its code.
fn a_thousand(env: &TestEnv, words: &[&str]) {
    let one = |number: usize| {
        let script = format!("echo line {number}; exit {}", number % 120);
        let words = words.iter().copied().chain(["--", "sh", "-c", &script]);
        let (output, text) = Terminal::start(env.min(words), 80, 24).wait();
        output.assert_code(i32::try_from(number % 120).expect("it is below 120"));
        assert_eq!(text, format!("line {number}\r\n"));
    };
    std::thread::scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || (first..1000).step_by(AT_ONCE).for_each(one));
        }
    });
}

for_each_user! {
    /// Quick programs, whose output is there and whole when they are gone already.
    fn a_thousand_lines_of_boxes(env) {
        a_thousand(env, &["run", "-q", "--rm", "-t"]);
        assert_eq!(env.boxes().len(), 0);
    }

    /// The same, of execs in one box.
    fn a_thousand_lines_of_execs(env) {
        let id = env.detached("sleep 86711");
        a_thousand(env, &["exec", "-q", "-t", &id]);
    }
}
