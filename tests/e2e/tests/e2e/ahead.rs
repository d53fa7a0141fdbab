//! What is made ahead of its box, and what a start does without it.

use minimal_testkit::{LIMIT, Process, TestEnv, for_each_user, wait_until};
use rustix::io::Errno;

/// The keeper that waits, with its blank box's init.
fn ready(env: &TestEnv) -> (Process, Process) {
    wait_until("a blank box is ready", LIMIT, || {
        let one = |name| env.find(name).into_iter().next();
        match (one("min-spare"), one("min-blank")) {
            (Some(spare), Some(init)) if init.parent == spare.pid => Ok((spare, init)),
            _ => Err(env.processes()),
        }
    })
}

/// Names of the directories that blank boxes have.
fn places(env: &TestEnv) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(env.state_dir().join("blank"));
    entries.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// What a box must be, however it was made.
fn check(env: &TestEnv, name: &str) {
    let script = "hostname; cat /etc/hostname; grep -c \" $(hostname)$\" /etc/hosts; pwd; touch here ~/x /tmp/x; exit 5";
    let output = env.min(["run", "--name", name, "--", "sh", "-c", script]).run();
    output.assert_code(5).assert_stdout(format!("{name}\n{name}\n1\n/workbench\n"));
}

for_each_user! {
    /// A box takes the blank one that is ready, and another is made.
    fn a_box_takes_it(env) {
        env.boxes();
        let (spare, init) = ready(env);
        let mut run = env.run_sh("echo up; read line; exit 5").stdin_piped().spawn();
        run.wait_for_stdout("up\n");
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        assert_eq!(env.keeper(&id).pid, spare.pid);
        let now = Process::read(init.pid).expect("it is the box's init");
        assert_eq!((now.command.as_str(), now.parent), ("min-init", spare.pid));
        let (next, _) = ready(env);
        assert_ne!(next.pid, spare.pid);
        run.write(b"\n");
        run.wait().assert_code(5);
        check(env, "another");
    }

    /// Nothing can be made ahead: every box is made when it is asked for, and is the same.
    fn a_cold_start(env) {
        env.hooks().fail("keeper.blank.before_clone", Errno::NOMEM);
        env.boxes();
        env.hooks().wait_fired("keeper.blank.before_clone.fail");
        check(env, "cold");
    }

    /// What cannot be made when it is asked for either fails the start, by name.
    fn a_cold_start_that_fails(env) {
        for point in ["keeper.blank.before_clone", "keeper.blank.after_clone"] {
            env.stop_all();
            env.hooks().fail(point, Errno::NOMEM);
            env.boxes();
            env.hooks().wait_fired(&format!("{point}.fail"));
            env.hooks().fail(point, Errno::NOMEM);
            env.run(["true"]).run().assert_code(125);
            let ending = env.newest()["ending"].clone();
            assert_eq!(ending["reason"], "start_failed", "{ending}");
            assert_eq!(ending["detail"]["errno"], Errno::NOMEM.raw_os_error(), "{ending}");
            env.run(["true"]).run().assert_code(0);
        }
    }

    /// Somebody kills what waits: a box is made all the same.
    fn a_killed_blank_box(env) {
        env.boxes();
        let (_, init) = ready(env);
        init.kill();
        check(env, "one");
        let (spare, init) = ready(env);
        spare.kill();
        init.wait_gone(LIMIT);
        check(env, "two");
    }

    /// Nothing of it outlives the daemon, nor one that was killed the next.
    fn nothing_is_left(env) {
        env.boxes();
        let (spare, init) = ready(env);
        env.kill_daemon();
        spare.wait_gone(LIMIT);
        init.wait_gone(LIMIT);
        assert_eq!(places(env).len(), 0);
        env.boxes();
        let (spare, _) = ready(env);
        let left = places(env);
        assert_eq!(left.len(), 1);
        spare.kill();
        env.kill_daemon();
        env.boxes();
        ready(env);
        assert!(!places(env).contains(&left[0]), "a place is left: {left:?}");
    }

    /// A place that vanishes is made anew in the box's own directory.
    fn a_lost_place(env) {
        env.boxes();
        ready(env);
        std::fs::remove_dir_all(env.state_dir().join("blank")).unwrap();
        check(env, "elsewhere");
    }

    /// Many at once: more than are kept ready.
    fn a_rush(env) {
        env.boxes();
        let runs: Vec<_> = (0..12).map(|n| env.run_sh(&format!("exit {n}")).spawn()).collect();
        for (code, run) in (0..).zip(runs) {
            run.wait().assert_code(code);
        }
        check(env, "after");
    }
}
