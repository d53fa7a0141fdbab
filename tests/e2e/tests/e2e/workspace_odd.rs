//! Odd projects, and hosts on which not everything goes.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;

use std::path::{Path, PathBuf};
use std::process::Command;

use minimal_testkit::{Account, TestEnv, Tmpfs, for_each_user, need};
use serde_json::Value;

/// A mount that root made for the scenario; gone when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(at: &Path, args: &[&str]) -> Self {
        let mut command = Command::new("mount");
        let output = command.args(args).arg(at).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self(at.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

/// What the newest box's workspace lacks, by name.
fn lacks(env: &TestEnv, what: &str) -> String {
    let record = env.newest();
    let missing = record["enforcement"]["missing"].as_array().cloned().unwrap_or_default();
    let found = missing.iter().find(|missing| missing["what"] == what);
    let why = found.unwrap_or_else(|| panic!("{what} is not told of: {record}"))["why"].clone();
    why.as_str().unwrap().to_owned()
}

fn workspace(env: &TestEnv) -> Value {
    env.newest()["enforcement"]["workspace"].clone()
}

for_each_user! {
    /// Names that a mount's options, a shell or a text would trip over.
    fn names(env) {
        let names = [
            b"a b".to_vec(), b"a'b\"c".to_vec(), b"a:b,c=d".to_vec(), b"a\\b".to_vec(), b"a\nb".to_vec(), vec![b'a', 0xff, 0xfe],
            "ä→".as_bytes().to_vec(), b"$(id)`id`".to_vec(), b"-rf".to_vec(), vec![b'n'; 255],
        ];
        for name in names {
            let directory = env.work().join(OsString::from_vec(name));
            env.account().make_dir(&directory);
            let file = directory.join(OsString::from_vec(vec![b'f', 0xff, b'\n']));
            fs::write(&file, "content\n").unwrap();
            env.account().own(&file);
            for mode in ["overlay", "copy", "bind"] {
                let output = env.min(["run", "--workspace", mode, "--", "sh", "-c", "cat f*; touch x"]).cwd(&directory).run();
                output.assert_code(0).assert_stdout("content\n");
            }
        }
    }

    /// A project by another name is the same project.
    fn through_a_link(env) {
        env.file("real/file", "content\n");
        env.bash("ln -s real link").run().assert_code(0);
        env.bash("cd link && min run -- cat file").run().assert_code(0).assert_stdout("content\n");
        assert_eq!(env.newest()["project_root"], env.work().join("real").to_str().unwrap());
    }

    /// A state directory on an overlay, as in a container: the box has a copy and the reason is told;
    /// who insists on an overlay is refused, and who wants something else gets it.
    fn state_on_an_overlay(env) {
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.root().join("disk"), 64 << 20, env.account());
        let [lower, upper, work, at] = ["lower", "upper", "work", "at"].map(|name| disk.path().join(name));
        for directory in [&lower, &upper, &work, &at] {
            env.account().make_dir(directory);
        }
        let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
        let mounted = Mounted::new(&at, &["-t", "overlay", "overlay", "-o", &options]);
        env.set_state_dir(at.join("s"));
        env.file("file", "content\n");
        let output = env.run_sh("cat file; echo x > file; rm file").run();
        output.assert_code(0).assert_stdout("content\n").assert_stderr_has("so the box has a copy");
        assert_eq!(workspace(env), "copy");
        assert!(lacks(env, "workspace_overlay").contains("upper"), "{}", lacks(env, "workspace_overlay"));
        assert_eq!(fs::read(env.work().join("file")).unwrap(), b"content\n");
        let output = env.min(["run", "--workspace", "overlay", "--", "true"]).run();
        output.assert_code(125).assert_stderr_has("cannot lay the box's changes over the project");
        for mode in ["copy", "bind", "none"] {
            env.min(["run", "--workspace", mode, "--", "true"]).run().assert_code(0);
            assert_eq!(workspace(env), mode);
        }
        env.stop_all();
        drop((mounted, disk));
    }

    /// Something mounted below the project: never entered, never in the way, and told.
    fn mounts_below(env) {
        if !need::tmpfs() {
            return;
        }
        env.file("file", "content\n");
        env.file("mounted/hidden", "");
        let disk = Tmpfs::mount(&env.work().join("mounted"), 1 << 20, env.account());
        fs::write(disk.path().join("there"), "").unwrap();
        let expected = if env.account().is_root() { "overlay" } else { "copy" };
        for args in [&["run"][..], &["run", "--workspace", "copy"]] {
            let output = env.min(args).arg("--").arg("sh").arg("-c").arg("cat file; test -e mounted/there && echo there; echo x > file").run();
            output.assert_code(0).assert_stdout("content\n").assert_stderr_has("mounted`");
            assert!(lacks(env, "workspace_mounts").contains("mounted"));
            assert_eq!(workspace(env), if args.len() == 1 { expected } else { "copy" });
        }
        let output = env.min(["run", "--workspace", "bind", "--", "ls", "mounted"]).run();
        output.assert_code(0).assert_stdout("there\n");
        if !env.account().is_root() {
            let output = env.min(["run", "--workspace", "overlay", "--", "true"]).run();
            output.assert_code(125).assert_stderr_has("is mounted below it");
        }
        drop(disk);
        fs::remove_dir_all(env.work().join("mounted")).unwrap();
    }

    /// In memory; and where nothing can be written.
    fn in_memory_and_read_only(env) {
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.work().join("disk"), 8 << 20, env.account());
        fs::write(disk.path().join("file"), "content\n").unwrap();
        fs::set_permissions(disk.path().join("file"), fs::Permissions::from_mode(0o644)).unwrap();
        env.account().own(&disk.path().join("file"));
        let script = "cat file; echo x > file && touch y && echo written";
        let run = |mode: &str| env.min(["run", "--workspace", mode, "--", "sh", "-c", script]).cwd(disk.path()).run();
        for mode in ["overlay", "copy"] {
            run(mode).assert_code(0).assert_stdout("content\nwritten\n");
        }
        disk.set_read_only(true);
        for mode in ["overlay", "copy"] {
            run(mode).assert_code(0).assert_stdout("content\nwritten\n");
        }
        let output = run("bind");
        assert_ne!(output.code(), Some(0), "{output}");
        output.assert_stdout("content\n").assert_stderr_has("Read-only file system").assert_stderr_has("mounted read-only");
        assert!(lacks(env, "workspace_write").contains("read-only"));
        disk.set_read_only(false);
        run("bind").assert_code(0).assert_stdout("content\nwritten\n");
    }

    /// Files of somebody else: told at the start, readable where anybody may read, and safe.
    fn odd_owners(env) {
        if !need::root() {
            return;
        }
        env.file("own", "own\n");
        let other = Account { uid: 4242, gid: 4242 };
        for (name, mode) in [("open", 0o644), ("closed", 0o600)] {
            let path = env.file(name, format!("{name}\n"));
            other.own(&path);
            std::os::unix::fs::chown(&path, Some(4242), Some(4242)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let script = "stat -c %u own open; cat own open; cat closed 2>/dev/null || echo closed; \
                      echo x 2>/dev/null >> open || echo kept; rm -f open closed; ls; echo new > open && cat open";
        let output = env.run_sh(script).run();
        let uid = if env.account().is_root() { 4242 } else { 65_534 };
        output.assert_code(0).assert_stdout(format!("1000\n{uid}\nown\nopen\nclosed\nkept\nown\nnew\n"));
        if !env.account().is_root() {
            assert!(lacks(env, "workspace_owners").contains("nobody in the box"));
        }
        // A copy is all the box's, of what may be read.
        let output = env.min(["run", "--workspace", "copy", "--", "sh", "-c", "stat -c %u open; echo x >> open; ls"]).run();
        let all = if env.account().is_root() { "closed\nopen\nown\n" } else { "open\nown\n" };
        output.assert_code(0).assert_stdout(format!("1000\n{all}"));
        if !env.account().is_root() {
            output.assert_stderr_has("`closed` not copied");
        }
        // The real tree: nothing of it changes hands, and root's stays root's.
        let script = "echo x 2>/dev/null >> open || echo kept; chmod 4755 open 2>/dev/null || echo kept; echo mine > made";
        env.min(["run", "--workspace", "bind", "--", "sh", "-c", script]).run().assert_code(0).assert_stdout("kept\nkept\n");
        let made = std::os::unix::fs::MetadataExt::uid(&fs::metadata(env.work().join("made")).unwrap());
        assert_eq!(made, env.account().uid);
        assert_eq!(fs::read(env.work().join("open")).unwrap(), b"open\n");
    }

    /// A project of another user: root is given it, others as far as they may look.
    fn of_another_user(env) {
        if !need::root() {
            return;
        }
        let project = env.work().join("theirs");
        fs::create_dir(&project).unwrap();
        fs::write(project.join("file"), "content\n").unwrap();
        for path in [&project, &project.join("file")] {
            std::os::unix::fs::chown(path, Some(4242), Some(4242)).unwrap();
        }
        fs::set_permissions(&project, fs::Permissions::from_mode(0o755)).unwrap();
        for mode in ["overlay", "copy", "bind"] {
            let output = env.min(["run", "--workspace", mode, "--", "sh", "-c", "cat file; touch made 2>/dev/null; true"]).cwd(&project).run();
            output.assert_code(0).assert_stdout("content\n");
            let made = project.join("made");
            assert_eq!(made.exists(), mode == "bind" && env.account().is_root(), "{mode}");
            if made.exists() {
                assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&made).unwrap()), 4242);
            }
        }
    }

    /// Something that was mounted over the project after the daemon had started, which a daemon whose
    /// mounts are apart from the host's does not see: never the other directory in its place.
    fn a_mount_that_came_later(env) {
        if !need::tmpfs() {
            return;
        }
        let project = env.root().join("late");
        env.account().make_dir(&project);
        env.run(["true"]).cwd(&project).run().assert_code(0);
        let disk = Tmpfs::mount(&project, 1 << 20, env.account());
        for mode in ["overlay", "copy", "bind"] {
            let output = env.min(["run", "--workspace", mode, "--", "touch", "made"]).cwd(&project).run();
            match output.code() {
                Some(0) => assert!(mode != "bind" || project.join("made").exists(), "it went elsewhere"),
                _ => drop(output.assert_code(125).assert_stderr_has("mounted or unmounted")),
            }
        }
        env.min(["host", "stop"]).run().assert_code(0);
        env.min(["run", "--workspace", "bind", "--", "touch", "made"]).cwd(&project).run().assert_code(0);
        assert!(project.join("made").exists());
        env.stop_all();
        drop(disk);
        assert!(!project.join("made").exists());
    }

    /// Gone, or something else, by the time the box starts: told, and nothing ran.
    fn vanished(env) {
        for (change, says) in [
            ("rmdir p", "No such file"),
            ("rmdir p; touch p", "Not a directory"),
            ("rmdir p; ln -s /etc p", "a symbolic link is on the way"),
        ] {
            env.account().make_dir(&env.work().join("p"));
            let paused = env.hooks().pause("keeper.birth.locked");
            let running = env.run_sh("echo ran; ls").cwd(env.work().join("p")).spawn();
            let held = paused.reached();
            env.bash(change).run().assert_code(0);
            held.release();
            let output = running.wait();
            output.assert_code(125).assert_stdout("").assert_stderr_has(says).assert_stderr_has("/p");
            env.bash("rm -rf p").run().assert_code(0);
        }
    }

    /// Gone while the box runs: what it has opened or changed stays, and it ends as it likes.
    fn vanished_under_a_box(env) {
        for mode in ["overlay", "copy", "bind"] {
            env.account().make_dir(&env.work().join("p"));
            env.file("p/file", "content\n");
            let script = "echo own > own; exec 3< file; echo up; read x; cat <&3; cat own; exit 6";
            let mut running = env.min(["run", "--workspace", mode, "--", "sh", "-c", script]).cwd(env.work().join("p")).stdin_piped().spawn();
            running.wait_for_stdout("up\n");
            fs::rename(env.work().join("p"), env.work().join("elsewhere")).unwrap();
            running.write(b"go\n");
            running.wait().assert_code(6).assert_stdout("up\ncontent\nown\n");
            fs::remove_dir_all(env.work().join("elsewhere")).unwrap();
        }
    }
}
