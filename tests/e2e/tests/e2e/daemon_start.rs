//! The daemon starts by itself, once, and leaves its starter's world.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use minimal_testkit::{LIMIT, Process, for_each_user, wait_until};

for_each_user! {
    /// Twenty cold clients make one daemon, and each gets its answer.
    fn twenty_cold_clients(env) {
        let clients: Vec<_> = (0..20).map(|n| env.run_sh(&format!("exit {n}")).spawn()).collect();
        for (n, client) in clients.into_iter().enumerate() {
            client.wait().assert_code(i32::try_from(n).unwrap());
        }
        wait_until("one daemon is left", LIMIT, || {
            let daemons = env.daemons();
            if daemons.len() == 1 { Ok(()) } else { Err(daemons) }
        });
        assert_eq!(env.boxes().len(), 20);
    }

    /// Nothing of its starter's: directory, descriptors, session, terminal, environment.
    fn a_world_of_its_own(env) {
        env.bash("cd /usr && exec 7<.; min run -- true").env("STARTERS_SECRET", "x").run().assert_code(0);
        let daemon = env.daemon().expect("it runs on");
        let proc = std::path::Path::new("/proc").join(daemon.pid.to_string());
        assert_eq!(fs::read_link(proc.join("cwd")).unwrap(), std::path::Path::new("/"));
        let environment = fs::read(proc.join("environ")).unwrap();
        assert!(!minimal_testkit::command::contains(&environment, b"STARTERS_SECRET"));
        for entry in fs::read_dir(proc.join("fd")).unwrap().flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            assert_ne!(target, std::path::Path::new("/usr"), "an inherited descriptor");
        }
        let stat = fs::read_to_string(proc.join("stat")).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
        assert_ne!(daemon.session, Process::this().session, "it is in a session of its own");
        assert_eq!(fields[4], "0", "it has no terminal");
    }

    /// Its socket and state are for its user alone.
    fn modes(env) {
        env.bash("umask 0; min run -- true").run().assert_code(0);
        let mode = |path: &str| fs::metadata(env.state_dir().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(""), 0o700);
        assert_eq!(mode("minimald.sock"), 0o600);
        assert_eq!(mode("boxes"), 0o700);
        assert_eq!(mode("daemon.log"), 0o600);
    }

    /// A socket that nobody answers on is replaced; something else in its place is not.
    fn an_orphan_socket(env) {
        env.run(["true"]).run().assert_code(0);
        env.kill_daemon();
        let path = env.state_dir().join("minimald.sock");
        drop(fs::remove_file(&path));
        drop(UnixListener::bind(&path).unwrap());
        env.account().own(&path);
        env.run_sh("exit 3").run().assert_code(3);
        env.kill_daemon();
        drop(fs::remove_file(&path));
        fs::create_dir(&path).unwrap();
        let output = env.run(["true"]).run();
        assert_eq!(output.code(), Some(7), "{output}");
        output.assert_stderr_has("minimald.sock");
        fs::remove_dir(&path).unwrap();
    }

    /// A socket that was deleted under its daemon is there again, and the daemon is the same.
    fn a_deleted_socket(env) {
        let id = env.detached("sleep 86552");
        let daemon = env.daemon().expect("a daemon");
        fs::remove_file(env.state_dir().join("minimald.sock")).unwrap();
        assert_eq!(env.show(&id)["state"], "running");
        assert_eq!(env.daemons(), std::slice::from_ref(&daemon));
        // A client that starts nothing waits for it, too.
        fs::remove_file(env.state_dir().join("minimald.sock")).unwrap();
        env.min(["host", "stop", "--boxes", "--force"]).run().assert_code(0);
        daemon.wait_gone(LIMIT);
        env.wait_for_no_process("sleep 86552");
    }

    /// A daemon whose state directory was deleted leaves: nobody could reach it any more.
    fn a_deleted_state_directory(env) {
        env.run(["true"]).run().assert_code(0);
        let daemon = env.daemon().expect("a daemon");
        fs::remove_dir_all(env.state_dir()).unwrap();
        daemon.wait_gone(LIMIT);
        env.run_sh("exit 3").run().assert_code(3);
    }

    /// A daemon that listens elsewhere, or was stopped, is told of with its pid.
    fn a_daemon_out_of_reach(env) {
        let other = env.root().join("other.sock");
        env.min(["ls"]).env("MINIMAL_SOCKET", &other).run().assert_code(0);
        let daemon = env.daemon().expect("a daemon");
        let pid = format!("(pid {})", daemon.pid);
        env.min(["host", "stop"]).run().assert_code(7).assert_stderr_has(&pid);
        let doctor = env.min(["doctor"]).run();
        assert!(doctor.text().contains(&format!("FAIL  daemon: a daemon {pid}")), "{doctor}");
        daemon.stop();
        let stopped = env.min(["ls"]).env("MINIMAL_SOCKET", &other).run();
        stopped.assert_code(7).assert_stderr_has(&pid).assert_stderr_has("kill -CONT");
        daemon.signal(rustix::process::Signal::CONT);
        env.min(["host", "stop"]).env("MINIMAL_SOCKET", &other).run().assert_code(0);
        daemon.wait_gone(LIMIT);
    }

    /// `host stop` leaves boxes running; `--boxes` ends them.
    fn host_stop(env) {
        let id = env.detached("sleep 86551");
        env.wait_for_process("sleep 86551");
        let daemon = env.daemon().expect("a daemon");
        env.min(["host", "stop"]).run().assert_code(0);
        daemon.wait_gone(LIMIT);
        assert_eq!(env.find("sleep 86551").len(), 1);
        assert_eq!(env.show(&id)["state"], "running");
        env.min(["host", "stop", "--boxes", "--force"]).run().assert_code(0);
        wait_until("nothing is left", LIMIT, || {
            let left = env.processes();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        assert_eq!(env.ending(&id)["reason"], "stopped");
        env.min(["host", "stop"]).run().assert_code(0);
        // And with no daemon there is nothing to stop.
        env.min(["host", "stop"]).run().assert_code(0);
    }

    /// What the daemon writes about a box: its end with id, name, reason and code; never its
    /// arguments or values.
    fn the_daemons_log(env) {
        env.min(["run", "-e", "SECRET_VALUE=hunter2", "--", "sh", "-c", "exit 3", "argument-secret"]).run().assert_code(3);
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        let log = wait_until("the end is in the log", LIMIT, || {
            let log = fs::read_to_string(env.state_dir().join("daemon.log")).unwrap_or_default();
            let ended = log.lines().any(|line| line.contains(&id) && line.contains("sh-1") && line.contains("exit"));
            if ended { Ok(log) } else { Err(log) }
        });
        for line in log.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "not JSON: {line}");
        }
        let keeper = fs::read_to_string(env.box_dir(&id).join("keeper.log")).unwrap_or_default();
        for text in [log, keeper] {
            for secret in ["hunter2", "argument-secret", "exit 3"] {
                assert!(!text.contains(secret), "{secret} is in:\n{text}");
            }
        }
    }
}
