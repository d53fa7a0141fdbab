//! A full disk: costs output, never an ending.

use minimal_testkit::{LIMIT, Tmpfs, for_each_user, need, wait_until};

/// Enough for a daemon, some boxes and a little output.
const SIZE: u64 = 24 << 20;

for_each_user! {
    /// During a run: the ending is kept, the log says what it dropped, the daemon lives, and there is
    /// output again once there is space.
    fn during_a_run(env) {
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.root().join("d"), SIZE, env.account());
        env.set_state_dir(disk.path().join("s"));
        // After a failed write the disk is not tried again at once, so the box goes on printing.
        let script = "echo before; read _; seq 1 200000; echo full; read _; \
                      trap 'exit 42' USR1; while :; do echo after; sleep 0.05; done";
        let id = env
            .min(["run", "-d", "--", "sh", "-c", "trap 'exit 41' USR1; echo up; sleep 86581 & wait"])
            .run()
            .word()
            .to_owned();
        let mut running = env.run_sh(script).stdin_piped().spawn();
        running.wait_for_stdout("before\n");
        let ballast = disk.fill();
        running.write(b"go\n");
        // The box is not held up by the full disk: it comes to its second question.
        wait_until("output was dropped", LIMIT, || {
            let record = env.show("sh-2");
            if record["log"]["dropped_bytes"].as_u64() > Some(0) { Ok(()) } else { Err(record["log"].clone()) }
        });
        // A second box ends while there is no space at all.
        env.min(["kill", "-s", "USR1", &id]).run().assert_code(0);
        env.min(["wait", &id]).run().assert_code(41);
        drop(ballast);
        running.write(b"go\n");
        running.wait_for_stdout("after\n");
        env.min(["kill", "-s", "USR1", "sh-2"]).run().assert_code(0);
        let output = running.wait();
        output.assert_code(42);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with("before\n"), "{output}");
        assert!(text.ends_with("after\n"), "{output}");
        let log = &env.show("sh-2")["log"];
        let kept = log["bytes"].as_u64().unwrap() - log["dropped_bytes"].as_u64().unwrap();
        assert_eq!(kept, output.stdout.len() as u64, "{log}");
        env.stop_all();
    }

    /// The ending cannot be written for a while: the keeper holds it and tries again.
    fn an_ending_that_cannot_be_written(env) {
        let mut running = env.run_sh("read _; exit 17").stdin_piped().spawn();
        env.wait_for_process("min-keeper");
        wait_until("it runs", LIMIT, || {
            let record = env.newest();
            if record["state"] == "running" { Ok(()) } else { Err(record) }
        });
        env.hooks().fail("keeper.end.before_journal", rustix::io::Errno::NOSPC);
        running.write(b"go\n");
        running.wait().assert_code(17);
        env.hooks().wait_fired("keeper.end.before_journal.fail");
        assert_eq!(env.ending("sh-1")["exit_code"], 17);
    }

    /// No space to create a box: said so, with nothing left half-made.
    fn at_creation(env) {
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.root().join("d"), SIZE, env.account());
        env.set_state_dir(disk.path().join("s"));
        env.run(["true"]).run().assert_code(0);
        let ballast = disk.fill();
        let output = env.min(["run", "-o", "json", "--", "true"]).run();
        output.assert_code(8);
        assert_eq!(output.error()["code"], "no_space", "{output}");
        assert_eq!(env.boxes().len(), 1);
        let left = std::fs::read_dir(env.state_dir().join("boxes")).unwrap().count();
        assert_eq!(left, 1, "nothing half-made");
        drop(ballast);
        env.run_sh("exit 5").run().assert_code(5);
        env.stop_all();
    }
}
