//! Tasks of a project: arguments, scripts, variables, layers, and what is wrong with a file.

use std::path::Path;

use minimal_testkit::for_each_user;

const FILE: &str = r#"
[defaults]
vars = { LAYER = "defaults" }

[defaults.task]
timeout = "5m"

[tasks.words]
description = "prints each word"
exec = ["printf", "[%s]", "%{one}", "%{many}", "%%{one}"]
args.one = { type = "string", default = "" }
args.many = { type = "Array string", default = [] }

[tasks.script]
bash = "echo $ARG_WHO in $MINIMAL_BOX_NAME with $LAYER"
args.who = { type = "string" }
vars = { LAYER = "entry" }

[tasks.waits]
bash = "read _; echo done"

[tasks.secret]
bash = "test \"$TOKEN\" = \"correct-\"horse-battery && echo right; test \"$OR\" = other && echo other; read _"
vars = { TOKEN = { inherit = true }, OR = { inherit = true, default = "other" } }

[tasks.here]
exec = "pwd"
inherit_cwd = true

[tasks.root]
exec = "pwd"

[tasks.net]
exec = "true"
network = { mode = "own_ip", egress.allow_dns_hosts = ["example.com"] }

[sessions.shell]
"#;

/// Whether any file below a directory holds `needle`.
fn is_kept(directory: &Path, needle: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().flatten().any(|entry| {
        let kind = entry.file_type().unwrap();
        let contains = || {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            minimal_testkit::command::contains(&content, needle)
        };
        (kind.is_dir() && is_kept(&entry.path(), needle)) || (kind.is_file() && contains())
    })
}

