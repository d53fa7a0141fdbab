//! What a terminal shows to who comes to it later.

use minimal_testkit::{LIMIT, Terminal, TestEnv, for_each_user, wait_until};
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

/// Fills a terminal of 60 by 20; and of a program: what shows that it has, the keys to make it do something,
/// what shows that it has done that, and the keys that end it.
const PROGRAMS: [(&str, &str, &str, &str, &str); 5] = [
    ("vim -u NONE -N text", "line 17", "ggOinserted\x1b5j", "inserted", ":q!\r"),
    ("less text", "line 17", "/line 40\r", "line 50", "q"),
    ("top -d 900", "PID USER", "c", "PID USER", "q"),
    ("htop -d 100", "F5Tree", "t", "F5List", "q"),
    (
        "tmux -f /dev/null new-session sh \\; set status-right x",
        "[0] 0:",
        "echo $((40 + 2))\r",
        "42",
        "exit\r",
    ),
];

for_each_user! {
    /// Programs that fill the screen are as they were for who comes back: after a detach, the death of the
    /// client, of the daemon, on another size. They stand still meanwhile, and so draw nothing themselves.
    fn programs(env) {
        let text: String = (1..=60).map(|n| format!("line {n}\n")).collect();
        for (command, ready, keys, done, quit) in PROGRAMS {
            env.file("text", &text);
            eprintln!("{command}");
            let script = format!("exec 3<&0; echo shell; {command} <&3; stty size; exit 7");
            let words = ["run", "-q", "-t", "--name", "full", "--", "bash", "-c", &script];
            let mut first = open(env, words);
            first.wait_for_screen(ready, |screen| screen.has(ready));
            first.type_in(keys);
            first.wait_for_screen(done, |screen| screen.has(done) && !screen.has("shell"));
            let still = |signal: &str| {
                let all = format!("for p in /proc/[0-9]*; do p=${{p#/proc/}}; test $p = 1 -o $p = $$ || kill -{signal} $p; done");
                env.min(["exec", "full", "--", "sh", "-c", &all]).run().assert_code(0);
            };
            still("STOP");
            wait_until("all that it has drawn is shown", LIMIT, || {
                let (shown, drawn) = (first.text(), env.logs("full"));
                if shown == String::from_utf8_lossy(&drawn) { Ok(()) } else { Err(shown) }
            });
            let before = first.screen();
            first.type_in(DETACH);
            first.wait().0.assert_code(0);
            let second = open(env, ["attach", "full"]);
            second.wait_for_picture(&before);
            second.signal(Signal::KILL);
            drop(second);
            env.kill_daemon();
            let mut third = open(env, ["attach", "full"]);
            third.wait_for_picture(&before);

            still("CONT");
            third.resize(70, 15);
            third.wait_for_screen("the new size", |screen| {
                screen.lines.len() == 15 && screen.is_other == before.is_other && screen.has(done)
            });
            // A program of another terminal has not drawn anything there.
            let watcher = Terminal::start(env.min(["attach", "--watch", "full"]).env("TERM", "xterm-256color"), 70, 15);
            still("STOP");
            wait_until("both show the same", LIMIT, || {
                third.screen().differs(&watcher.screen()).map_or(Ok(()), Err)
            });
            still("CONT");
            third.type_in(quit);
            let (output, _) = third.wait();
            output.assert_code(7);
            watcher.wait().0.assert_code(7);
            env.min(["rm", "full"]).run().assert_code(0);
        }
    }

    /// What is typed right before the keys that leave is the box's; a new leader is the user's choice.
    fn typed_and_left(env) {
        let settings = env.work().join("../home/.config/minimal");
        std::fs::create_dir_all(&settings).unwrap();
        let leader = |key: &str| {
            std::fs::write(settings.join("config.toml"), format!("[session-keys]\nleader = \"{key}\"\n")).unwrap();
        };
        let mut first = shell(env, "s");
        first.type_in("echo one > /tmp/one; echo $((40 + 2))\r\x1dd");
        first.wait().0.assert_code(0);
        let mut second = open(env, ["attach", "s"]);
        second.wait_for("42");
        env.kill_daemon();
        second.type_in("echo $((50 + 3)); cat /tmp/one\r\x1dd");
        let (output, text) = second.wait();
        output.assert_code(0);
        assert!(!text.contains("may not have reached"), "{text:?}");
        leader("ctrl-b");
        let mut third = open(env, ["attach", "s"]);
        third.wait_for("leave it with Ctrl-b d");
        third.wait_for("53");
        third.wait_for("one");
        third.type_in("echo a\x1ddb\r");
        third.wait_for("a\x1ddb");
        third.type_in("\x02d");
        third.wait().0.assert_code(0);
        leader("ctrl-c");
        let refused = open(env, ["attach", "s"]).wait();
        refused.0.assert_code(3);
        assert!(refused.1.contains("interrupts the program"), "{}", refused.1);
        std::fs::remove_dir_all(env.work().join("../home/.config")).unwrap();
        env.min(["rm", "--force", "s"]).run().assert_code(0);
    }

    /// A watcher's keys are nobody's but those that leave; it leaves its own terminal as it was, also at the end.
    fn watched(env) {
        let mut first = shell(env, "s");
        first.type_in("printf 'full \\e[?1049h\\e[?1000h\\e[?25lscreen'\r");
        first.wait_for("screen");
        for leave in [DETACH, "\x03"] {
            let mut watcher = open(env, ["attach", "--watch", "s"]);
            watcher.wait_for("screen");
            watcher.type_in("echo nobody hears this\r");
            watcher.type_in(leave);
            let (output, text) = watcher.wait();
            output.assert_code(0);
            let back = text.rfind("\x1b[?25h").expect("the cursor is shown");
            assert!(text[back..].contains("\x1b[?1000l") && text[back..].contains("\x1b[?1049l"), "{text:?}");
        }
        let watcher = open(env, ["attach", "--watch", "s"]);
        watcher.wait_for_screen("the other screen", |screen| screen.is_other);
        first.type_in("exit 4\r");
        first.wait().0.assert_code(4);
        let (output, text) = watcher.wait();
        output.assert_code(4);
        assert!(text.contains("\x1b[?1049l"), "{text:?}");
        assert!(!String::from_utf8_lossy(&env.logs("s")).contains("nobody"));
        // One that has ended shows what it has shown last, and how it ended.
        let (output, text) = open(env, ["attach", "s"]).wait();
        output.assert_code(4);
        assert!(text.contains("screen") && text.contains("\x1b[?1049l"), "{text:?}");
        assert_eq!(env.min(["attach", "s"]).run().assert_code(4).stdout, env.logs("s"));
    }

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
