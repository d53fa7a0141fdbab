//! Clients of execs: lost, slow, or only looking on.

use minimal_e2e::Execs;
use minimal_testkit::{LIMIT, TestEnv, for_each_user, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Waits until one of the box's execs has ended for this reason.
fn wait_for_reason(env: &TestEnv, id: &str, reason: &str) {
    wait_until(reason, LIMIT, || {
        let all = Execs::of(env, id).all();
        if all.iter().any(|record| record["ending"]["reason"] == reason) {
            Ok(())
        } else {
            Err(all)
        }
    });
}

for_each_user! {
    /// An attached exec ends with its client; a detached one does not.
    fn a_client_that_is_killed(env) {
        let id = env.detached("sleep 86631");
        let execs = Execs::of(env, &id);
        let detached = execs.detached("sleep 86632");
        let mut running = execs.sh("echo up; sleep 86633").stdin_piped().spawn();
        running.wait_for_stdout("up\n");
        running.write(b"some input\n");
        env.wait_for_process("sleep 86633");
        running.process().kill();
        drop(running);
        env.wait_for_no_process("sleep 86633");
        wait_for_reason(env, &id, "client_lost");
        assert_eq!(execs.show(&detached)["state"], "running");
        assert_eq!(env.show(&id)["state"], "running");
    }

    /// Also while its input is stuck: nobody reads it.
    fn a_client_that_is_killed_with_its_input_stuck(env) {
        let id = env.detached("sleep 86634");
        let mut running = Execs::of(env, &id).sh("echo up; sleep 86635").stdin_piped().spawn();
        running.wait_for_stdout("up\n");
        // More than all the pipes and sockets on the way hold is not written by this test; a part is.
        for _ in 0..2_000 {
            running.write(b"x");
        }
        running.process().kill();
        drop(running);
        env.wait_for_no_process("sleep 86635");
        wait_for_reason(env, &id, "client_lost");
    }

    /// One that does not read holds up its exec and nothing else; gone, it holds up nothing.
    fn a_reader_that_stops(env) {
        let id = env.detached("sleep 86636");
        let execs = Execs::of(env, &id);
        let running = execs.sh("echo up; head -c 200000000 /dev/zero; sleep 86637").spawn();
        running.wait_for_stdout("up\n");
        let client = running.process();
        client.stop();
        execs.sh("head -c 20000000 /dev/zero | wc -c").run().assert_code(0).assert_stdout("20000000\n");
        assert_eq!(env.show(&id)["health"], "ok");
        let exec = env.show(&id)["execs"][0].as_str().expect("one lives").to_owned();
        assert_eq!(execs.show(&exec)["state"], "running");
        // Its log is kept for it, and bounded all the same: it waits.
        let watch = env.min(["logs", &id, "--exec", &exec, "--tail", "1"]).run();
        watch.assert_code(0);
        assert!(env.find("sleep 86637").is_empty(), "it has printed everything to nobody");
        client.kill();
        drop(running);
        wait_for_reason(env, &id, "client_lost");
    }

    /// Whoever looks on sees all of it and ends with it; a signal ends only the onlooker.
    fn onlookers(env) {
        let id = env.detached("echo of the box; trap 'exit 19' USR1; sleep 86638 & wait");
        let execs = Execs::of(env, &id);
        env.wait_for_process("sleep 86638");
        let mut running = execs.sh("echo one; read line; echo $line; exit 18").stdin_piped().spawn();
        running.wait_for_stdout("one\n");
        let exec = env.show(&id)["execs"][0].as_str().expect("one lives").to_owned();
        let leaves = env.min(["attach", "--watch", &id, "--exec", &exec]).spawn();
        leaves.wait_for_stdout("one\n");
        leaves.signal(Signal::INT);
        leaves.wait().assert_code(130).assert_stderr_has("runs on");
        // The input is its creator's: what another has to write is not thrown away.
        let writes = env.min(["attach", &id, "--exec", &exec]).stdin("lost?\n").run();
        writes.assert_code(2).assert_stdout("").assert_stderr_has("another client writes the input");
        writes.assert_stderr_has("min attach --watch");
        let onlooker = env.min(["attach", &id, "--exec", &exec]).spawn();
        onlooker.wait_for_stdout("one\n");
        running.write(b"two\n");
        running.wait().assert_code(18).assert_stdout("one\ntwo\n");
        onlooker.wait().assert_code(18).assert_stdout("one\ntwo\n");
        let from = env.min(["attach", "--from", "4", &id, "--exec", &exec]).run();
        from.assert_code(18).assert_stdout("two\n");

        // The same for a box.
        let onlooker = env.min(["attach", "--watch", &id]).spawn();
        onlooker.wait_for_stdout("of the box\n");
        env.min(["kill", "-s", "USR1", &id]).run().assert_code(0);
        onlooker.wait().assert_code(19);
        let file = env.work().join("ending");
        env.min(["attach", &id, "--ending-file"]).arg(&file).run().assert_code(19).assert_stdout("of the box\n");
        assert_eq!(minimal_testkit::command::json_file(&file)["exit_code"], 19);
    }

    /// A box that reads: an attach writes its input where nobody else does.
    fn an_attach_writes_the_input(env) {
        let running = env.run_sh("echo up; read line; echo got $line; exit 17").stdin_piped().spawn();
        running.wait_for_stdout("up\n");
        running.process().kill();
        drop(running);
        wait_until("its writer has left", LIMIT, || {
            let events = env.events("sh-1");
            let left = events.iter().any(|event| event["type"] == "detached");
            if left { Ok(()) } else { Err(events) }
        });
        let attach = env.min(["attach", "sh-1"]).stdin("a line\n").run();
        attach.assert_code(17).assert_stdout("up\ngot a line\n");
    }

    /// Standard output that is closed ends the exec with its client, and says so.
    fn a_closed_output(env) {
        let id = env.detached("sleep 86639");
        let script = format!("min exec {id} -- sh -c 'while echo line; do :; done' | head -n 1; echo ${{PIPESTATUS[0]}}");
        let output = env.bash(&script).run();
        output.assert_code(0).assert_stdout("line\n141\n").assert_stderr_has("ends with its client");
        wait_for_reason(env, &id, "client_lost");
        assert_eq!(env.show(&id)["ending"], Value::Null);
    }
}
