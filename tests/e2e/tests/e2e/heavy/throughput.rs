//! Gigabytes through a box, and bounded memory.

use std::time::Duration;

use minimal_testkit::{LIMIT, Process, TestEnv, for_each_user, wait_until};

/// More than any of our processes needs, far less than the data.
const MOST_KIB: u64 = 96 << 10;

/// Peaks of every process of ours that lives now.
fn check_memory(env: &TestEnv) {
    let ours = |process: &Process| {
        ["minimald", "min-", "min "].iter().any(|name| process.command.contains(name))
            && !process.command.contains("sha256sum")
    };
    for process in env.processes().into_iter().filter(ours) {
        if let Some(peak) = process.peak_rss_kib() {
            assert!(peak < MOST_KIB, "{peak} KiB in {process:?}");
        }
    }
}

for_each_user! {
    /// Two gigabytes in and out while the daemon is killed five times: equal sums, bounded memory.
    fn two_gigabytes_while_the_daemon_is_killed(env) {
        let script = "head -c 2G /dev/urandom | tee >(sha256sum >in) | min run -- cat | sha256sum >out; \
                      echo \"${PIPESTATUS[2]}\"";
        let running = env.bash(script).limit(Duration::from_secs(240)).spawn();
        for part in 1..=5u64 {
            wait_until("a further part has passed", LIMIT * 4, || {
                let boxes = env.boxes();
                let bytes = boxes.first().and_then(|record| record["log"]["bytes"].as_u64()).unwrap_or(0);
                if bytes > part * 300_000_000 { Ok(()) } else { Err(bytes) }
            });
            check_memory(env);
            env.kill_daemon();
        }
        running.wait().assert_code(0).assert_stdout("0\n");
        let sum = |name: &str| std::fs::read_to_string(env.work().join(name)).unwrap();
        // The substitution may finish after the pipeline.
        let sums = wait_until("both sums are there", LIMIT, || {
            let sums = (sum("in"), sum("out"));
            if sums.0.len() > 64 && sums.1.len() > 64 { Ok(sums) } else { Err(sums) }
        });
        assert_eq!(sums.0, sums.1);
        check_memory(env);
        assert_eq!(env.ending("cat-1")["exit_code"], 0);
    }
}
