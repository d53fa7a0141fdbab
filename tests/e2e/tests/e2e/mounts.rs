//! Files and directories of the host in a box: by the command line, and by a project's file as far as
//! the user's policy lets it.

use std::fs;
use std::os::unix::net::UnixListener;

use minimal_testkit::{TestEnv, for_each_kind_of_user, for_each_user};

/// `min run --workspace none <options> -- sh -c <script>`.
fn sh(env: &TestEnv, options: &[&str], script: &str) -> minimal_testkit::Output {
    let mut words = vec!["run", "--workspace", "none"];
    words.extend(options);
    words.extend(["--", "sh", "-c", script]);
    env.min(words).run()
}

/// The home is as it was.
fn clean(env: &TestEnv) {
    for name in [".tool", ".config"] {
        let path = env.home().join(name);
        if path.exists() {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

fn data(env: &TestEnv) -> String {
    for (name, text) in
        [("data/a", "one\n"), ("data/deep/b", "two\n"), ("../home/.tool/c", "three\n")]
    {
        env.file(name, text);
    }
    env.work().join("data").to_str().unwrap().to_owned()
}

for_each_kind_of_user! {
    /// Each mode gives what it says, and takes nothing more.
    fn modes(env) {
        let data = data(env);
        // Read, by whoever the box's user is, and nothing else.
        let script = format!(
            "cat {data}/a ~/.tool/c; id -un; stat -c %U {data}/a; \
             touch {data}/x 2>/dev/null || echo sealed; mount -o remount,rw {data} 2>/dev/null || echo fast; \
             umount {data} 2>/dev/null || echo held"
        );
        let output = sh(env, &["--mount", "data", "--mount", "../home/.tool:ro"], &script);
        output.assert_code(0).assert_stdout("one\nthree\nbox\nbox\nsealed\nfast\nheld\n");
        // Changed, for the box alone.
        let script = "echo more >> /d/a; rm /d/deep/b; touch /d/x; cat /d/a; ls /d /d/deep";
        let output = sh(env, &["--mount", "data:/d:overlay"], script);
        output.assert_code(0).assert_stdout("one\nmore\n/d:\na\ndeep\nx\n\n/d/deep:\n");
        assert_eq!(fs::read_to_string(env.work().join("data/a")).unwrap(), "one\n");
        assert!(env.work().join("data/deep/b").exists() && !env.work().join("data/x").exists());
        // Changed on the host.
        sh(env, &["--mount", "data:/d/e:rw"], "echo more >> /d/e/a; echo new > /d/e/x").assert_code(0);
        assert_eq!(fs::read_to_string(env.work().join("data/a")).unwrap(), "one\nmore\n");
        let owner = |name: &str| std::os::unix::fs::MetadataExt::uid(&fs::metadata(env.work().join(name)).unwrap());
        assert_eq!(owner("data/x"), owner("data/a"));
        // Nothing there gets a bit that makes its user of whoever runs it.
        sh(env, &["--mount", "data:/d:rw"], "chmod u+s /d/x").assert_code(1);
        clean(env);
    }

    /// A file has its place anywhere, also where there is none in a box.
    fn files_and_places(env) {
        let data = data(env);
        let file = format!("{data}/a");
        for place in ["/etc/of-the-host", "/srv/x/y", "/home/box/a/b", "/tmp/q", "/opt/a", "/home/else/a", "/usr/local/bin/a"] {
            let mount = format!("{file}:{place}");
            let script = format!("cat {place}; ls /etc/passwd /usr/bin/env; echo x > {place}");
            let output = sh(env, &["--mount", &mount], &script);
            assert_eq!(output.text(), "one\n/etc/passwd\n/usr/bin/env\n", "{place}: {output}");
        }
        // What is made for it in the home is the box user's.
        let output = sh(env, &["--mount", &format!("{file}:~/p/q/r")], "touch ~/p/x ~/p/q/y && cat ~/p/q/r");
        output.assert_code(0).assert_stdout("one\n");
        // One in another, in whatever order.
        let (inner, outer) = (format!("{data}/deep:/m/n"), format!("{data}:/m:overlay"));
        let output = sh(env, &["--mount", &inner, "--mount", &outer], "cat /m/a /m/n/b");
        output.assert_code(0).assert_stdout("one\ntwo\n");
        clean(env);
    }
}

for_each_user! {
    /// Names are bytes, and a colon of a name has a backslash before it.
    fn odd_names(env) {
        use std::os::unix::ffi::OsStrExt as _;
        for name in [&b"a b"[..], b"a:b", b"a\nb", b"a,b\\", b"a\xffb"] {
            let directory = env.work().join("odd").join(std::ffi::OsStr::from_bytes(name));
            env.account().make_dir(&env.work().join("odd"));
            env.account().make_dir(&directory);
            fs::write(directory.join("x"), "there\n").unwrap();
            for mode in ["ro", "overlay"] {
                let mut mount = directory.as_os_str().as_bytes().to_vec();
                let colons: Vec<_> = mount.iter().enumerate().filter(|(_, it)| matches!(**it, b':' | b'\\')).map(|(at, _)| at).collect();
                colons.into_iter().rev().for_each(|at| mount.insert(at, b'\\'));
                mount.extend(b":/d:");
                mount.extend(mode.bytes());
                let mount = std::ffi::OsStr::from_bytes(&mount);
                let words = ["run", "--workspace", "none", "--mount"].map(std::ffi::OsStr::new);
                let rest = ["--", "cat", "/d/x"].map(std::ffi::OsStr::new);
                let words: Vec<_> = words.into_iter().chain([mount]).chain(rest).collect();
                env.min(words).run().assert_code(0).assert_stdout("there\n");
            }
        }
    }

    /// What cannot be shown is refused before anything runs, with the reason.
    fn refusals(env) {
        let data = data(env);
        env.run(["true"]).run().assert_code(0);
        let _socket = UnixListener::bind(env.work().join("socket")).unwrap();
        env.account().own(&env.work().join("socket"));
        rustix::fs::mknodat(rustix::fs::CWD, env.work().join("fifo"), rustix::fs::FileType::Fifo, 0o644.into(), 0).unwrap();
        std::os::unix::fs::symlink("loop", env.work().join("loop")).unwrap();
        let state = env.state_dir().join("boxes");
        for (mount, code, why) in [
            ("gone", 2, "No such file"),
            ("loop", 2, "symbolic links"),
            ("socket", 2, "it is a socket"),
            ("fifo", 2, "it is a named pipe"),
            ("/dev/null:/n", 2, "it is a device"),
            ("data/a:/d:overlay", 2, "only a directory can have a layer"),
            ("/:/host", 5, "the state of every box is in it"),
            (state.to_str().unwrap(), 5, "it is in the state directory"),
            ("/proc/sys:/p", 125, "it is the kernel's"),
            ("data:/proc/x", 2, "/dev, /proc and /sys are the box's own"),
            ("data:/a/../b", 2, "without `.` and `..`"),
            ("data:/a:rx", 2, "more parts"),
        ] {
            let output = env.min(["run", "--workspace", "none", "--mount", mount, "--", "true"]).run();
            output.assert_code(code).assert_stderr_has(why);
        }
        // The real project gets no new directory for it.
        let output = env.min(["run", "--workspace", "bind", "--mount", &format!("{data}:/workbench/new"), "--", "true"]).run();
        output.assert_code(125).assert_stderr_has("gets no new place");
        assert!(!env.work().join("new").exists());
        env.min(["run", "--workspace", "bind", "--mount", &format!("{data}/deep:/workbench/data"), "--", "cat", "data/b"])
            .run().assert_code(0).assert_stdout("two\n");
        clean(env);
    }

    /// A place in files of the host's own is found there, and never made.
    fn in_one_that_is_the_hosts_own(env) {
        data(env);
        let run = |place: &str| {
            let inner = format!("../home/.tool:/d/{place}");
            env.min(["run", "--mount", "data:/d:rw", "--mount", &inner, "--", "cat", &format!("/d/{place}/c")]).run()
        };
        run("gone").assert_code(125).assert_stderr_has("/d/gone");
        assert!(!env.work().join("data/gone").exists(), "it was made on the host");
        env.account().make_dir(&env.work().join("data/there"));
        run("there").assert_code(0).assert_stdout("three\n");
        clean(env);
    }

    /// A project's file has what the policy lets it have; what is in the project is its own.
    fn a_projects_file_asks(env) {
        data(env);
        env.file("minimal.toml", "[tasks.own]\nexec = \"cat /d/a\"\nmounts = [{ source = \"data\", dest = \"/d\" }]\n\
            [tasks.tool]\nexec = \"cat /home/box/.tool/c\"\nmounts = [{ source = \"~/.tool\" }]\n\
            [tasks.change]\nexec = \"true\"\nmounts = [{ source = \"~/.tool\", mode = \"rw\" }]\n\
            [tasks.link]\nexec = \"true\"\nmounts = [{ source = \"link\", dest = \"/l\" }]\n\
            [tasks.root]\nexec = \"/c\"\nrootfs = \"~/.tool\"\nworkspace = \"none\"\n\
            [tasks.token]\nbash = \"echo ${TOKEN:-none}\"\nvars = { TOKEN = { inherit = true } }\n");
        std::os::unix::fs::symlink(env.home().join(".tool"), env.work().join("link")).unwrap();
        let run = |task: &str| env.min(["run", task]).env("TOKEN", "t").run();
        let policy = |text: &str| {
            let file = env.file("../home/.config/minimal/user_policy.toml", text);
            assert!(file.exists());
        };
        run("own").assert_code(0).assert_stdout("one\n");
        run("tool").assert_code(5).assert_stdout("").assert_stderr_has("minimal.toml:6 wants to read ~/.tool")
            .assert_stderr_has("user_policy.toml:\n[paths]\nallow = [\"~/.tool\"]");
        run("link").assert_code(5).assert_stderr_has("(which is ~/.tool)");
        run("root").assert_code(5).assert_stderr_has("minimal.toml:15 wants to read ~/.tool");
        run("token").assert_code(5).assert_stderr_has("[vars]\nallow = [\"TOKEN\"]");
        assert_eq!(env.min(["ls", "-a", "-o", "jsonl"]).run().text().lines().count(), 1, "something was made");
        policy("[paths]\nallow = [\"~/.tool\"]\n[vars]\nallow = [\"TOK*\"]\n");
        run("tool").assert_code(0).assert_stdout("three\n");
        run("token").assert_code(0).assert_stdout("t\n");
        // Allowed: it has no such program then.
        run("root").assert_code(126).assert_stderr_has("`/c`");
        run("change").assert_code(5).assert_stderr_has("allow_write = [\"~/.tool\"]");
        policy("[paths]\nallow_write = [\"~/.tool\"]\nignore = [\"~/.tool\"]\n[vars]\nignore = [\"TOKEN\"]\n");
        run("tool").assert_code(1).assert_stderr_has("~/.tool is left out");
        run("root").assert_code(5).assert_stderr_has("which you deny");
        run("token").assert_code(0).assert_stdout("none\n");
        policy("[paths]\nallow = [\"~\"]\ndeny = [\"~/.tool/c\"]\n");
        run("tool").assert_code(5).assert_stderr_has("which you deny");
        policy("[paths]\nalow = []\n");
        run("tool").assert_code(3).assert_stderr_has("alow");
        // The person's own word is not judged.
        env.min(["run", "--workspace", "none", "--mount", "../home/.tool", "--", "cat", "/home/box/.tool/c"])
            .run().assert_code(0).assert_stdout("three\n");
        clean(env);
    }

    /// The plan says what will be shown, and a program of the home is told of with what brings it.
    fn told(env) {
        data(env);
        let output = env.min(["run", "--explain", "--mount", "data:/d", "--", "true"]).run();
        output.assert_code(0);
        assert!(output.text().contains("/data at /d: read-only"), "{output}");
        env.script("../home/.tool/bin/mytool", "#!/bin/sh\necho ran\n");
        let path = format!("{}:/usr/bin:/bin", env.home().join(".tool/bin").display());
        let output = env.min(["run", "--", "mytool"]).env("PATH", &path).run();
        output.assert_code(127).assert_stderr_has("`--mount ~/.tool`");
        env.min(["run", "--mount", "../home/.tool", "--", "/home/box/.tool/bin/mytool"])
            .run().assert_code(0).assert_stdout("ran\n");
        clean(env);
    }
}
