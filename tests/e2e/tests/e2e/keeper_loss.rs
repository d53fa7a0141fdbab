//! Keepers that die, and keepers that do not answer.

use minimal_testkit::{LIMIT, for_each_user, wait_until};
use rustix::process::Signal;
use serde_json::Value;

for_each_user! {
    /// A keeper killed while no daemon runs: the next one finds the box without life and says so.
    fn a_keeper_lost_without_a_daemon(env) {
        let id = env.detached("echo before; sleep 86431");
        env.wait_for_process("sleep 86431");
        let keeper = env.keeper(&id);
        env.kill_daemon();
        keeper.kill();
        env.wait_for_no_process("sleep 86431");
        env.min(["wait", &id]).run().assert_code(125);
        let record = env.show(&id);
        assert_eq!(record["state"], "stopped");
        assert_eq!(record["ending"]["reason"], "lost");
        assert_eq!(record["ending"]["exit_code"], Value::Null);
        assert_eq!(record["ending"]["detail"]["keeper"], "gone");
        assert_eq!(record["ending"]["detail"]["boot_changed"], false);
        assert_eq!(env.logs(&id), b"before\n");
        let types: Vec<Value> = env.events(&id).into_iter().map(|event| event["type"].clone()).collect();
        assert_eq!(types, ["created", "started", "exited"]);
    }

    /// A keeper killed between writing the ending and syncing it: the daemon finds it, and syncs it
    /// itself before it tells anyone.
    fn killed_before_the_sync(env) {
        env.boxes();
        env.hooks().kill("store.journal.sync");
        env.run_sh("exit 42").run().assert_code(42);
        env.hooks().wait_fired("store.journal.sync.kill");
        let synced = |hits: Vec<String>| hits.iter().filter(|hit| *hit == "store.journal.sync").count();
        assert_eq!(synced(env.hooks().hits()), 2, "the killed one's, and the daemon's");
        assert_eq!(env.ending("sh-1")["exit_code"], 42);
        // One that finds it at its start does the same, for it may have just been written.
        env.kill_daemon();
        assert_eq!(env.ending("sh-1")["exit_code"], 42);
        assert_eq!(synced(env.hooks().hits()), 3);
    }

    /// Waiters of a box whose keeper dies hear that the ending is unknown, each of them.
    fn every_waiter_hears_of_it(env) {
        let id = env.detached("sleep 86432");
        env.wait_for_process("sleep 86432");
        let waits: Vec<_> = (0..3).map(|_| env.min(["wait", &id]).spawn()).collect();
        let follow = env.min(["logs", "-f", &id]).spawn();
        let file = env.work().join("ending");
        let with_file = env.min(["wait", "--ending-file"]).arg(&file).arg(&id).spawn();
        env.keeper(&id).kill();
        for wait in waits {
            wait.wait().assert_code(125).assert_stderr_has("lost");
        }
        with_file.wait().assert_code(125);
        let ending = minimal_testkit::command::json_file(&file);
        assert_eq!(ending["reason"], "lost");
        follow.wait();
        env.wait_for_no_process("sleep 86432");
    }

    /// A stopped keeper: the daemon still answers, also about that box, and says what is wrong.
    fn a_keeper_that_does_not_answer(env) {
        let id = env.detached("echo before; sleep 86433");
        let other = env.detached("echo other; sleep 86434");
        env.wait_for_process("sleep 86433");
        env.wait_for_process("sleep 86434");
        let keeper = env.keeper(&id);
        keeper.stop();
        wait_until("it is called unresponsive", LIMIT, || {
            let record = env.show(&id);
            if record["health"] == "unresponsive" { Ok(()) } else { Err(record["health"].clone()) }
        });
        let record = env.show(&id);
        assert_eq!(record["state"], "running");
        assert_eq!(record["ending"], Value::Null);
        assert_eq!(env.logs(&id), b"before\n");
        assert_eq!(env.boxes().len(), 2);
        assert_eq!(env.show(&other)["health"], "ok");
        env.min(["stop", "--force", &other]).run().assert_code(0);
        keeper.signal(Signal::CONT);
        wait_until("it is well again", LIMIT, || {
            let record = env.show(&id);
            if record["health"] == "ok" { Ok(()) } else { Err(record["health"].clone()) }
        });
        env.min(["stop", "--force", &id]).run().assert_code(0);
        assert_eq!(env.ending(&id)["reason"], "stopped");
    }

    /// A nursery that is killed costs no box, and the next box gets another.
    fn a_nursery_that_dies(env) {
        let id = env.detached("sleep 86435");
        env.wait_for_process("sleep 86435");
        let nursery = env.wait_for_process("min-nursery");
        nursery.kill();
        assert_eq!(env.show(&id)["state"], "running");
        env.run_sh("exit 4").run().assert_code(4);
        assert_eq!(env.show(&id)["state"], "running");
        env.min(["stop", "--force", &id]).run().assert_code(0);
    }
}
