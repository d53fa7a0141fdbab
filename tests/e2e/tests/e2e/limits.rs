//! Limits on memory and processes: a box that runs away takes nothing down but itself.

use minimal_testkit::{LIMIT, TestEnv, cgroups, for_each_user, wait_until};
use serde_json::Value;

/// A program that takes memory until there is none. It ends at a GiB: without a limit the test
/// fails, and the machine lives.
const HOG: &str = "hog=x; while test ${#hog} -lt 1073741824; do hog=$hog$hog; done";

/// A shell that starts processes until it cannot, and prints how many there are each time, itself
/// and the one that began included. It ends at 200.
const FULL: &str = "(n=2; while test $n -lt 200; do sleep 86490 & n=$((n + 1)); echo $n; done)";

/// What the record says of a limit: how much, and by what.
fn limit(record: &Value, what: &str) -> Option<(u64, String)> {
    let limits = record["enforcement"]["limits"].as_array().unwrap();
    let limit = limits.iter().find(|limit| limit["what"] == what)?;
    Some((limit["max"].as_u64().unwrap(), limit["by"].as_str().unwrap().to_owned()))
}

fn missing(record: &Value) -> Vec<&str> {
    let missing = record["enforcement"]["missing"].as_array().unwrap();
    missing.iter().filter_map(|missing| missing["what"].as_str()).collect()
}

/// Whether this scenario can limit memory, by what a box of its own says.
fn limits_memory(env: &TestEnv) -> bool {
    env.run(["true"]).run().assert_code(0);
    let there = limit(&env.newest(), "ram").is_some();
    minimal_testkit::need::met("memory cgroup", there, "no control group limits memory here")
}

