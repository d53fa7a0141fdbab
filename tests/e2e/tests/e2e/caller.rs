//! Callers in odd circumstances. Nothing of theirs sticks to the daemon or a box.

use minimal_testkit::{TestEnv, for_each_user};

/// What a box sees of its circumstances, as one text.
const LOOK: &str = "umask; ulimit -n; ulimit -f; ulimit -c; grep -E '^Sig(Ign|Blk)' /proc/self/status; \
                    cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l; pwd";

fn look(env: &TestEnv, name: &str) -> String {
    let output = env.min(["run", "--name", name, "--", "sh", "-c", LOOK]).run();
    output.assert_code(0);
    output.text().to_owned()
}

for_each_user! {
    /// umask, soft limits, ignored and blocked signals, extra descriptors of the client that
    /// happens to start the daemon.
    fn of_the_daemons_starter(env) {
        let usual = look(env, "usual");
        env.stop_all();
        let script = "umask 077; ulimit -S -n 64; ulimit -S -f 1000; ulimit -S -c 0; trap '' PIPE HUP INT TERM CHLD USR1; \
                      exec 7</etc/passwd 8>/dev/null 9<&0; min run --name odd -- sh -c \"$LOOK\"";
        let output = env.bash(script).env("LOOK", LOOK).run();
        output.assert_code(0);
        assert_eq!(output.text(), usual, "the starter's circumstances");
        // And of a client that starts a box only.
        let output = env.bash(&script.replace("odd", "odder")).env("LOOK", LOOK).run();
        output.assert_code(0);
        assert_eq!(output.text(), usual, "the client's circumstances");
        assert_eq!(look(env, "later"), usual, "a later box");
    }

    /// The umask of a box is 022 and its signals are the default ones.
    fn what_a_box_starts_with(env) {
        let output = env.run_sh("umask; grep -E '^Sig(Ign|Blk)' /proc/self/status").run();
        let text = output.text();
        assert!(text.starts_with("0022\n"), "{output}");
        for line in text.lines().skip(1) {
            let mask = line.split_whitespace().next_back().unwrap_or_default();
            let mask = u64::from_str_radix(mask, 16).unwrap();
            // Also 32 and 33, which the C library keeps for itself.
            assert_eq!(mask, 0, "{output}");
        }
    }

    /// A detached box whose id cannot be printed is named on standard error.
    fn a_detached_box_nobody_hears_of(env) {
        let full = env.bash("min run -d --name full -- sleep 86571 >/dev/full").run();
        full.assert_code(1).assert_stderr_has("box full runs on: stop it with `min stop full`");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let closed = env
            .min(["run", "-d", "--name", "closed", "--", "sleep", "86571"])
            .stdout_file(std::fs::File::from(std::os::fd::OwnedFd::from(writer)))
            .run();
        closed.assert_code(141).assert_stderr_has("box closed runs on: stop it with `min stop closed`");
        env.min(["stop", "--force", "full", "closed"]).run().assert_code(0);
    }

    /// A client with few descriptors says so, and that nothing was run.
    fn few_descriptors(env) {
        env.run(["true"]).run().assert_code(0);
        for most in 4..=9 {
            let script = format!("ulimit -n {most}; min run -- echo ran");
            let output = env.bash(&script).run();
            assert!(matches!(output.code(), Some(7 | 8)), "{most}: {output}");
            output.assert_stdout("").assert_stderr_has("nothing was run").assert_stderr_has("Too many open files");
            let wait = env.bash(&format!("ulimit -n {most}; min wait true-1")).run();
            assert!(matches!(wait.code(), Some(7 | 8)), "{most}: {wait}");
        }
    }

    /// Whoever may not write to files hears of it: client and daemon do not die of the signal.
    fn no_file_may_grow(env) {
        let cold = env.bash("ulimit -f 0; exec min run -- true | cat; exit ${PIPESTATUS[0]}").run();
        assert_eq!(cold.code(), Some(7), "{cold}");
        cold.assert_stderr_has("nothing was run").assert_stderr_has("File too large");
        env.run(["true"]).run().assert_code(0);
        let warm = env.bash("ulimit -f 0; exec min run --ending-file ending -- true").run();
        assert_eq!(warm.code(), Some(1), "{warm}");
        warm.assert_stderr_has("write the ending").assert_stderr_has("File too large");
    }

    /// Hard limits of whoever started the daemon stay, and the record says which.
    fn hard_limits_of_the_daemons_starter(env) {
        env.bash("ulimit -n 100; min run --name few -- sh -c 'ulimit -n'").run().assert_code(0).assert_stdout("100\n");
        let limits = env.show("few")["enforcement"]["limits"].clone();
        let files = limits.as_array().unwrap().iter().find(|limit| limit["what"] == "open_files");
        assert_eq!(files.expect("it is told")["max"], 100, "{limits}");
        let doctor = env.min(["doctor"]).run();
        assert!(doctor.text().contains("warn  daemon limits: "), "{doctor}");
        assert!(doctor.text().contains("100 open files"), "{doctor}");
    }

    /// A working directory that is gone.
    fn a_deleted_directory(env) {
        let output = env.bash("mkdir gone && cd gone && rmdir ../gone && min run -- sh -c 'pwd; exit 3'").run();
        output.assert_code(3);
        assert_eq!(output.text(), "/workbench\n");
    }

    /// No HOME, no PATH, no variable at all.
    fn no_environment(env) {
        let state = env.state_dir().to_owned();
        let mut command = env.run_sh("exit 9");
        for name in env.variables().keys() {
            command = command.env_remove(name);
        }
        command.env("MINIMAL_STATE_DIR", &state).run().assert_code(9);
        // Without a state directory either: a clear message, or the account's own home.
        let mut command = env.min(["version"]);
        for name in env.variables().keys() {
            command = command.env_remove(name);
        }
        command.run().assert_code(0);
    }

    /// As cron starts things: no terminal, no input, `/` and a short PATH.
    fn from_cron(env) {
        let output = env
            .run_sh("echo ran; exit 2")
            .cwd("/")
            .env("PATH", "/usr/bin:/bin")
            .env_remove("LANG")
            .env_remove("TMPDIR")
            .run();
        output.assert_code(2).assert_stdout("ran\n");
    }

    /// In a pid namespace of its own, whose session and process group are outside of it and 0
    /// inside, as a container's are.
    fn in_a_container(env) {
        let enter = match env.account() {
            account if account.uid == 0 => "unshare --pid",
            _ => "unshare --user --map-current-user --pid",
        };
        let inner = "min run -- sh -c 'echo in; exit 3'; echo $?; echo fed | min run -- cat; min host stop --boxes";
        let script = format!("{enter} --fork --mount-proc bash -c \"$INNER\"");
        let output = env.bash(&script).env("INNER", inner).run();
        output.assert_code(0).assert_stdout("in\n3\nfed\n");
        // Its end killed all processes of ours at once. A daemon outside tidies up after them.
        env.run_sh("exit 4").run().assert_code(4);
        assert_eq!(env.boxes().len(), 3);
    }

    /// A very long working directory.
    fn a_deep_directory(env) {
        let deep = vec!["d".repeat(200); 15].join("/");
        let script = format!("mkdir -p {deep} && cd {deep} && min run -- sh -c 'exit 3'");
        env.bash(&script).run().assert_code(3);
    }
}

/// A uid without an entry in the list of users.
#[test]
fn no_passwd_entry() {
    if !minimal_testkit::need::root() {
        return;
    }
    let account = minimal_testkit::Account { uid: 54_321, gid: 54_321 };
    if !minimal_testkit::need::userns(&account) {
        return;
    }
    let env = TestEnv::for_account(account);
    env.run_sh("exit 8").run().assert_code(8);
    env.run_sh("exit 8").env_remove("HOME").run().assert_code(8);
}
