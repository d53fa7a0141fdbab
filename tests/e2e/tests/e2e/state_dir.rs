//! State directories that cannot be used, and odd ones that can.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use minimal_testkit::{DeadMount, Tmpfs, for_each_user, need};

for_each_user! {
    /// Somebody tidies up under a running daemon: what is there for boxes to come is made anew.
    fn places_deleted_under_a_daemon(env) {
        env.run(["true"]).run().assert_code(0);
        for name in ["new", "blank"] {
            fs::remove_dir_all(env.state_dir().join(name)).unwrap();
            for _ in 0..3 {
                env.run_sh("exit 3").run().assert_code(3);
            }
        }
    }

    /// Read-only: said so at once, and nothing hangs.
    fn read_only(env) {
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.root().join("d"), 16 << 20, env.account());
        disk.set_read_only(true);
        env.set_state_dir(disk.path().join("s"));
        let output = env.run(["true"]).run();
        assert!(matches!(output.code(), Some(1 | 7)), "{output}");
        output.assert_stderr_has("read-only").assert_stdout("");
        disk.set_read_only(false);
        env.run_sh("exit 3").run().assert_code(3);
        // Boxes that are there are readable, and their endings are not lost with the disk's writes.
        env.stop_all();
    }

    /// The doctor tries what a daemon would need, and says what is in its way.
    fn what_the_doctor_says(env) {
        let doctor = |env: &minimal_testkit::TestEnv, parts: &[&str]| {
            let output = env.min(["doctor"]).run();
            assert_ne!(output.code(), Some(0), "{output}");
            for part in parts {
                assert!(output.text().contains(part), "{part}: {output}");
            }
        };
        let cannot = "FAIL  daemon: does not run, and cannot start";
        env.run(["true"]).run().assert_code(0);
        env.stop_all();
        let format = env.state_dir().join("format");
        let ours = fs::read(&format).unwrap();
        fs::write(&format, "99\n").unwrap();
        doctor(env, &["FAIL  state directory: ", "has format `99`", cannot]);
        fs::write(&format, ours).unwrap();
        let socket = env.state_dir().join("minimald.sock");
        env.account().make_dir(&socket);
        doctor(env, &["FAIL  socket: ", "fix: move `"]);
        fs::remove_dir(&socket).unwrap();
        if !env.account().is_root() {
            fs::set_permissions(env.state_dir(), fs::Permissions::from_mode(0o500)).unwrap();
            doctor(env, &["FAIL  state directory: ", "Permission denied", cannot]);
            fs::set_permissions(env.state_dir(), fs::Permissions::from_mode(0o700)).unwrap();
        }
        env.min(["doctor"]).run().assert_code(0);
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.root().join("d"), 16 << 20, env.account());
        env.set_state_dir(disk.path());
        disk.set_read_only(true);
        doctor(env, &["FAIL  state directory: ", "read-only", cannot]);
        disk.set_read_only(false);
        let ballast = disk.fill();
        doctor(env, &["FAIL  state directory: ", "is full", cannot]);
        drop(ballast);
        env.min(["doctor"]).run().assert_code(0);
        env.set_state_dir(env.root().join("s"));
    }

    /// On a file system that does not answer: said so, with its place, instead of hanging.
    fn on_a_dead_mount(env) {
        if !need::root() {
            return;
        }
        let mount = DeadMount::mount(&env.root().join("dead"));
        if !need::met("fuse", mount.is_some(), "no FUSE file system can be mounted") {
            return;
        }
        let path = mount.as_ref().expect("it was just asked for").path().join("s");
        let output = env.run(["true"]).env("MINIMAL_STATE_DIR", &path).run();
        assert!(matches!(output.code(), Some(1 | 7)), "{output}");
        output.assert_stderr_has("dead");
        // Whatever still waits for it is let go by its end.
        drop(mount);
    }

    /// Below a file, a name that is taken by a file, a directory without permission.
    fn not_a_directory(env) {
        let file = env.file("file", "x");
        for path in [file.join("below"), file.clone()] {
            let output = env.run(["true"]).env("MINIMAL_STATE_DIR", &path).run();
            assert!(matches!(output.code(), Some(1 | 7)), "{output}");
            output.assert_stderr_has("file");
        }
        if !env.account().is_root() {
            let output = env.run(["true"]).env("MINIMAL_STATE_DIR", "/usr/minimal").run();
            assert!(matches!(output.code(), Some(1 | 7)), "{output}");
        }
        assert_eq!(fs::read(file).unwrap(), b"x");
    }

    /// Deep: longer than a socket's address can be.
    fn deep(env) {
        let deep = env.root().join("p".repeat(100)).join("q".repeat(100)).join("r".repeat(100)).join("state");
        env.account().make_dir(&env.root().join("p".repeat(100)));
        env.set_state_dir(deep);
        let mut running = env.run_sh("cat; exit 3").stdin_piped().spawn();
        running.write(b"x\n");
        running.wait_for_stdout("x\n");
        // The next daemon finds the keeper's socket too.
        env.kill_daemon();
        running.write(b"y\n");
        running.wait_for_stdout("y\n");
        running.close_stdin();
        running.wait().assert_code(3);
    }

    /// Open to others: refused, since what others may have put there is not to be trusted; but an
    /// empty one is closed to them and used.
    fn open_to_others(env) {
        let path = env.root().join("open");
        env.account().make_dir(&path);
        let open_up = || fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        open_up();
        fs::write(path.join("something"), "").unwrap();
        let output = env.run(["true"]).env("MINIMAL_STATE_DIR", &path).run();
        assert!(matches!(output.code(), Some(1 | 5 | 7)), "{output}");
        output.assert_stderr_has("open");
        fs::remove_file(path.join("something")).unwrap();
        env.set_state_dir(&path);
        env.run_sh("exit 3").run().assert_code(3);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    /// Relative paths and `..` mean what they mean to a shell.
    fn relative(env) {
        env.account().make_dir(&env.work().join("a"));
        env.run_sh("exit 3").env("MINIMAL_STATE_DIR", "../s").run().assert_code(3);
        assert_eq!(env.show("sh-1")["ending"]["exit_code"], 3);
    }

    /// Without a variable it is the account's own place, made on demand.
    fn the_usual_place(env) {
        if env.account().is_root() {
            // Root's is a system directory, which a test has no business in.
            return;
        }
        let state = env.home().join("state");
        let run = |command: minimal_testkit::Min| command.env_remove("MINIMAL_STATE_DIR").env("XDG_STATE_HOME", &state);
        run(env.run_sh("exit 3")).run().assert_code(3);
        assert!(state.join("minimal/boxes").is_dir());
        run(env.min(["host", "stop", "--boxes", "--force"])).run().assert_code(0);
        fs::remove_dir_all(state).unwrap();
        let run = |command: minimal_testkit::Min| command.env_remove("MINIMAL_STATE_DIR");
        run(env.run_sh("exit 3")).run().assert_code(3);
        assert!(env.home().join(".local/state/minimal/boxes").is_dir());
        run(env.min(["host", "stop", "--boxes", "--force"])).run().assert_code(0);
        fs::remove_dir_all(env.home().join(".local")).unwrap();
    }
}
