//! Commands that cannot start: told at once, apart from what a command could return.

use std::os::unix::fs::PermissionsExt as _;

use minimal_testkit::{TestEnv, for_each_user};
use serde_json::Value;

/// Runs a program of the scenario's project, and returns the ending of the box.
fn ending_of(env: &TestEnv, program: &str, status: i32) -> Value {
    let output = env.min(["run", "--workspace", "bind", "--"]).arg(program).run();
    output.assert_code(status).assert_stdout("");
    assert!(!output.stderr.is_empty(), "it says what is wrong");
    let record = env.newest();
    assert_eq!(record["state"], "failed", "{program}");
    assert_eq!(record["started_at"], Value::Null, "{program}");
    record["ending"].clone()
}

for_each_user! {
    /// No such program: by name, by path, by relative path, below a file.
    fn not_found(env) {
        for program in ["nosuch", "/nosuch", "./nosuch", "/etc/passwd/x"] {
            let ending = ending_of(env, program, 127);
            assert_eq!(ending["reason"], "start_failed", "{program}");
            assert_eq!(ending["detail"]["fault"], "not_found", "{program}: {ending}");
        }
    }

    /// A program that the caller has in their home only: the hint says where.
    fn in_the_callers_home(env) {
        let bin = env.home().join(".tool/bin");
        env.account().make_dir(&env.home().join(".tool"));
        env.account().make_dir(&bin);
        std::fs::write(bin.join("mytool"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(bin.join("mytool"), std::fs::Permissions::from_mode(0o755)).unwrap();
        env.account().own(&bin.join("mytool"));
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let run = |program: &str| env.run([program]).env("PATH", &path).run();
        run("mytool").assert_code(127).assert_stderr_has("hint: mytool is in ~/.tool/bin on the host; a box does not see your home");
        run("nosuch").assert_code(127).assert_stderr_has("hint: a box sees the host's /usr");
        std::fs::remove_dir_all(env.home().join(".tool")).unwrap();
    }

    /// A name longer than any file's: there is no such program, and messages do not repeat it whole.
    fn a_name_beyond_all_files(env) {
        for program in ["x".repeat(300), format!("/{}", "x".repeat(300))] {
            let ending = ending_of(env, &program, 127);
            assert_eq!(ending["detail"]["fault"], "not_found", "{ending}");
            let message = ending["detail"]["message"].as_str().unwrap_or_default();
            assert!(!message.contains(&"x".repeat(290)), "{message}");
        }
    }

    /// A directory, and a file without permission.
    fn not_executable(env) {
        env.file("plain", "#!/bin/sh\necho no\n");
        std::fs::set_permissions(env.work().join("plain"), std::fs::Permissions::from_mode(0o644)).unwrap();
        for program in ["/usr", "/usr/bin", "./plain"] {
            let ending = ending_of(env, program, 126);
            assert_eq!(ending["detail"]["fault"], "not_executable", "{program}: {ending}");
        }
    }

    /// A script whose interpreter is missing: the file is there, so it is 126, and the message says
    /// which interpreter.
    fn a_missing_interpreter(env) {
        env.script("script", "#!/no/such/interpreter\n");
        let ending = ending_of(env, "./script", 126);
        assert_eq!(ending["detail"]["fault"], "not_executable", "{ending}");
        let message = ending["detail"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("interpreter"), "{ending}");
    }

    /// Text without `#!` and bytes in no format: never handed to a shell.
    fn an_unknown_format(env) {
        env.script("text", "echo a shell ran this\n");
        env.script("garbage", [0x7f, b'E', b'L', b'F', 0, 0, 0, 0]);
        env.script("empty", "");
        for program in ["./text", "./garbage", "./empty"] {
            let ending = ending_of(env, program, 126);
            assert_eq!(ending["detail"]["fault"], "not_executable", "{program}: {ending}");
        }
    }

    /// A missing directory to start in is a fault of the start.
    fn a_missing_directory(env) {
        let output = env.min(["run", "-w", "/nosuch", "--", "true"]).run();
        output.assert_code(125);
        let ending = env.ending("true-1");
        assert_eq!(ending["reason"], "start_failed");
        assert_eq!(ending["detail"]["fault"], "other");
    }

    /// A detached start says so at once too; the box keeps its record.
    fn detached(env) {
        let output = env.min(["run", "-d", "--", "nosuch"]).run();
        output.assert_code(127);
        assert_eq!(env.show("nosuch-1")["state"], "failed");
        env.min(["wait", "nosuch-1"]).run().assert_code(127);
        env.min(["logs", "nosuch-1"]).run().assert_code(0).assert_stdout("");
    }

    /// A step of the start that fails is named, with the kernel's answer.
    fn a_failing_step_is_named(env) {
        env.hooks().fail("keeper.birth.before_exec", rustix::io::Errno::NOMEM);
        env.run(["true"]).run().assert_code(125);
        let ending = env.ending("true-1");
        assert_eq!(ending["reason"], "start_failed");
        assert_eq!(ending["detail"]["errno"], rustix::io::Errno::NOMEM.raw_os_error());
        assert!(ending["detail"]["step"].is_string(), "{ending}");
        // And nothing stays in the way of the next.
        env.run(["true"]).run().assert_code(0);
    }
}
