//! Execs that cannot be, each with its reason.

use minimal_e2e::Execs;
use minimal_testkit::for_each_user;
use rustix::process::Signal;

for_each_user! {
    /// What cannot be started is on record with its reason, and the status of a shell.
    fn what_cannot_be_started(env) {
        let id = env.detached("sleep 86641");
        let execs = Execs::of(env, &id);
        for (words, code, why) in [
            (vec![&*id, "nosuchprogram"], 127, "no such program"),
            (vec![&*id, "/etc/passwd"], 126, "not execute"),
            (vec!["-u", "nobodyatall", &*id, "true"], 125, "no such user"),
            (vec!["-w", "/nowhere", &*id, "true"], 125, "/nowhere"),
        ] {
            let output = env.min(["exec"].into_iter().chain(words.iter().copied())).run();
            output.assert_code(code).assert_stderr_has(why).assert_stdout("");
            let record = execs.all()[0].clone();
            assert_eq!(record["state"], "failed", "{words:?}: {record}");
            assert_eq!(record["ending"]["reason"], "start_failed");
            let exec = record["id"].as_str().expect("an id").to_owned();
            execs.verb("wait", &exec).assert_code(code);
            execs.verb("attach", &exec).assert_code(code);
        }
        // A directory that was there and is not any more.
        execs.sh("mkdir /tmp/place").run().assert_code(0);
        let there = ["exec", "-w", "/tmp/place", &id, "--", "pwd"];
        env.min(there).run().assert_code(0).assert_stdout("/tmp/place\n");
        execs.sh("rmdir /tmp/place").run().assert_code(0);
        env.min(there).run().assert_code(125).assert_stderr_has("/tmp/place");
        assert_eq!(env.show(&id)["health"], "ok");
    }

    /// What is asked for wrongly is refused, and nothing is run.
    fn what_is_refused(env) {
        let id = env.detached("sleep 86642");
        let other = env.detached("sleep 86643");
        let execs = Execs::of(env, &id);
        let exec = execs.detached("exit 3");
        execs.verb("wait", &exec).assert_code(3);
        for verb in ["show", "logs", "wait", "stop", "kill", "attach"] {
            Execs::of(env, &other).verb(verb, &exec).assert_code(4).assert_stderr_has("no exec");
            execs.verb(verb, "12345").assert_code(4);
            execs.verb(verb, "../../etc").assert_code(4);
        }
        env.min(["wait", &id, &other, "--exec", &exec]).run().assert_code(2);
        env.min(["exec", &id]).run().assert_code(2).assert_stderr_has("nothing was run");
        env.min(["exec", &id, "--nosuch", "ls"]).run().assert_code(2).assert_stderr_has("--nosuch");
        env.min(["exec", "nosuchbox", "ls"]).run().assert_code(4).assert_stderr_has("nothing was run");
        env.min(["exec", "-u", "", &id, "true"]).run().assert_code(2);
        assert_eq!(execs.all().len(), 1);
        env.min(["stop", "--force", &other]).run().assert_code(0);
        Execs::of(env, &other).sh("true").run().assert_code(2).assert_stderr_has("stopped");
    }

    /// A keeper that does not answer: that is said, and nothing is run when it wakes.
    fn a_keeper_that_does_not_answer(env) {
        let id = env.detached("sleep 86644");
        let execs = Execs::of(env, &id);
        execs.sh("true").run().assert_code(0);
        let keeper = env.keeper(&id);
        keeper.stop();
        let output = execs.sh("echo never; sleep 86645").run();
        output.assert_code(125).assert_stdout("").assert_stderr_has("does not answer");
        keeper.signal(Signal::CONT);
        // It has come to the request when it has answered a later one.
        execs.sh("true").run().assert_code(0);
        assert_eq!(execs.all().len(), 2);
        assert!(env.find("sleep 86645").is_empty());
    }
}
