//! `rm` and `--rm`: a box is deleted whole, also when something dies over it.

use std::fs;

use minimal_testkit::{LIMIT, TestEnv, for_each_kind_of_user, for_each_user, wait_until};

fn names(env: &TestEnv, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(env.state_dir().join(directory)).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn wait_until_nothing_is_left(env: &TestEnv) {
    wait_until("its files are gone", LIMIT, || {
        let left = (names(env, "boxes"), names(env, "reaping"));
        if left.0.is_empty() && left.1.is_empty() { Ok(()) } else { Err(left) }
    });
}

for_each_kind_of_user! {
    /// What several users of a box have left, closed to everybody else, and the layers of its system; at
    /// once, and by the next daemon after one that died over it.
    fn of_several_users(env) {
        env.run(["true"]).run().assert_code(0);
        let single = env.newest()["enforcement"]["users"] == "single";
        env.min(["rm", "true-1"]).run().assert_code(0);
        let user = if single { "box" } else { "root" };
        let script = "for place in /tmp/mine /workbench/mine ~/mine; do mkdir -p $place/a/b && cd $place/a/b && touch file && \
                      mkfifo fifo && ln -s /etc link && mkdir closed && chmod 0 closed; \
                      if [ $(id -u) = 0 ]; then chown -R 33:33 $place; chmod -R 0700 $place; touch /usr/bin/new; rm /usr/bin/yes; fi; \
                      cd /; chmod 0 $place/a $place; done; exit 7";
        for died in [false, true] {
            let run = ["run", "-u", user, "--name", "one", "--workspace", "overlay", "--", "sh", "-c", script];
            env.min(run).run().assert_code(7);
            if died {
                env.hooks().kill("store.reap.during_remove");
            }
            env.min(["rm", "one"]).run().assert_code(0);
            if died {
                env.hooks().wait_fired("store.reap.during_remove.kill");
                env.boxes();
            }
            wait_until_nothing_is_left(env);
        }
    }
}

for_each_user! {
    /// Record, log and files are gone; a second time there is nothing to remove.
    fn removed(env) {
        env.run_sh("echo x; exit 1").run().assert_code(1);
        env.min(["rm", "sh-1"]).run().assert_code(0);
        env.min(["show", "sh-1"]).run().assert_code(4);
        env.min(["rm", "sh-1"]).run().assert_code(4);
        assert_eq!(env.boxes().len(), 0);
        assert_eq!(names(env, "boxes"), Vec::<String>::new());
        wait_until("its files are gone", LIMIT, || {
            let left = names(env, "reaping");
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// A running box takes force, and is then stopped first.
    fn a_running_box(env) {
        let id = env.detached("trap '' TERM; while :; do sleep 86541; done");
        env.wait_for_process("sleep 86541");
        env.min(["rm", &id]).run().assert_code(2).assert_stderr_has("--force");
        assert_eq!(env.show(&id)["state"], "running");
        env.min(["rm", "--force", &id]).run().assert_code(0);
        env.min(["show", &id]).run().assert_code(4);
        assert_eq!(env.find("sleep 86541"), []);
    }

    /// Several at once; a missing one is told and spares none.
    fn several(env) {
        for _ in 0..3 {
            env.run(["true"]).run().assert_code(0);
        }
        env.min(["rm", "true-1", "nosuch", "true-2", "true-3"]).run().assert_code(4).assert_stderr_has("nosuch");
        assert_eq!(env.boxes().len(), 0);
    }

    /// `--rm` removes the box with its end: attached, detached, failed, and with the client killed
    /// its ending is still there to be asked for.
    fn with_its_end(env) {
        env.min(["run", "--rm", "--", "sh", "-c", "echo x; exit 4"]).run().assert_code(4).assert_stdout("x\n");
        env.min(["run", "--rm", "--", "nosuch"]).run().assert_code(127);
        wait_until("both are gone", LIMIT, || {
            let boxes = env.boxes();
            if boxes.is_empty() { Ok(()) } else { Err(boxes) }
        });
        let running = env.min(["run", "--rm", "--", "sh", "-c", "echo up; trap 'exit 5' USR1; sleep 86542 & wait"]).spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86542");
        running.process().kill();
        env.min(["kill", "-s", "USR1", "sh-1"]).run().assert_code(0);
        env.min(["wait", "sh-1"]).run().assert_code(5);
    }

    /// The daemon dies at every step of a deletion: the next one finishes it, or it never began.
    fn killed_at_every_step(env) {
        for step in ["daemon.reap.before", "store.reap.before_rename", "store.reap.after_rename", "store.reap.during_remove"] {
            env.run_sh("exit 1").run().assert_code(1);
            env.hooks().kill(step);
            env.min(["rm", "sh-1"]).run().assert_code(0);
            env.hooks().wait_fired(&format!("{step}.kill"));
            env.min(["show", "sh-1"]).run().assert_code(4);
            wait_until(&format!("{step}: nothing is left"), LIMIT, || {
                let left = (names(env, "boxes"), names(env, "reaping"));
                if left.0.is_empty() && left.1.is_empty() { Ok(()) } else { Err(left) }
            });
        }
    }

    /// A failing disk during a deletion: told, and the record stays or goes whole.
    fn a_failing_step(env) {
        env.run_sh("exit 1").run().assert_code(1);
        env.hooks().fail("store.reap.before_rename", rustix::io::Errno::IO);
        env.min(["rm", "sh-1"]).run().assert_code(1);
        assert_eq!(env.show("sh-1")["ending"]["exit_code"], 1);
        env.min(["rm", "sh-1"]).run().assert_code(0);
        env.min(["show", "sh-1"]).run().assert_code(4);
    }

    /// Files that a box made hard to delete.
    fn stubborn_files(env) {
        let script = "mkdir -p /tmp/a/b && touch /tmp/a/b/c && chmod 0 /tmp/a/b /tmp/a; \
                      d=/tmp/deep; mkdir $d; cd $d; for i in $(seq 200); do mkdir dddddddddddddddddddd && cd dddddddddddddddddddd; done; exit 0";
        env.run_sh(script).run().assert_code(0);
        env.min(["rm", "sh-1"]).run().assert_code(0);
        wait_until_nothing_is_left(env);
    }
}
