//! What a terminal shows to who comes to it later.

use minimal_testkit::{Terminal, TestEnv, for_each_user};
use rustix::process::Signal;

/// `ctrl-]` and `d`.
const DETACH: &str = "\x1dd";

fn open<'a>(env: &TestEnv, words: impl IntoIterator<Item = &'a str>) -> Terminal {
    Terminal::start(env.min(words).env("TERM", "xterm-256color"), 60, 20)
}

/// A shell that shows what it is told to, line by line, with nothing of its own.
const SHELL: &str = "stty -echo; echo ready; while read -r line; do eval \"$line\"; done";

fn shell(env: &TestEnv, name: &str) -> Terminal {
    let mut terminal = open(env, ["run", "-t", "--name", name, "--", "bash", "-c", SHELL]);
    terminal.wait_for("ready\r\n");
    terminal
}

for_each_user! {
    /// The screen, what was scrolled away above it, and the modes: after a detach, after the death of the
    /// client and of the daemon, and on another size. What follows is there once.
    fn as_it_stands(env) {
        let mut first = shell(env, "s");
        first.type_in("for n in $(seq 100); do echo \"line $n \u{2192} \u{65e5}\u{672c}\"; done\r");
        first.wait_for("line 100");
        first.type_in("printf '\\e[1;31mred\\e[m \\e[44mblue\\e[m\\r\\n\\e[?2004h\\e[?1h'\r");
        first.type_in("printf 'title \\e]2;of it\\a\\e[3;7r\\e[5;9Hhere'\r");
        first.wait_for("here");
        let before = first.screen();
        first.type_in(DETACH);
        first.wait().0.assert_code(0);

        let mut second = open(env, ["attach", "s"]);
        second.wait_for("here");
        assert_eq!(second.screen(), before);
        let text = second.text();
        assert!(text.contains("\x1b]2;of it") && text.contains("\x1b[3;7r"), "{text:?}");
        let lines: Vec<_> = (1..=100).map(|n| format!("line {n} \u{2192} \u{65e5}\u{672c}\r\n")).collect();
        assert!(text.contains(&lines[..82].concat()), "what was scrolled away comes first: {text:?}");
        second.signal(Signal::KILL);
        drop(second);
        env.kill_daemon();

        let mut third = open(env, ["attach", "s"]);
        third.wait_for("here");
        assert_eq!(third.screen(), before);
        let watcher = open(env, ["attach", "--watch", "s"]);
        assert_eq!(watcher.wait_for_screen("it", |screen| screen.has("here")), before);
        // The region scrolls there as it did.
        third.type_in("printf '\\e[7;1H\\nnew'\r");
        third.wait_for("new");
        watcher.wait_for_screen("what follows", |screen| screen.has("new"));
        assert_eq!(watcher.screen(), third.screen());
        assert_eq!(third.text().matches("new").count(), 1);
        third.type_in("printf '\\e[r\\e[20;1H'; exit 3\r");
        third.wait().0.assert_code(3);
        watcher.wait().0.assert_code(3);
    }

    /// A sequence and a letter that are written in two parts, with one who comes between.
    fn between_two_parts(env) {
        for (first, rest, shown) in [
            ("a\\e[3", "1mb", "ab"),
            ("a\\xe6\\x97", "\\xa5b", "a\u{65e5}b"),
            ("a\\e]2;ti", "tle\\ab", "ab"),
            ("a\\ePq#1", "\\e\\\\b", "ab"),
        ] {
            let mut straight = shell(env, "two");
            straight.type_in(&format!("printf 'begin {first}'\r"));
            straight.wait_for("begin a");
            let mut late = open(env, ["attach", "two"]);
            late.wait_for("begin a");
            straight.wait_for("another client has the keyboard");
            late.type_in(&format!("printf '{rest} end'\r"));
            let screen = late.wait_for_screen("the rest", |screen| screen.has("end"));
            assert_eq!(screen.lines[1], format!("begin {shown} end"));
            late.type_in("exit 0\r");
            late.wait().0.assert_code(0);
            straight.wait().0.assert_code(0);
            env.min(["rm", "two"]).run().assert_code(0);
        }
    }
}
