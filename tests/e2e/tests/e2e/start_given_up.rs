//! Starts that take too long, or are cut short: what is said about them stays true, and nothing runs
//! twice.

use minimal_testkit::{LIMIT, TestEnv, for_each_user, wait_until};
use rustix::io::Errno;
use serde_json::Value;

/// The limit of a start, which a test makes pass at once.
const START_LIMIT: &str = "daemon.create.start_limit";

const SCRIPT: &str = "echo ran >> /workbench/ran; exit 3";

/// How often the command has run.
fn runs(env: &TestEnv) -> usize {
    std::fs::read_to_string(env.work().join("ran")).map_or(0, |text| text.lines().count())
}

fn shared(env: &TestEnv) {
    let ran = env.file("ran", "");
    std::fs::set_permissions(ran, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
}

fn ended(env: &TestEnv, name: &str) -> Value {
    wait_until(&format!("{name} has ended"), LIMIT, || {
        let record = env.show(name);
        if record["ending"].is_object() { Ok(record) } else { Err(record) }
    })
}

for_each_user! {
    /// A keeper that is held up before it has begun: the start is given up, and it stays so when the
    /// keeper goes on.
    fn before_the_keeper_has_begun(env) {
        shared(env);
        env.boxes();
        let paused = env.hooks().pause("keeper.birth.told");
        env.hooks().fail(START_LIMIT, Errno::IO);
        let output =
            env.min(["run", "--name", "stuck", "--workspace", "bind", "--", "sh", "-c", SCRIPT]).run();
        output.assert_code(125).assert_stderr_has("box stuck did not start");
        let record = env.show("stuck");
        assert_eq!((&record["state"], &record["ending"]["reason"]), (&"failed".into(), &"start_failed".into()));
        let held = paused.reached();
        let keeper = env.keepers().pop().expect("the box has a keeper");
        held.release();
        // It finds the box's ending and leaves.
        keeper.wait_gone(LIMIT);
        assert_eq!(runs(env), 0);
        assert_eq!(env.ending("stuck"), record["ending"], "what was told is final");
    }

    /// A keeper that has begun: nobody can say that nothing was run, and it looks once more before the
    /// command.
    fn after_the_keeper_has_begun(env) {
        shared(env);
        env.boxes();
        let (paused, limit) = (env.hooks().pause("keeper.birth.locked"), env.hooks().pause(START_LIMIT));
        env.hooks().fail(START_LIMIT, Errno::IO);
        let run = env
            .min(["run", "--name", "slow", "--workspace", "bind", "--", "sh", "-c", SCRIPT])
            .spawn();
        let keeper = paused.reached();
        limit.reached().release();
        let output = run.wait();
        output.assert_code(125).assert_stderr_has("slow").assert_stderr_has("may have begun");
        assert!(!output.stderr.contains("nothing was run"), "{output}");
        keeper.release();
        let record = ended(env, "slow");
        assert_eq!(record["ending"]["reason"], "start_failed", "{record}");
        assert_eq!(runs(env), 0);
    }

    /// Daemon and keeper are killed while the command runs and nobody has noted that it does: its
    /// client asks the next daemon for the same box again, and must not get another one.
    fn killed_between_the_command_and_its_record(env) {
        shared(env);
        env.boxes();
        let paused = env.hooks().pause("keeper.started.before_journal");
        let run = env
            .min(["run", "--name", "once", "--workspace", "bind", "--", "sh", "-c", SCRIPT])
            .spawn();
        let held = paused.reached();
        wait_until("the command has run", LIMIT, || match runs(env) {
            0 => Err("not yet"),
            _ => Ok(()),
        });
        let keeper = env.keepers().pop().expect("the box has a keeper");
        env.kill_daemon();
        keeper.kill();
        drop(held);
        let output = run.wait();
        output.assert_code(125).assert_stderr_has("may have run");
        assert_eq!(runs(env), 1);
        assert_eq!(env.boxes().len(), 1);
        assert_eq!(env.ending("once")["detail"]["may_have_run"], true);
    }
}