/// Waits until the only control groups are those of keepers that wait for a box, whose pids end
/// their names.
fn wait_for_no_groups_of_boxes(env: &TestEnv) {
    wait_until("the boxes' control groups are gone", LIMIT, || {
        let spares: Vec<_> =
            env.find("min-spare").iter().map(|it| format!(".{}", it.pid)).collect();
        let mut left = cgroups::of(env.state_dir());
        left.retain(|group| !spares.iter().any(|pid| group.to_string_lossy().ends_with(pid)));
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

for_each_user! {
    /// Every box has limits, or its record says which it has not and why.
    fn every_box_has_limits(env) {
        env.run(["true"]).run().assert_code(0);
        let record = env.newest();
        let (pids, _) = limit(&record, "pids").unwrap();
        assert!((1..=4096).contains(&pids), "{pids}");
        assert_eq!(limit(&record, "ram").is_none(), missing(&record).contains(&"ram"), "{record}");
        env.min(["show", record["id"].as_str().unwrap()]).run().assert_code(0);
    }

    /// The number of processes that was asked for is the number there can be, in each box by itself.
    fn processes_are_counted_by_box(env) {
        let script = format!("{FULL} 2>/dev/null; exec sleep 86491");
        let first = env.min(["run", "-d", "--pids", "20", "--", "sh", "-c", &script]).run();
        first.assert_code(0);
        wait_until("the first box is full", LIMIT, || {
            let logs = env.logs(first.word());
            let text = String::from_utf8_lossy(&logs);
            if text.ends_with("\n20\n") { Ok(()) } else { Err(text.into_owned()) }
        });
        // A box that is full takes nothing from another.
        let second = env.min(["run", "--pids", "20", "--", "sh", "-c", &format!("{FULL}; true")]).run();
        second.assert_code(0).assert_stderr_has("fork");
        assert!(second.stdout.ends_with(b"\n20\n"), "{second}");
        assert_eq!(limit(&env.newest(), "pids").unwrap().0, 20);
        env.min(["run", "--pids", "1", "--", "true"]).run().assert_code(0);
        env.min(["stop", "--force", first.word()]).run().assert_code(0);
    }

    /// A fork bomb is contained, ends by its time limit, and nothing of it is left.
    fn a_fork_bomb(env) {
        let bomb = "bomb() { bomb | bomb & }; bomb; sleep 86494";
        let run = env.min(["run", "--timeout", "2s", "--pids", "200", "--", "sh", "-c", bomb]).spawn();
        // Meanwhile the host lives: other boxes start and end.
        env.run_sh("exit 6").run().assert_code(6);
        run.wait().assert_code(124);
        assert_eq!(env.find("sleep 86494"), []);
        env.run_sh("exit 7").run().assert_code(7);
    }

    /// Sizes and counts that cannot be meant are refused, each by its reason.
    fn wrong_limits(env) {
        for (option, reason) in [
            ("--ram=64M", "64MiB"),
            ("--ram=1gb", "1GiB"),
            ("--ram=64", "no unit"),
            ("--ram=0MiB", "zero"),
            ("--ram=-1MiB", "negative"),
            ("--ram=much", "not a size"),
            ("--pids=0", "0"),
            ("--pids=-1", "-1"),
        ] {
            let output = env.min(["run", option, "--", "true"]).run();
            output.assert_code(2).assert_stderr_has(reason);
        }
        env.min(["run", "--ram", "1MiB", "--", "true"]).run().assert_code(2).assert_stderr_has("8MiB");
        assert_eq!(env.boxes().len(), 0);
    }

    /// A box out of memory ends for that reason.
    fn out_of_memory(env) {
        if !limits_memory(env) {
            return;
        }
        let output = env.min(["run", "--ram", "64MiB", "--", "sh", "-c", HOG]).run();
        output.assert_code(137).assert_stderr_has("ran out of memory");
        let record = env.newest();
        assert_eq!(record["state"], "exited");
        assert_eq!(record["ending"]["reason"], "oom");
        assert_eq!(record["ending"]["signal"], "SIGKILL");
        assert_eq!(record["ending"]["exit_code"], Value::Null);
        assert_eq!(limit(&record, "ram").unwrap().0, 64 << 20);
        // The least there can be is enough to start.
        env.min(["run", "--ram", "8MiB", "--", "sh", "-c", "exit 8"]).run().assert_code(8);
    }

    /// A part of a box out of memory: its ending is the entrypoint's own, and the box says what was.
    fn a_part_out_of_memory(env) {
        if !limits_memory(env) {
            return;
        }
        let script = format!("({HOG}) 2>/dev/null; echo $?; exit 9");
        let output = env.min(["run", "--ram", "64MiB", "--", "sh", "-c", &script]).run();
        output.assert_code(9).assert_stdout("137\n");
        let record = env.newest();
        assert_eq!(record["ending"]["reason"], "exit");
        assert_eq!(record["ending"]["detail"]["oom_kills"], 1);
        let id = record["id"].as_str().unwrap();
        let told: Vec<_> =
            env.events(id).into_iter().filter(|event| event["type"] == "degraded").collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0]["data"]["cause"].as_str().unwrap().contains("memory"), "{told:?}");
    }

    /// A count that cannot be read is not taken for none: the box says that it is not known.
    fn an_unknown_count(env) {
        env.hooks().fail("keeper.end.count_kills", rustix::io::Errno::IO);
        env.run_sh("exit 9").run().assert_code(9);
        let record = env.newest();
        assert!(record["ending"]["detail"]["oom_kills_unknown"].is_string(), "{record}");
        assert_eq!(record["health"], "degraded");
        env.run_sh("exit 9").run().assert_code(9);
        assert_eq!(env.newest()["health"], "ok");
    }

    /// A KILL that we sent, or somebody in the box, is none of the kernel's.
    fn other_kills(env) {
        let output = env.min(["run", "--ram", "64MiB", "--", "sh", "-c", "kill -9 $$"]).run();
        output.assert_code(137);
        assert_eq!(env.newest()["ending"]["reason"], "signal");
    }

    /// Control groups go with their boxes, however these end; only those of keepers that wait for the
    /// next box are there.
    fn nothing_is_left_on_the_host(env) {
        if !limits_memory(env) {
            return;
        }
        for _ in 0..3 {
            env.run_sh("exit 3").run().assert_code(3);
        }
        env.min(["run", "--", "/nonexistent"]).run().assert_code(127);
        wait_for_no_groups_of_boxes(env);
        // By a keeper that is killed while there is no daemon, long enough after the start that it
        // has left them, and one that still is in them.
        let old = env.detached("sleep 86492");
        let young = env.detached("sleep 86493");
        env.wait_for_process("sleep 86493");
        let keepers = [env.keeper(&old), env.keeper(&young)];
        env.kill_daemon();
        for keeper in keepers {
            keeper.kill();
        }
        env.min(["wait", &old]).run().assert_code(125);
        env.min(["wait", &young]).run().assert_code(125);
        wait_for_no_groups_of_boxes(env);
        // And of keepers that waited for a box when they were killed.
        let spare = env.wait_for_process("min-spare");
        wait_until("it is in its groups", LIMIT, || {
            let groups = cgroups::of(env.state_dir());
            let of_it = |group: &std::path::PathBuf| group.to_string_lossy().ends_with(&format!(".{}", spare.pid));
            if groups.iter().any(of_it) { Ok(()) } else { Err(groups) }
        });
        spare.kill();
        env.stop_all();
        wait_until("no group is left", LIMIT, || {
            let left = cgroups::of(env.state_dir());
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}
