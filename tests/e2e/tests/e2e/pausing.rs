//! Boxes that stand still.

use std::path::Path;

use minimal_e2e::Execs;
use minimal_testkit::{TestEnv, for_each_user};
use serde_json::Value;

/// Whether the kernel says that a box stands still. `None`: boxes of this user cannot.
fn is_frozen(env: &TestEnv, id: &str) -> Option<bool> {
    let record = env.show(id);
    let group = Path::new(record["enforcement"]["freezer"].as_str()?);
    let state = std::fs::read_to_string(group.join("freezer.state"));
    let events = std::fs::read_to_string(group.join("cgroup.events"));
    Some(match (state, events) {
        (Ok(state), _) => state.trim() == "FROZEN",
        (Err(_), Ok(events)) => events.contains("frozen 1"),
        (Err(error), Err(_)) => panic!("{}: {error}", group.display()),
    })
}

/// A box that was paused; `None`, and the refusal looked at, where boxes of this user cannot be.
fn paused(env: &TestEnv, options: &[&str], script: &str) -> Option<String> {
    let command = ["--", "sh", "-c", script];
    let start = ["box", "start"].iter().chain(options).chain(&command);
    let id = env.min(start).run().word().to_owned();
    env.wait_for_process("sleep 8675");
    let frozen = is_frozen(env, &id);
    let pause = env.min(["pause", &id]).run();
    if frozen.is_none() {
        pause.assert_code(8).assert_stderr_has("min doctor");
        assert_eq!(env.show(&id)["paused"], false);
        env.min(["stop", "--force", &id]).run().assert_code(0);
        return None;
    }
    pause.assert_code(0);
    assert_eq!((frozen, is_frozen(env, &id)), (Some(false), Some(true)));
    Some(id)
}

fn types(env: &TestEnv, id: &str) -> Vec<Value> {
    env.events(id).into_iter().map(|event| event["type"].clone()).collect()
}

for_each_user! {
    /// It stands still, refuses execs, is so for a later daemon too, and goes on.
    fn and_going_on(env) {
        let Some(id) = paused(env, &[], "sleep 86751 & wait") else { return };
        env.min(["pause", &id]).run().assert_code(0);
        let record = env.show(&id);
        assert_eq!((&record["state"], &record["paused"]), (&"running".into(), &true.into()));
        let refused = Execs::of(env, &id).sh("true").run();
        refused.assert_code(2).assert_stderr_has("it is paused");
        env.kill_daemon();
        assert_eq!(env.show(&id)["paused"], true);
        env.min(["unpause", &id]).run().assert_code(0);
        assert_eq!((is_frozen(env, &id), &env.show(&id)["paused"]), (Some(false), &false.into()));
        Execs::of(env, &id).sh("exit 5").run().assert_code(5);
        // One that execs have entered has a door, which stands still as well. So does whoever is in
        // it: what is asked of one is refused at once.
        let execs = Execs::of(env, &id);
        let exec = execs.detached("exec sleep 86758");
        env.min(["box", "pause", &id]).run().assert_code(0);
        for verb in [&["stop"] as &[_], &["stop", "--force"], &["kill", "-s", "KILL"]] {
            let refused = env.min(verb).arg(&id).arg("--exec").arg(&exec).run();
            refused.assert_code(2).assert_stderr_has("is paused");
        }
        env.min(["box", "unpause", &id]).run().assert_code(0);
        execs.verb("stop", &exec).assert_code(0);
        assert_eq!(execs.show(&exec)["ending"]["signal"], "SIGTERM");
        execs.sh("exit 6").run().assert_code(6);
        env.min(["stop", &id]).run().assert_code(0);
        env.min(["pause", &id]).run().assert_code(2).assert_stderr_has("has ended");
        let told: Vec<_> = types(env, &id).into_iter().filter(|it| it.as_str().unwrap().ends_with("paused")).collect();
        assert_eq!(told, ["paused", "unpaused", "paused", "unpaused"]);
    }

    /// A stop has it go on first, so that whoever heeds TERM does.
    fn and_a_stop(env) {
        let Some(id) = paused(env, &[], "trap 'exit 4' TERM; sleep 86752 & wait") else { return };
        env.min(["stop", &id]).run().assert_code(0);
        let ending = env.ending(&id);
        assert_eq!((&ending["reason"], &ending["exit_code"]), (&"stopped".into(), &4.into()));
        assert_eq!(env.show(&id)["paused"], false);
    }

    /// So has whatever else ends it.
    fn and_other_ends(env) {
        let Some(id) = paused(env, &[], "exec sleep 86753") else { return };
        env.min(["stop", "--force", &id]).run().assert_code(0);
        assert_eq!(env.ending(&id)["signal"], "SIGKILL");
        let Some(id) = paused(env, &["--timeout", "1s"], "exec sleep 86754") else { return };
        env.min(["wait", &id]).run().assert_code(124);
        let Some(id) = paused(env, &[], "exec sleep 86755") else { return };
        env.min(["kill", "-s", "KILL", &id]).run().assert_code(0);
        minimal_testkit::wait_until("it has returned", minimal_testkit::LIMIT, || {
            let entrypoint = env.show(&id)["entrypoint"].clone();
            if entrypoint["returned"]["signal"] == "SIGKILL" { Ok(()) } else { Err(entrypoint) }
        });
        env.min(["rm", "--force", &id]).run().assert_code(0);
    }

    /// A keeper that is killed leaves nothing that stands still, whether a daemon is there or comes.
    fn and_a_lost_keeper(env) {
        for script in ["exec sleep 86756", "exec sleep 86757"] {
            let Some(id) = paused(env, &[], script) else { return };
            let keeper = env.keeper(&id);
            if script.ends_with('7') {
                env.kill_daemon();
            }
            keeper.kill();
            env.min(["wait", &id]).run().assert_code(125);
            assert_eq!(env.ending(&id)["reason"], "lost");
            env.wait_for_no_process("sleep 8675");
        }
    }
}
