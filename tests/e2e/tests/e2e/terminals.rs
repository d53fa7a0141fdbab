//! Terminals of boxes and execs, shown in the caller's own.

use minimal_testkit::{Terminal, TestEnv, for_each_user, wait_until};
use rustix::process::Signal;

/// `ctrl-]` and `d`.
const DETACH: &str = "\x1dd";

fn open<'a>(env: &TestEnv, words: impl IntoIterator<Item = &'a str>) -> Terminal {
    Terminal::start(env.min(words).env("TERM", "vt220"), 91, 33)
}

/// One who comes to a terminal, and has it.
fn attach<'a>(env: &TestEnv, words: impl IntoIterator<Item = &'a str>) -> Terminal {
    let mut terminal = open(env, ["attach"].into_iter().chain(words));
    terminal.wait_for("leave it with Ctrl-] d]\r\n");
    terminal
}

/// A terminal in which a shell script runs in a box.
fn sh(env: &TestEnv, name: &str, script: &str) -> Terminal {
    open(env, ["run", "-q", "-t", "--name", name, "--", "sh", "-c", script])
}

/// The id of a box with a terminal in which a shell waits for lines, and nobody attached.
fn shell(env: &TestEnv) -> String {
    let shell = "stty -echo; echo ready; while read -r line; do eval \"$line\"; done";
    let output = env.min(["run", "-t", "-d", "--", "sh", "-c", shell]).run();
    output.assert_code(0);
    let id = output.word().to_owned();
    wait_until("the shell is ready", minimal_testkit::LIMIT, || {
        let logs = env.logs(&id);
        if logs.ends_with(b"ready\r\n") { Ok(()) } else { Err(logs) }
    });
    id
}

