//! The workspace: each of its modes, and the truths of an overlay. Odd projects are in
//! `workspace_odd`, repositories in `workspace_git`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

use minimal_testkit::{TestEnv, for_each_user};

/// What a directory holds, with contents and times, as one text.
fn picture(env: &TestEnv) -> String {
    let script = "find . -printf '%P %y %m %s %T@ %C@ %l\\n' | sort; find . -type f -exec cat {} +";
    let output = env.bash(script).run();
    output.assert_code(0);
    output.text().to_owned()
}

for_each_user! {
    /// Without a word: the project, with the box's changes kept in the box.
    fn overlay_is_the_default(env) {
        env.file("kept", "kept\n");
        env.file("changed", "before\n");
        env.file("sub/deleted", "x");
        let before = picture(env);
        let script = "pwd; id -un; stat -c %U . kept; cat kept; echo after > changed; rm -r sub; mkdir new; echo x > new/y; \
                      cat changed; ls";
        env.run_sh(script).run().assert_code(0).assert_stdout(
            "/workbench\nbox\nbox\nbox\nkept\nafter\nchanged\nkept\nnew\n",
        );
        assert_eq!(picture(env), before, "nothing on the host changes");
        let record = env.newest();
        assert_eq!(record["enforcement"]["workspace"], "overlay", "{record}");
        // The next box sees nothing of it either.
        env.run_sh("cat changed; ls").run().assert_code(0).assert_stdout("before\nchanged\nkept\nsub\n");
    }

    /// Every mode, by what it shows and what it changes.
    fn each_mode(env) {
        env.file("source", "content\n");
        for (mode, sees, changes) in
            [("overlay", "content\n", false), ("copy", "content\n", false), ("bind", "content\n", true), ("none", "", false)]
        {
            let script = format!("cat source 2>/dev/null; echo {mode} > made-{mode}; pwd >&2");
            let output = env.min(["run", "--workspace", mode, "--", "sh", "-c", &script]).run();
            output.assert_code(0).assert_stdout(sees).assert_stderr_has("/workbench\n");
            assert_eq!(env.work().join(format!("made-{mode}")).exists(), changes, "{mode}");
            assert_eq!(env.newest()["enforcement"]["workspace"], mode);
        }
    }

    /// It starts where its caller stands below the project.
    fn the_callers_place(env) {
        env.account().make_dir(&env.work().join(".git"));
        env.file("a/here", "");
        env.file("a/b/here", "");
        for directory in ["a", "a/b"] {
            let output = env.run_sh("pwd; test -d /workbench/.git").cwd(env.work().join(directory)).run();
            output.assert_code(0).assert_stdout(format!("/workbench/{directory}\n"));
        }
        let output = env.min(["run", "-w", "a", "--", "pwd"]).cwd(env.work().join("a/b")).run();
        output.assert_code(0).assert_stdout("/workbench/a\n");
    }

    /// Times are those of the host to the nanosecond: what was built is not built again, and a
    /// change in the box builds what depends on it.
    fn make_rebuilds_nothing(env) {
        let generate = "n=2000; printf 'all: prog\\nobjs =' > Makefile; \
            for i in $(seq $n); do printf ' o/%s.o' $i; done >> Makefile; \
            printf '\\nprog: $(objs)\\n\\t@echo link; touch prog\\no/%%.o: c/%%.c\\n\\t@echo build $@; cp $< $@\\n' >> Makefile; \
            mkdir c o; for i in $(seq $n); do echo \"int f$i;\" > c/$i.c; done; make -s -j2 > built; tail -1 built";
        env.bash(generate).run().assert_code(0).assert_stdout("link\n");
        for mode in ["overlay", "copy"] {
            let make = "make -q && echo up to date; touch c/7.c; make";
            env.min(["run", "--workspace", mode, "--", "sh", "-c", make])
                .run()
                .assert_code(0)
                .assert_stdout("up to date\nbuild o/7.o\nlink\n");
        }
        env.bash("make -q && echo up to date").run().assert_code(0).assert_stdout("up to date\n");
    }

    /// A directory of the project moves in every mode, by rename or, over an overlay, by copying.
    fn a_directory_moves(env) {
        for mode in ["overlay", "copy", "bind"] {
            env.file("dir/file", mode);
            let script = "mv dir moved && cat moved/file && test ! -e dir";
            env.min(["run", "--workspace", mode, "--", "sh", "-c", script]).run().assert_code(0).assert_stdout(mode);
        }
        fs::remove_dir_all(env.work().join("moved")).unwrap();
    }

    /// The limit behind it: the system call alone does not move a directory that is in the project.
    fn a_directory_is_not_renamed_over_an_overlay(env) {
        env.file("dir/file", "x");
        let rename = "import os\ntry: os.rename('dir', 'moved')\nexcept OSError as e: print(e.errno == 18)\nelse: print('renamed')";
        if !minimal_testkit::need::met("python3", std::path::Path::new("/usr/bin/python3").exists(), "it is not installed") {
            return;
        }
        env.run(["python3", "-c", rename]).run().assert_code(0).assert_stdout("True\n");
        env.min(["run", "--workspace", "copy", "--", "python3", "-c", rename]).run().assert_code(0).assert_stdout("renamed\n");
        // One that the box made is renamed as anywhere.
        env.run(["python3", "-c", &format!("import os\nos.rmdir('empty') if os.path.isdir('empty') else None\nos.mkdir('own'); os.rename('own', 'dir2')\n{rename}")])
            .run()
            .assert_stdout("True\n");
    }

    /// Two names of one file are two files once the box has changed one; in a copy they stay one.
    fn hard_links_come_apart_in_an_overlay(env) {
        env.bash("echo before > one; ln one two").run().assert_code(0);
        for (mode, other) in [("overlay", "before\n"), ("copy", "after\n"), ("bind", "after\n")] {
            let output = env.min(["run", "--workspace", mode, "--", "sh", "-c", "echo after > one; cat two"]).run();
            output.assert_code(0).assert_stdout(other);
        }
    }

    /// The state of another daemon: its boxes' records, and its socket, are not to be had.
    fn another_state_directory(env) {
        let other = env.root().join("other");
        env.run(["true"]).env("MINIMAL_STATE_DIR", &other).run().assert_code(0);
        env.min(["host", "stop"]).env("MINIMAL_STATE_DIR", &other).run().assert_code(0);
        for place in [other.clone(), other.join("boxes")] {
            env.min(["run", "--workspace", "bind", "--", "true"]).cwd(&place).run().assert_code(5);
            let output = env.min(["run", "--", "ls", "-A"]).cwd(&place).run();
            output.assert_code(0).assert_stdout("").assert_stderr_has("state of boxes");
        }
        fs::remove_dir_all(&other).unwrap();
    }

    /// The host's settings, at any depth.
    fn below_etc(env) {
        let below = fs::read_dir("/etc").unwrap().flatten().find(|entry| {
            entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.metadata().is_ok_and(|it| it.permissions().mode() & 0o5 == 0o5)
        });
        let below = below.expect("a directory in /etc that everybody may enter").path();
        env.min(["run", "--workspace", "bind", "--", "true"]).cwd(&below).run().assert_code(5);
        env.min(["run", "--", "ls", "-A"]).cwd(&below).run().assert_code(0).assert_stdout("");
    }

    /// Directories that are no project: none, said once, or a refusal of what was asked for.
    fn dangerous_roots(env) {
        let roots = [env.root().to_owned(), env.home(), env.state_dir().join("boxes"), "/".into(), "/etc".into(), "/proc".into()];
        env.run(["true"]).run().assert_code(0);
        for root in roots {
            let output = env.run_sh("pwd; ls").cwd(&root).run();
            output.assert_code(0).assert_stdout("/workbench\n").assert_stderr_has("The box's /workbench is empty");
            assert_eq!(env.newest()["enforcement"]["workspace"], "none");
            let output = env.min(["run", "-q", "--", "true"]).cwd(&root).run();
            output.assert_code(0);
            assert!(output.stderr.is_empty(), "{output}");
            let before = env.boxes().len();
            for mode in ["overlay", "copy", "bind"] {
                let output = env.min(["run", "--workspace", mode, "--", "true"]).cwd(&root).run();
                output.assert_code(5).assert_stderr_has("nothing was run").assert_stderr_has("cannot be given to a box");
            }
            assert_eq!(env.boxes().len(), before, "a refusal makes no box");
        }
        let output = env.bash("mkdir gone && cd gone && rmdir ../gone && min run --workspace copy -- true").run();
        output.assert_code(5).assert_stderr_has("working directory is gone");
    }

    /// What a copy keeps, and what it leaves out and names.
    fn what_a_copy_keeps(env) {
        let make = "mkdir -p d/e; echo x > d/e/f; chmod 640 d/e/f; chmod 500 d/e; ln -s ../outside link; ln -s /etc/passwd abs; \
                    echo one > h1; ln h1 h2; mkfifo pipe; echo s > run; chmod 4755 run; printf x > sparse; truncate -s 64M sparse; \
                    touch -d '2001-02-03 04:05:06.789' d/e/f d; touch -h -d '2002-01-01' link; setfattr -n user.note -v hi h1 2>/dev/null; true";
        env.bash(make).run().assert_code(0);
        let look = "stat -c '%n %a %s %Y %F' d d/e d/e/f link h1 run sparse; readlink link abs; test h1 -ef h2 && echo linked; \
                    test -e pipe || echo no pipe; test $(du -k sparse | cut -f1) -lt 1024 && echo sparse; stat -c %y d/e/f | cut -c1-23";
        let output = env.min(["run", "--workspace", "copy", "--", "sh", "-c", look]).run();
        let here = env.bash(&look.replace("test -e pipe", "false")).run();
        let expected = here.text().replace("run 4755", "run 755");
        output.assert_code(0).assert_stdout(expected).assert_stderr_has("`pipe` not copied");
        let missing = env.newest()["enforcement"]["missing"].to_string();
        assert!(missing.contains("workspace_copy") && missing.contains("`pipe`"), "{missing}");
        env.bash("chmod -R u+w d").run().assert_code(0);
    }

    /// Set-uid programs and special files are there and have no effect.
    fn special_files_are_dead(env) {
        env.bash("cp /bin/sh suid; chmod 6755 suid; mkfifo pipe; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'").run().assert_code(0);
        if env.account().is_root() {
            env.bash("mknod null c 1 3; chmod 666 null").run().assert_code(0);
        }
        let script = "stat -c '%n %F' pipe sock; ./suid -p -c 'id -u'; test -e null && cat null 2>&1; true";
        for mode in ["overlay", "bind"] {
            let output = env.min(["run", "--workspace", mode, "--", "sh", "-c", script]).run();
            output.assert_code(0);
            let text = output.text();
            assert!(text.starts_with("pipe fifo\nsock socket\n1000\n"), "{output}");
            assert_eq!(env.account().is_root(), text.contains("Permission denied"), "{output}");
        }
        fs::remove_file(env.work().join("sock")).unwrap();
    }

    /// The state of the box's part is out of others' reach, whatever mode the project has.
    fn the_upper_is_private(env) {
        fs::set_permissions(env.work(), fs::Permissions::from_mode(0o777)).unwrap();
        let id = env.detached("touch x; cat");
        let boxes = fs::metadata(env.state_dir()).unwrap();
        assert_eq!(boxes.mode() & 0o077, 0, "{id}");
        env.min(["rm", "--force", &id]).run().assert_code(0);
    }
}
