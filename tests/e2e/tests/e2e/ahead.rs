//! What is made ahead of its box, and what a start does without it.

use minimal_testkit::{LIMIT, Process, TestEnv, cgroups, for_each_user, wait_until};
use rustix::io::Errno;

/// The keepers that wait, each with its blank box's init, the first to be taken first.
fn ready(env: &TestEnv) -> Vec<(Process, Process)> {
    wait_until("blank boxes are ready", LIMIT, || {
        let (spares, mut inits) = (env.find("min-spare"), env.find("min-blank"));
        let init_of = |spare: &Process| inits.iter().position(|init| init.parent == spare.pid);
        let at: Option<Vec<usize>> = spares.iter().map(init_of).collect();
        match at {
            Some(at) if spares.len() >= 2 && at.len() == inits.len() => {
                let inits: Vec<_> = at.into_iter().map(|at| inits[at].clone()).collect();
                Ok(spares.into_iter().zip(inits).collect())
            }
            _ => Err(std::mem::take(&mut inits)),
        }
    })
}

/// Has no keeper make anything ahead, and each that is asked to make a box fail.
fn fail_ahead(env: &TestEnv, point: &str) {
    env.hooks().fails(point, Errno::NOMEM);
    env.boxes();
    wait_until("keepers have nothing", LIMIT, || {
        let tries = env.hooks().hits().iter().filter(|hit| *hit == point).count();
        let (spares, inits) = (env.find("min-spare"), env.find("min-blank"));
        let none = tries >= 2 && spares.len() == 2 && inits.is_empty();
        if none { Ok(()) } else { Err((tries, spares, inits)) }
    });
}

/// Names of the directories that blank boxes have.
fn places(env: &TestEnv) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(env.state_dir().join("blank"));
    entries.into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// Waits until no control group is left that a keeper had made for a box to come.
fn no_groups_of(env: &TestEnv, keeper: &Process) {
    let name = format!(".{}", keeper.pid);
    wait_until("its control groups are removed", LIMIT, || {
        let mut left = cgroups::of(env.state_dir());
        left.retain(|group| group.as_os_str().as_encoded_bytes().ends_with(name.as_bytes()));
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
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
        let before = ready(env);
        let mut run = env.run_sh("echo up; read line; exit 5").stdin_piped().spawn();
        run.wait_for_stdout("up\n");
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        let keeper = env.keeper(&id);
        let (_, init) = before.iter().find(|(spare, _)| spare.pid == keeper.pid).expect("was ready");
        let now = Process::read(init.pid).expect("it is the box's init");
        assert_eq!((now.command.as_str(), now.parent), ("min-init", keeper.pid));
        let after = ready(env);
        assert!(after.iter().all(|(spare, _)| spare.pid != keeper.pid));
        run.write(b"\n");
        run.wait().assert_code(5);
        check(env, "another");
    }

    /// Nothing can be made ahead: every box is made when it is asked for, and is the same.
    fn a_cold_start(env) {
        fail_ahead(env, "keeper.blank.before_clone");
        env.hooks().disarm("keeper.blank.before_clone.fails");
        check(env, "cold");
        check(env, "cold-too");
    }

    /// What cannot be made when it is asked for either fails the start, by name.
    fn a_cold_start_that_fails(env) {
        for point in ["keeper.blank.before_clone", "keeper.blank.after_clone"] {
            env.stop_all();
            fail_ahead(env, point);
            env.run(["true"]).run().assert_code(125);
            let ending = env.newest()["ending"].clone();
            assert_eq!(ending["reason"], "start_failed", "{ending}");
            assert_eq!(ending["detail"]["errno"], Errno::NOMEM.raw_os_error(), "{ending}");
            env.hooks().disarm(&format!("{point}.fails"));
            env.run(["true"]).run().assert_code(0);
        }
    }

    /// Somebody kills what waits: a box is made all the same.
    fn killed_blank_boxes(env) {
        env.boxes();
        for (_, init) in ready(env) {
            init.kill();
        }
        check(env, "without-init");
        check(env, "without-init-too");
        for (spare, init) in ready(env) {
            spare.kill();
            init.wait_gone(LIMIT);
        }
        check(env, "without-keeper");
    }

    /// Somebody stops keepers that wait: a start goes on with another one, and they are gone for good.
    fn stopped_keepers(env) {
        env.boxes();
        let stopped = ready(env);
        for (spare, _) in &stopped {
            spare.stop();
        }
        check(env, "without-keeper");
        for (spare, init) in stopped {
            spare.wait_gone(LIMIT);
            init.wait_gone(LIMIT);
            no_groups_of(env, &spare);
        }
        // One that was just taken.
        let waiting = ready(env);
        let pause = env.hooks().pause("daemon.create.after_launch");
        let run = env.run_sh("exit 5").spawn();
        let held = pause.reached();
        for (spare, _) in &waiting {
            spare.stop();
        }
        held.release();
        run.wait().assert_code(5);
        check(env, "another");
        for (spare, init) in waiting {
            spare.wait_gone(LIMIT);
            init.wait_gone(LIMIT);
        }
    }

    /// Somebody stops the inits of blank boxes: each box gets one of its own.
    fn stopped_inits(env) {
        env.boxes();
        for (_, init) in ready(env) {
            init.stop();
        }
        check(env, "without-init");
        check(env, "without-init-too");
    }

    /// What killed keepers leave is removed when they are seen.
    fn killed_keepers_leave_no_groups(env) {
        env.boxes();
        let killed = ready(env);
        for (spare, _) in &killed {
            spare.kill();
        }
        check(env, "after");
        for (spare, _) in &killed {
            no_groups_of(env, spare);
        }
    }

    /// Nothing of it outlives the daemon, and what was killed not the next daemon's start.
    fn nothing_is_left(env) {
        env.boxes();
        let first = ready(env);
        env.kill_daemon();
        for (spare, init) in first {
            spare.wait_gone(LIMIT);
            init.wait_gone(LIMIT);
        }
        assert_eq!(places(env).len(), 0);
        env.boxes();
        for (spare, _) in ready(env) {
            spare.kill();
        }
        let left = places(env);
        assert!(!left.is_empty());
        env.kill_daemon();
        env.boxes();
        ready(env);
        assert!(left.iter().all(|place| !places(env).contains(place)), "left: {left:?}");
    }

    /// Places that vanish are made anew in the box's own directory.
    fn lost_places(env) {
        env.boxes();
        ready(env);
        std::fs::remove_dir_all(env.state_dir().join("blank")).unwrap();
        check(env, "elsewhere");
    }

    /// Many at once: more than are kept ready. Their births end together, and no more is made ahead for
    /// that than is wanted after a rush.
    fn a_rush(env) {
        env.boxes();
        let runs: Vec<_> = (0..30).map(|n| env.run_sh(&format!("exit {n}")).spawn()).collect();
        for (code, run) in (0..).zip(runs) {
            run.wait().assert_code(code);
        }
        check(env, "after");
        let left = ready(env).len();
        assert!((2..=6).contains(&left), "{left} keepers wait");
    }
}