fn types_of(env: &TestEnv, id: &str) -> Vec<String> {
    let events = env.events(id);
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

for_each_user! {
    /// It has a name, controls its session, and has the caller's size and kind before the first byte.
    fn a_terminal_of_its_own(env) {
        let script = "tty; stty size; echo $TERM; for n in 0 1 2; do test -t $n && echo $n; done
            (echo by name > /dev/tty) && ps -o tty=,pgid=,sid=,tpgid= -p $$ | tr -s ' '; exit 7";
        let (output, text) = sh(env, "own", script).wait();
        output.assert_code(7);
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(&lines[..7], ["/dev/pts/0", "33 91", "vt220", "0", "1", "2", "by name"], "{text}");
        let words: Vec<&str> = lines[7].split_whitespace().collect();
        assert_eq!(words[0], "pts/0");
        assert!(words[1] == words[2] && words[2] == words[3], "it leads its session: {text}");
        assert_eq!(env.logs("own"), text.as_bytes());
        let (output, text) = sh(env, "crash", "kill -SEGV $$").wait();
        output.assert_code(139);
        assert_eq!(text, "");
    }

    /// An exec's is the same, and another one.
    fn a_terminal_of_an_exec(env) {
        let id = env.detached("sleep 86701");
        let script = "tty; stty size; echo $TERM; exit 3";
        let (output, text) = open(env, ["exec", "-q", "-t", &id, "--", "sh", "-c", script]).wait();
        output.assert_code(3);
        assert_eq!(text, "/dev/pts/0\r\n33 91\r\nvt220\r\n");
        // By the door, which is open from the second on; and beside one that stays.
        let mut stays = open(env, ["exec", "-q", "-t", &id, "--", "sh", "-c", "tty; read x; exit 4"]);
        stays.wait_for("/dev/pts/0");
        let (output, text) = open(env, ["exec", "-q", "-t", &id, "--", "tty"]).wait();
        output.assert_code(0);
        assert_eq!(text, "/dev/pts/1\r\n");
        stays.type_in("\r");
        stays.wait().0.assert_code(4);
    }

    /// Job control: Ctrl-C and Ctrl-Z are the box's.
    fn keys_are_the_boxs(env) {
        let mut terminal = open(env, ["run", "-q", "-t", "--", "bash", "--norc", "--noediting", "-i"]);
        terminal.wait_for("$ ");
        terminal.type_in("sleep 86702\r");
        env.wait_for_process("sleep 86702");
        terminal.type_in("\x1a");
        terminal.wait_for("Stopped");
        terminal.type_in("fg\r");
        terminal.wait_for("fg\r\n");
        terminal.wait_for("sleep 86702\r\n");
        terminal.type_in("\x03");
        terminal.wait_for("$ ");
        terminal.type_in("echo status $?\r");
        terminal.wait_for("status 130");
        terminal.type_in("exit 5\r");
        terminal.wait().0.assert_code(5);
    }

    /// A new size reaches the program.
    fn resized(env) {
        let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done";
        let mut terminal = sh(env, "resized", script);
        terminal.wait_for("ready");
        for (cols, rows) in [(1, 1), (1000, 1000), (80, 24)] {
            terminal.resize(cols, rows);
            terminal.wait_for(&format!("{rows} {cols}\r\n"));
        }
        env.min(["stop", "--force", "resized"]).run().assert_code(0);
        terminal.wait().0.assert_code(137);
    }

    /// Who detaches leaves everything as it is, comes back, and hears how it ended.
    fn detached_and_back(env) {
        let id = shell(env);
        let mut terminal = attach(env, [id.as_str()]);
        terminal.type_in("echo $((40 + 2))\r");
        terminal.wait_for("42\r\n");
        terminal.type_in(DETACH);
        let (output, text) = terminal.wait();
        output.assert_code(0);
        assert!(text.contains("Come back with"), "{text}");
        assert_eq!(env.show(&id)["state"], "running");
        let mut terminal = attach(env, [id.as_str()]);
        // Doubled, the leader is the box's.
        terminal.type_in("stty raw; head -c 3 | od -An -tx1; exit 6\r");
        terminal.type_in("\x1d\x1da\x1db");
        terminal.wait_for("1d 61 1d");
        terminal.wait().0.assert_code(6);
        assert_eq!(types_of(env, &id), [
            "created", "started", "attached", "detached", "attached", "exited"
        ]);
        env.min(["attach", &id]).run().assert_code(6);
    }

    /// Signals to the client, a hang-up among them, end it alone, and the terminal is as it was.
    fn the_client_is_told_to_leave(env) {
        let id = shell(env);
        for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
            let mut terminal = attach(env, [id.as_str()]);
            terminal.type_in("printf '\\033[?1049h\\033[?25l<'; echo full screen\r");
            terminal.wait_for("full screen");
            terminal.signal(signal);
            let (output, text) = terminal.wait();
            output.assert_code(code);
            let left = text.find("\x1b[?1049l").expect("the other screen is left");
            assert!(text[..left].ends_with("\x1b[?25h"), "the cursor is shown: {text:?}");
        }
        let mut terminal = attach(env, [id.as_str()]);
        terminal.type_in("echo still $((1 + 1))\r");
        terminal.wait_for("still 2");
        terminal.signal(Signal::KILL);
        drop(terminal);
        assert_eq!(env.show(&id)["state"], "running");
        env.min(["rm", "--force", &id]).run().assert_code(0);
    }

    /// The keyboard is the last one's who came; the one before watches on.
    fn one_keyboard(env) {
        let id = shell(env);
        let mut first = attach(env, [id.as_str()]);
        first.type_in("echo one $((0 + 1))\r");
        first.wait_for("one 1");
        let mut second = attach(env, [id.as_str()]);
        first.wait_for("another client has the keyboard");
        first.type_in("echo nobody hears this\r");
        second.type_in("echo two $((1 + 1))\r");
        second.wait_for("two 2");
        first.wait_for("two 2");
        let watcher = env.min(["attach", "--watch", &id]).spawn();
        watcher.wait_for_stdout("two 2");
        second.type_in("exit 8\r");
        for terminal in [first, second] {
            terminal.wait().0.assert_code(8);
        }
        watcher.wait().assert_code(8);
        assert!(!String::from_utf8_lossy(&env.logs(&id)).contains("nobody hears"));
    }

    /// Who has no terminal is told what else there is, and takes nobody's keyboard.
    fn without_a_terminal(env) {
        let id = shell(env);
        let mut terminal = attach(env, [id.as_str()]);
        terminal.type_in("echo here $((1 + 1))\r");
        terminal.wait_for("here 2");
        let refused = env.min(["attach", &id]).run();
        refused.assert_code(2).assert_stderr_has("--watch").assert_stderr_has("logs");
        env.min(["run", "-t", "--", "true"]).run().assert_code(2).assert_stderr_has("nothing was run");
        env.min(["exec", "-t", &id, "--", "true"]).run().assert_code(2);
        terminal.type_in("exit 0\r");
        terminal.wait().0.assert_code(0);
    }

    /// An exec with a terminal lives on without its client, and is found again by its id.
    fn execs_outlive_their_client(env) {
        let id = env.detached("sleep 86703");
        let script = "stty -echo; echo ready; read x; echo \"got $x\"; exit 9";
        let mut terminal = open(env, ["exec", "-t", &id, "--", "sh", "-c", script]);
        terminal.wait_for("ready");
        terminal.signal(Signal::KILL);
        drop(terminal);
        let exec = env.show(&id)["execs"][0].as_str().unwrap().to_owned();
        let mut terminal = attach(env, [id.as_str(), "--exec", &exec]);
        terminal.type_in("it\r");
        terminal.wait_for("got it");
        terminal.wait().0.assert_code(9);
        env.min(["wait", &id, "--exec", &exec]).run().assert_code(9);
    }

    /// A stop hangs up first: an interactive shell ignores TERM.
    fn stopped(env) {
        let mut terminal = open(env, ["run", "-q", "-t", "--name", "s", "--", "bash", "--norc", "-i"]);
        terminal.wait_for("$ ");
        env.min(["stop", "s"]).run().assert_code(0);
        terminal.wait().0.assert_code(129);
        assert_eq!(env.ending("s")["reason"], "stopped");
        assert_eq!(env.ending("s")["signal"], "SIGHUP");
        let id = env.detached("sleep 86704");
        let mut terminal = open(env, ["exec", "-q", "-t", &id, "--", "bash", "--norc", "-i"]);
        terminal.wait_for("$ ");
        let exec = env.show(&id)["execs"][0].as_str().unwrap().to_owned();
        env.min(["stop", &id, "--exec", &exec]).run().assert_code(0);
        terminal.wait().0.assert_code(129);
    }

    /// The daemon is killed under a client: it goes on, with every key and every byte once.
    fn the_daemon_is_killed(env) {
        let id = shell(env);
        let mut terminal = attach(env, [id.as_str()]);
        let rounds = 0..4;
        let shown = |round| format!("round-{round}\r\nagain-{round}\r\n");
        let expected: String = rounds.clone().map(shown).collect();
        for round in rounds {
            terminal.type_in(&format!("echo round-$(({round} + 0))\r"));
            terminal.wait_for(&format!("round-{round}\r\n"));
            env.kill_daemon();
            terminal.type_in(&format!("echo again-$(({round} + 0))\r"));
            terminal.wait_for(&format!("again-{round}\r\n"));
        }
        terminal.type_in("exit 4\r");
        let (output, text) = terminal.wait();
        output.assert_code(4);
        // Behind what was there when it came.
        let (_, shown) = text.split_once("round-0").unwrap();
        assert_eq!(format!("round-0{shown}"), format!("{expected}\x1b[m\x1b(B\x0f"));
        assert_eq!(env.logs(&id), format!("ready\r\n{expected}").as_bytes());
    }

    /// A shell of the project: begun, left, found again, and ended by its own end; another one on request.
    fn shells(env) {
        env.file("minimal.toml", "[sessions.one]\nexec = [\"bash\", \"--norc\"]\n[sessions.two]\nexec = \"bash\"\n");
        let mut terminal = open(env, ["shell"]);
        terminal.wait_for("say which session; sessions of this project: one, two");
        terminal.wait().0.assert_code(2);
        let mut terminal = open(env, ["shell", "one"]);
        terminal.wait_for("$ ");
        terminal.type_in("a=$((40 + 2)); echo $TERM $PWD\r");
        terminal.wait_for("vt220 /workbench\r\n");
        terminal.type_in(DETACH);
        terminal.wait().0.assert_code(0);
        let mut terminal = open(env, ["shell", "one"]);
        terminal.wait_for("leave it with Ctrl-] d]");
        terminal.type_in("echo it is $a\r");
        terminal.wait_for("it is 42\r\n");
        let mut other = open(env, ["shell", "--new", "one"]);
        other.wait_for("$ ");
        other.type_in("exit 4\r");
        other.wait().0.assert_code(4);
        terminal.type_in("exit 3\r");
        terminal.wait().0.assert_code(3);
        let names: Vec<_> = env.boxes().iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, ["one-1", "one"]);
        assert_eq!(env.ending("one")["exit_code"], 3);
        env.min(["shell", "one"]).run().assert_code(2).assert_stderr_has("needs a terminal");
    }

    /// What a program prints right before its end is shown, however much that is.
    fn the_last_bytes(env) {
        let (output, text) = sh(env, "last", "seq 30000; exit 2").wait();
        output.assert_code(2);
        let expected: String = (1..=30000).map(|n| format!("{n}\r\n")).collect();
        assert_eq!(text.len(), expected.len());
        assert!(text == expected);
    }
}