for_each_user! {
    /// Values are whole words, whatever they hold.
    fn arguments_are_whole_words(env) {
        env.file("minimal.toml", FILE);
        let words = ["run", "words", "--one", "a b'$(id)\"", "--many", "x y", "--many=--z"];
        env.min(words).run().assert_code(0).assert_stdout("[a b'$(id)\"][x y][--z][%{one}]");
        env.min(["task", "run", "--rm", "words"]).run().assert_code(0).assert_stdout("[][%{one}]");
        let help = env.min(["run", "words", "--help"]).run();
        help.assert_code(0);
        assert!(help.text().contains("Usage: min run words [--many <Array string>] [--one <string>]"), "{help}");
        let record = env.newest();
        assert_eq!(record["spec_digest"], record["client_digest"]);
        assert_eq!(record["type"], "task");
        for (words, why) in [
            (&["run", "words", "--on", "x"][..], "did you mean `one`?"),
            (&["run", "words", "--one"], "`--one` needs a value"),
            (&["run", "script"], "`--who` must be given"),
            (&["run", "word"], "there is no task `word`; tasks of this project: here, net"),
            (&["run", "shell"], "`shell` is a session, and `min run` runs tasks"),
        ] {
            env.min(words).run().assert_code(2).assert_stdout("").assert_stderr_has(why);
        }
    }

    /// Two at once are two boxes, called after the task.
    fn two_runs_are_two_boxes(env) {
        env.file("minimal.toml", FILE);
        let start = || env.min(["run", "waits"]).stdin_piped().spawn();
        let (mut one, mut other) = (start(), start());
        one.write(b"\n");
        one.wait().assert_code(0).assert_stdout("done\n");
        other.write(b"\n");
        other.wait().assert_code(0).assert_stdout("done\n");
        for name in ["waits-1", "waits-2"] {
            env.min(["show", name]).run().assert_code(0);
        }
        env.min(["run", "script", "--who", "$(id)"]).run().assert_code(0)
            .assert_stdout("$(id) in script-1 with entry\n");
        // Settings of every task hold for a command without one.
        env.min(["run", "--", "printenv", "LAYER"]).run().assert_code(0).assert_stdout("defaults\n");
        let spec = env.min(["box", "spec", "printenv-1", "-o", "json"]).run();
        assert_eq!(spec.json()["execution"]["timeout_ms"], 300_000);
    }

    /// Values that are inherited are the caller's, and nowhere but in the box's memory.
    fn inherited_values_are_in_no_file(env) {
        env.file("minimal.toml", FILE);
        env.file("../home/.config/minimal/user_policy.toml", "[vars]\nallow = [\"TOKEN\"]\n");
        let mut running =
            env.min(["run", "secret"]).env("TOKEN", "correct-horse-battery").stdin_piped().spawn();
        running.wait_for_stdout("right\nother\n");
        assert!(!is_kept(env.state_dir(), b"correct-horse-battery"));
        running.write(b"\n");
        running.wait().assert_code(0);
        assert!(!is_kept(env.state_dir(), b"correct-horse-battery"));
        env.min(["run", "secret"]).run().assert_code(3).assert_stdout("")
            .assert_stderr_has("nothing was run: the variable TOKEN is to be inherited");
        std::fs::remove_dir_all(env.home().join(".config")).unwrap();
    }

    /// A task starts at the root, or where its caller is if it says so.
    fn where_a_task_starts(env) {
        env.file("minimal.toml", FILE);
        env.file("a/b/x", "");
        for (task, starts) in [("here", "/workbench/a/b\n"), ("root", "/workbench\n")] {
            let output = env.min(["run", task]).cwd(env.work().join("a/b")).run();
            output.assert_code(0).assert_stdout(starts);
        }
        let output = env.min(["run", "--workspace", "none", "here"]).cwd(env.work().join("a/b")).run();
        output.assert_code(0).assert_stdout("/workbench\n").assert_stderr_has("the box has no `a/b`");
    }

    /// What this version cannot do is refused by name; what is wrong is told all at once.
    fn what_cannot_be_is_told(env) {
        env.file("minimal.toml", FILE);
        env.min(["run", "net"]).run().assert_code(8).assert_stderr_has("network.mode");
        let explained = env.min(["box", "spec", "net", "--explain"]).run();
        explained.assert_code(0);
        let line = explained.text().lines().find(|line| line.starts_with("network.mode"));
        assert!(line.is_some_and(|line| line.contains("own_ip") && line.contains("minimal.toml:35")), "{explained}");
        env.file("minimal.toml", "[tasks.a]\nexce = \"true\"\ntimeout = \"8\"\n");
        let output = env.min(["run", "a"]).run();
        output.assert_code(3).assert_stdout("");
        output.assert_stderr_has("minimal.toml:2:1: `exce`").assert_stderr_has("did you mean `exec`?");
        output.assert_stderr_has("minimal.toml:3:11: `timeout`");
        let output = env.min(["-o", "json", "run", "--", "true"]).run();
        output.assert_code(3).assert_stderr_has("\"code\":\"invalid_config\"");
        env.min(["ls"]).run().assert_code(0);
    }

    /// The same bytes wherever, whoever, and in whatever language and time.
    fn the_same_bytes_everywhere(env) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/spec");
        let file = std::fs::read_to_string(golden.join("keys.toml")).unwrap();
        let expected = std::fs::read_to_string(golden.join("keys.expected")).unwrap();
        env.file("minimal.toml", &file);
        env.file("other/.minimal/minimal.toml", &file);
        for (directory, lang, zone) in [("", "C", "UTC"), ("other", "de_DE.UTF-8", "Asia/Kolkata")] {
            let output = env
                .min(["box", "spec", "params", "--explain", "-o", "json"])
                .cwd(env.work().join(directory))
                .env("LC_ALL", lang)
                .env("TZ", zone)
                .env("HOME", env.work())
                .run();
            output.assert_code(0);
            let digest = output.json()["digest"].as_str().unwrap().to_owned();
            assert!(expected.contains(&format!("== params\n{digest}\n")), "{digest}");
        }
    }

    /// A file that somebody else has put there is not taken.
    fn a_file_of_somebody_else_is_refused(env) {
        env.file("minimal.toml", FILE);
        let path = env.work().join("minimal.toml");
        // Only root can give files away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
            return;
        }
        env.min(["run", "--", "true"]).run().assert_code(3).assert_stderr_has("belongs to user 12345");
    }

    /// Neither is one that everybody may write to.
    fn a_file_that_everybody_may_write_to_is_refused(env) {
        let path = env.file("minimal.toml", FILE);
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        env.min(["run", "--", "true"]).run().assert_code(3).assert_stderr_has("chmod o-w");
    }
}
