//! Readers go at their own pace; only the foreground client of a box holds it back.

use std::time::Duration;

use minimal_testkit::{LIMIT, for_each_user, wait_until};

const GIB: u64 = 1 << 30;

for_each_user! {
    /// A watcher that is stopped does not slow a box that prints a gigabyte, and another reader gets
    /// all that the log limit keeps.
    fn a_stopped_watcher(env) {
        let id = env.detached("trap 'head -c 1G /dev/zero; exit 3' USR1; echo up; sleep 86601 & wait");
        env.wait_for_process("sleep 86601");
        let watcher = env.min(["logs", "-f", &id]).spawn();
        watcher.wait_for_stdout("up\n");
        watcher.process().stop();
        env.min(["kill", "-s", "USR1", &id]).run().assert_code(0);
        env.min(["wait", &id]).limit(LIMIT * 4).run().assert_code(3);
        let log = &env.show(&id)["log"];
        assert_eq!(log["bytes"], GIB + 3);
        let kept = log["bytes"].as_u64().unwrap() - log["dropped_bytes"].as_u64().unwrap();
        assert!(kept > 128 << 20, "{log}");
        let count = env.bash(&format!("min logs {id} | wc -c")).limit(LIMIT * 4).run();
        assert_eq!(count.word(), kept.to_string());
        drop(watcher);
    }

    /// A slow foreground reader gets every byte of more than the log limit: the box waits for it.
    fn a_slow_foreground_reader(env) {
        let script = "min run -- head -c 600M /dev/zero | sha256sum";
        let sum = env.bash("head -c 600M /dev/zero | sha256sum").limit(LIMIT * 4).run().word().to_owned();
        let running = env.bash(script).limit(LIMIT * 4).spawn();
        wait_until("the box has printed something", LIMIT, || {
            let boxes = env.boxes();
            let bytes = boxes.first().and_then(|record| record["log"]["bytes"].as_u64());
            if bytes > Some(0) { Ok(()) } else { Err(bytes) }
        });
        let client = env.wait_for_process("min run");
        // Stopped for as long as it takes the box to fill its log.
        client.stop();
        wait_until("the box waits for its reader", Duration::from_secs(60), || {
            let bytes = env.newest()["log"]["bytes"].as_u64().unwrap_or(0);
            if bytes > 200 << 20 { Ok(()) } else { Err(bytes) }
        });
        client.signal(rustix::process::Signal::CONT);
        let output = running.wait();
        assert_eq!(output.word(), sum);
        assert_eq!(env.newest()["log"]["bytes"], 600u64 << 20);
    }
}
