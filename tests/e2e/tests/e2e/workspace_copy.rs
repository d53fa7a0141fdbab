//! A copy takes time, and may not come to its end.

use std::fs;

use minimal_testkit::{LIMIT, TestEnv, Tmpfs, for_each_user, need, wait_until};
use rustix::process::Signal;

/// What is below `fs/` of every box directory.
fn files_of_boxes(env: &TestEnv) -> Vec<String> {
    let boxes = fs::read_dir(env.state_dir().join("boxes")).into_iter().flatten().flatten();
    let files = boxes
        .flat_map(|entry| fs::read_dir(entry.path().join("fs")).into_iter().flatten().flatten());
    files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

for_each_user! {
    /// While it is copied the box is listed as one that is being made, its keeper answers, and other
    /// boxes start.
    fn the_rest_goes_on(env) {
        env.file("file", "content\n");
        let held = env.hooks().pause("keeper.copy.copying");
        let running = env.min(["run", "--name", "slow", "--workspace", "copy", "--", "sh", "-c", "cat file; exit 5"]).spawn();
        let held = held.reached();
        let record = env.show("slow");
        assert_eq!((&record["state"], &record["health"]), (&"created".into(), &"ok".into()), "{record}");
        env.min(["kill", "-s", "USR1", "slow"]).run().assert_code(2).assert_stderr_has("has not started yet");
        env.run(["true"]).run().assert_code(0);
        held.release();
        running.wait().assert_code(5).assert_stdout("content\n");
    }

    /// Ctrl-C: the start is given up, and of the box nothing is left.
    fn interrupted(env) {
        env.file("file", "content\n");
        let held = env.hooks().pause("keeper.copy.copying");
        let running = env.min(["run", "--workspace", "copy", "--", "echo", "ran"]).spawn();
        let held = held.reached();
        running.signal(Signal::INT);
        let output = running.wait();
        assert!(output.signal() == Some(2) || output.code() == Some(130), "{output}");
        output.assert_stdout("").assert_stderr_has("nothing was run: interrupted");
        assert_eq!(env.boxes().len(), 0);
        wait_until("its files are gone", LIMIT, || {
            let left = files_of_boxes(env);
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        held.release();
        env.wait_for_no_process("min-copy");
        // The signal means the command once that runs.
        let running = env.min(["run", "--workspace", "copy", "--", "sh", "-c", "trap 'exit 9' INT; echo up; sleep 86581 & wait"]).spawn();
        running.wait_for_stdout("up\n");
        running.signal(Signal::INT);
        running.wait().assert_code(9);
    }

    /// Ctrl-C while the box is made, without a copy: the start is given up where the wish comes in time,
    /// else the command is interrupted. Neither is a start that failed.
    fn interrupted_before_the_command(env) {
        env.run(["true"]).run().assert_code(0);
        let held = env.hooks().pause("keeper.birth.locked");
        let running = env.min(["run", "--name", "early", "--", "sleep", "86582"]).spawn();
        let held = held.reached();
        running.signal(Signal::INT);
        held.release();
        let output = running.wait();
        assert!(output.signal() == Some(2) || output.code() == Some(130), "{output}");
        let records = env.boxes();
        let early = records.iter().find(|record| record["name"] == "early");
        assert!(early.is_none_or(|record| record["ending"]["signal"] == "SIGINT"), "{early:?}");
    }

    /// A stop while it is copied: nothing runs, the record says so, and the half copy is gone.
    fn stopped(env) {
        env.file("file", "content\n");
        let held = env.hooks().pause("keeper.copy.copying");
        let running = env.min(["run", "--name", "slow", "--workspace", "copy", "--", "echo", "ran"]).spawn();
        let held = held.reached();
        env.min(["stop", "slow"]).run().assert_code(0);
        running.wait().assert_code(125).assert_stdout("").assert_stderr_has("stopped while the project was being copied");
        let record = env.show("slow");
        assert_eq!((&record["state"], &record["ending"]["reason"]), (&"failed".into(), &"start_failed".into()));
        assert!(!files_of_boxes(env).iter().any(|name| name.starts_with("cop")), "{:?}", files_of_boxes(env));
        held.release();
    }

    /// The process that copies dies with its keeper, and its keeper notices if it dies alone.
    fn killed(env) {
        env.file("file", "content\n");
        env.hooks().kill("keeper.copy.copying");
        let output = env.min(["run", "--workspace", "copy", "--", "echo", "ran"]).run();
        output.assert_code(125).assert_stdout("").assert_stderr_has("the process that copies was killed");
        let held = env.hooks().pause("keeper.copy.copying");
        let running = env.min(["run", "--name", "lost", "--workspace", "copy", "--", "echo", "ran"]).spawn();
        let held = held.reached();
        let id = env.show("lost")["id"].as_str().unwrap().to_owned();
        env.keeper(&id).kill();
        running.wait().assert_stdout("");
        env.wait_for_no_process("min-copy");
        held.release();
        env.run(["true"]).run().assert_code(0);
    }

    /// A full disk: what does not fit is named, nothing runs, and the space is given back.
    fn a_full_disk(env) {
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.root().join("disk"), 16 << 20, env.account());
        env.set_state_dir(disk.path().join("s"));
        env.file("a", vec![b'a'; 1 << 20]);
        env.file("b", vec![b'b'; 32 << 20]);
        for _ in 0..3 {
            let output = env.min(["run", "--workspace", "copy", "--", "echo", "ran"]).run();
            output.assert_code(125).assert_stdout("").assert_stderr_has("No space left").assert_stderr_has("bytes");
            let ending = &env.newest()["ending"];
            assert_eq!(ending["detail"]["errno"], rustix::io::Errno::NOSPC.raw_os_error(), "{ending}");
        }
        // An overlay takes no space.
        env.run(["true"]).run().assert_code(0);
        env.stop_all();
        drop(disk);
    }
}
