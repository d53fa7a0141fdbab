//! What a box has of its own from the start: copies of the host's files, params, and a workspace without
//! what it leaves out.

use std::fs;

use minimal_testkit::{TestEnv, for_each_kind_of_user, for_each_user};

const FILE: &str = r#"
[tasks.home]
bash = "cat ~/.gitconfig ~/.conf/a.ini ~/.conf/deep/b /tmp/t new/kept; ls -A ~/.conf; stat -c '%U %a' ~/.gitconfig ~/.conf ~/.conf/a.ini /tmp/t new/kept; echo more >> ~/.conf/a.ini"
patches = [
    { source = "~/.gitconfig" },
    { source = "~/.conf/*.ini" },
    { source = "~/.conf/deep" },
    { source = "own", dest = "/tmp/t" },
    { source = "own", dest = "/workbench/new/kept" },
]

[tasks.over]
bash = "cat file dir/x; ls dir"
patches = [{ source = "own", dest = "/workbench/file" }, { source = "dir2", dest = "/workbench/dir" }]

[tasks.through]
exec = "true"
patches = [{ source = "own", dest = "/workbench/link/x" }]

[tasks.gone]
exec = "true"
patches = [{ source = "gone", dest = "~/x" }]

[tasks.many]
bash = "ls -A /tmp"
patches = [{ source = "none/*", dest = "/tmp" }, { source = "dir2/*", dest = "/tmp" }]
"#;

fn world(env: &TestEnv) {
    env.file("minimal.toml", FILE);
    for (name, text) in [
        ("../home/.gitconfig", "git\n"),
        ("../home/.conf/a.ini", "a\n"),
        ("../home/.conf/.hidden.ini", "hidden\n"),
        ("../home/.conf/not", "not\n"),
        ("../home/.conf/deep/b", "b\n"),
        ("own", "own\n"),
        ("file", "file\n"),
        ("dir/x", "1\n"),
        ("dir/y", "2\n"),
        ("dir2/x", "3\n"),
        ("dir2/.z", "4\n"),
        ("none/.keep", ""),
    ] {
        env.file(name, text);
    }
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(env.home().join(".gitconfig"), private).unwrap();
    std::os::unix::fs::symlink("/tmp", env.work().join("link")).unwrap();
}

fn policy(env: &TestEnv, text: &str) {
    env.file("../home/.config/minimal/user_policy.toml", text);
}

fn clean(env: &TestEnv) {
    for name in [".conf", ".config"] {
        fs::remove_dir_all(env.home().join(name)).unwrap();
    }
    fs::remove_file(env.home().join(".gitconfig")).unwrap();
}

for_each_kind_of_user! {
    /// Files, directories and patterns, each to its place, as the box's user's own; nothing on the host
    /// changes. What a project's file copies is judged as what it shows.
    fn copied(env) {
        world(env);
        let run = |task: &str| env.min(["run", task]).run();
        run("home").assert_code(5).assert_stdout("").assert_stderr_has("wants to read ~/.gitconfig;")
            .assert_stderr_has("allow = [\"~/.gitconfig\",\"~/.conf/*.ini\",\"~/.conf/deep\"]");
        policy(env, "[paths]\nallow = ['~/.gitconfig', '~/.conf/*.ini', '~/.conf/deep']\n");
        let expected = "git\na\nb\nown\nown\na.ini\ndeep\nbox 600\nbox 755\nbox 644\nbox 644\nbox 644\n";
        run("home").assert_code(0).assert_stdout(expected);
        assert_eq!(fs::read_to_string(env.home().join(".conf/a.ini")).unwrap(), "a\n");
        assert!(!env.work().join("new").exists(), "the project has it");
        // Of a directory that is there already what is new is taken in.
        for workspace in ["overlay", "copy"] {
            env.min(["run", "--workspace", workspace, "over"]).run().assert_code(0).assert_stdout("own\n3\nx\ny\n");
        }
        assert_eq!(fs::read_to_string(env.work().join("file")).unwrap(), "file\n");
        env.min(["run", "--workspace", "bind", "over"]).run().assert_code(3).assert_stderr_has("not the real project");
        // Where something is written does not depend on links of the project's.
        run("through").assert_code(125).assert_stderr_has("a symbolic link is on the way");
        run("gone").assert_code(3).assert_stderr_has("minimal.toml:22").assert_stderr_has("No such file");
        run("many").assert_code(0).assert_stdout("x\n").assert_stderr_has("none/* stands for nothing");
        policy(env, "[paths]\nallow = ['~/.conf']\nignore = ['~/.gitconfig', '~/.conf/a.ini']\n");
        run("home").assert_code(0).assert_stderr_has("~/.gitconfig is left out")
            .assert_stdout("b\nown\nown\ndeep\nbox 755\nbox 644\nbox 644\n");
        policy(env, "[paths]\nallow = ['~']\ndeny = ['~/.conf/a.ini']\n");
        run("home").assert_code(5).assert_stderr_has("which you deny");
        clean(env);
    }

    /// Params are JSON in a file that the box's user can read and nobody can change; a box without any
    /// has no such file.
    fn params(env) {
        env.file("minimal.toml", "[tasks.p]\nbash = \"cat $MINIMAL_PARAMS_FILE; echo; stat -c '%U %a' $MINIMAL_PARAMS_FILE; \
            rm -f $MINIMAL_PARAMS_FILE 2>/dev/null || echo sealed; read x\"\nparams = { b = [1, 2.5, \"\u{e4}\"], a = { z = true } }\n\
            [tasks.none]\nbash = \"echo ${MINIMAL_PARAMS_FILE:-none}; ls /run\"\n");
        let mut running = env.min(["run", "--name", "p", "p"]).stdin_piped().spawn();
        running.wait_for_stdout("sealed\n");
        env.min(["exec", "p", "--", "sh", "-c", "cat $MINIMAL_PARAMS_FILE"]).run().assert_code(0)
            .assert_stdout("{\"a\":{\"z\":true},\"b\":[1,2.5,\"\u{e4}\"]}");
        running.close_stdin();
        let output = running.wait();
        output.assert_stdout("{\"a\":{\"z\":true},\"b\":[1,2.5,\"\u{e4}\"]}\nbox 400\nsealed\n");
        env.min(["run", "none"]).run().assert_code(0).assert_stdout("none\n");
    }
}

for_each_user! {
    /// A copied workspace leaves out names anywhere, and paths from its top.
    fn excluded(env) {
        env.file("minimal.toml", "[tasks.t]\nbash = \"find . -type f | sort\"\n\
            workspace = { mode = \"copy\", exclude = [\"target\", \"*.o\", \"a/b/c*\", \"/top\", \"dir/\"] }\n");
        for name in ["x.o", "y.c", "deep/z.o", "target/t", "deep/target/t", "a/b/c1/d", "a/b/d", "b/a/b/c", "top", "deep/top", "deep/dir/x"] {
            env.file(name, "");
        }
        env.min(["run", "t"]).run().assert_code(0)
            .assert_stdout("./a/b/d\n./b/a/b/c\n./deep/top\n./minimal.toml\n./y.c\n");
        let files = env.min(["run", "--workspace", "overlay", "t"]).run();
        assert_eq!(files.assert_code(0).text().lines().count(), 12, "{files}");
    }
}
