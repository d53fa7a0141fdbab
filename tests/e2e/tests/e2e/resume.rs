//! Further lives of boxes that have ended.

use minimal_testkit::{LIMIT, TestEnv, for_each_user, wait_until};
use serde_json::Value;

/// The types of a box's events.
fn story(env: &TestEnv, address: &str) -> Vec<String> {
    let events = env.events(address);
    events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

/// What of a record a further life may not change, if it does not come to be.
fn standing(env: &TestEnv, address: &str) -> Value {
    let mut record = env.show(address);
    record["disk_bytes"] = Value::Null;
    record
}

for_each_user! {
    /// Files, name and id are kept, output and endings told apart, and the log goes on.
    fn a_box_goes_on_where_it_was(env) {
        env.file("given", "from the host\n");
        let script = "n=$(cat ~/n 2>/dev/null || echo 1); echo $((n + 1)) > ~/n; echo life $n;
            echo $n >> given; cat given; read line && echo got $line; exit $n";
        let life = |words: &[&str]| env.min(words).stdin(b"input\n".as_slice());
        life(&["run", "-q", "--name", "again", "--", "sh", "-c", script])
            .run()
            .assert_code(1)
            .assert_stdout("life 1\nfrom the host\n1\ngot input\n");
        let first = env.show("again");
        env.kill_daemon();
        let second = life(&["box", "resume", "again"]).run();
        second.assert_code(2).assert_stdout("life 2\nfrom the host\n1\n2\ngot input\n");
        let record = env.show("again");
        assert_eq!((&record["id"], &record["lives"]), (&first["id"], &2.into()));
        assert_eq!((&record["created_at"], &record["ending"]["exit_code"]), (&first["created_at"], &2.into()));
        assert_eq!(record["log_begin"], first["log"]["bytes"]);
        assert_eq!(env.min(["box", "resume", "-d", "again"]).run().word(), first["id"].as_str().unwrap());
        env.min(["wait", "again"]).run().assert_code(3);
        let logs = env.logs("again");
        let whole = "life 1\nfrom the host\n1\ngot input\nlife 2\nfrom the host\n1\n2\ngot input\n\
                     life 3\nfrom the host\n1\n2\n3\n";
        assert_eq!(String::from_utf8_lossy(&logs), whole);
        let ends = ["started", "exited"].map(str::to_owned);
        let expected: Vec<_> =
            ["created", "resumed", "resumed"].iter().flat_map(|first| [&[(*first).to_owned()], &ends[..]].concat()).collect();
        assert_eq!(story(env, "again"), expected);
        let events = env.events("again");
        assert_eq!(events[3]["data"]["life"], 2);
        assert_eq!(events[3]["data"]["former"]["exit_code"], 1);
        assert!(env.min(["events", "again"]).run().text().contains("life 3, after exit 2"));
    }

    /// A service, its execs, a stop, and the loss of its keeper: each is followed by a life.
    fn a_service_comes_back(env) {
        let service = "[services.web]\nexec = [\"sh\", \"-c\", \"echo up; sleep 86801\"]\nrestart = \"never\"\n\
                       ready = { exec = \"true\", interval = \"1ms\" }\n";
        env.file("minimal.toml", service);
        let id = env.min(["box", "start", "web"]).run().word().to_owned();
        let exec = env.min(["exec", "-d", "web", "--", "sh", "-c", "echo in life 1; exit 5"]).run().word().to_owned();
        env.min(["wait", "web", "--exec", &exec]).run().assert_code(5);
        env.min(["stop", "web"]).run().assert_code(0);
        env.min(["box", "resume", "web"]).run().assert_code(0);
        let record = env.show("web");
        assert_eq!((&record["state"], &record["lives"], &record["ending"]), (&"running".into(), &2.into(), &Value::Null));
        assert_eq!(record["entrypoint"]["ready"], true);
        // What was run in a former life is on record, and what is run now is beside it.
        env.min(["logs", "web", "--exec", &exec]).run().assert_stdout("in life 1\n");
        env.min(["wait", "web", "--exec", &exec]).run().assert_code(5);
        env.min(["exec", "web", "--", "sh", "-c", "exit 6"]).run().assert_code(6);
        assert_eq!(env.min(["box", "execs", "web", "-o", "json"]).run().json()["execs"].as_array().unwrap().len(), 2);
        env.min(["box", "resume", "web"]).run().assert_code(0).assert_stderr_has("runs already");
        env.keeper(&id).kill();
        env.min(["wait", "web"]).run().assert_code(125);
        assert_eq!(env.ending("web")["reason"], "lost");
        env.wait_for_no_process("sleep 86801");
        env.min(["box", "resume", "web"]).run().assert_code(0);
        env.wait_for_process("sleep 86801");
        env.kill_daemon();
        assert_eq!(env.show("web")["lives"], 3);
        env.min(["stop", "web"]).run().assert_code(0);
        assert_eq!(env.ending("web")["reason"], "stopped");
        assert_eq!(env.logs("web"), b"up\nup\nup\n");
    }

    /// Each refusal leaves the record as it was, and names what is in the way.
    fn refusals(env) {
        let refused = |name: &str, words: &[&str], why: &str| {
            let before = (standing(env, name), story(env, name));
            env.min([&["box", "resume", name], words].concat()).run().assert_code(2).assert_stderr_has(why);
            assert_eq!((standing(env, name), story(env, name)), before);
        };
        let file = "[tasks.never]\nexec = \"true\"\nresume = \"never\"\n";
        env.file("minimal.toml", file);
        env.min(["run", "-q", "never"]).run().assert_code(0);
        refused("never-1", &[], "`min run` makes a fresh box");
        env.min(["run", "--name", "not", "--", "no-such-program"]).run().assert_code(127);
        refused("not", &[], "has never started");
        let old = env.min(["run", "-d", "--name", "held", "--", "true"]).run().word().to_owned();
        env.min(["wait", &old]).run().assert_code(0);
        let new = env.min(["run", "-d", "--name", "held", "--", "sleep", "86802"]).run().word().to_owned();
        refused(&old, &[], &format!("`min stop {new}`"));
        env.min(["stop", &new]).run().assert_code(0);
        env.min(["box", "resume", &old]).run().assert_code(0);
        env.min(["run", "-q", "--name", "given", "-e", "TOKEN=1", "--", "sh", "-c", "echo $TOKEN"]).run().assert_code(0);
        refused("given", &[], "`-e TOKEN=");
        refused("given", &["-e", "TOKEN=2", "-e", "OTHER=3"], "was not made with it");
        env.min(["box", "resume", "given", "-e", "TOKEN=2"]).run().assert_code(0).assert_stdout("2\n");
        env.min(["box", "resume", "given"]).env("TOKEN", "3").run().assert_code(0).assert_stdout("3\n");
        env.min(["run", "-d", "--rm", "--name", "gone", "--", "true"]).run().assert_code(0);
        env.min(["wait", "gone"]).run().assert_code(0);
        refused("gone", &[], "made to be removed");
        let spec = env.box_dir(&old).join("spec.json");
        let changed = std::fs::read_to_string(&spec).unwrap().replace("\"true\"", "\"tree\"");
        std::fs::write(&spec, changed).unwrap();
        let output = env.min(["box", "resume", &old]).run();
        output.assert_code(125).assert_stderr_has("not the one that it was made from");
        env.min(["box", "resume", "nobody"]).run().assert_code(4);
    }

    /// A start that fails leaves the box as it was, with its former ending, and can be tried again.
    fn a_start_that_fails(env) {
        let tool = env.script("tool", "#!/bin/sh\necho tool; exit 7\n");
        let mount = format!("{}:/tool", tool.display());
        env.min(["run", "-q", "--name", "tool", "--mount", &mount, "--", "/tool"]).run().assert_code(7);
        let before = standing(env, "tool");
        let aside = tool.with_extension("aside");
        std::fs::rename(&tool, &aside).unwrap();
        let ending = env.root().join("ending");
        let words = ["box", "resume", "tool", "--ending-file", ending.to_str().unwrap()];
        env.min(words).run().assert_code(125).assert_stderr_has("is as it was");
        let told: Value = serde_json::from_slice(&std::fs::read(&ending).unwrap()).unwrap();
        assert_eq!(told["reason"], "start_failed", "{told}");
        assert_eq!(standing(env, "tool"), before);
        // What was judged for the first life is what is shown, and nothing that a link leads to.
        std::os::unix::fs::symlink(&aside, &tool).unwrap();
        env.min(["box", "resume", "tool"]).run().assert_code(125).assert_stderr_has("symbolic link");
        env.kill_daemon();
        assert_eq!(standing(env, "tool"), before);
        env.min(["wait", "tool"]).run().assert_code(7);
        std::fs::remove_file(&tool).unwrap();
        std::fs::rename(&aside, &tool).unwrap();
        env.min(["box", "resume", "tool"]).run().assert_code(7).assert_stdout("tool\n");
        let tries = ["resumed", "resume_failed", "resumed", "resume_failed", "resumed", "started", "exited"];
        assert_eq!(story(env, "tool")[3..], tries);
        env.script("once", "#!/bin/sh\nrm /workbench/once; exit 3\n");
        env.min(["run", "-q", "--name", "once", "--", "/workbench/once"]).run().assert_code(3);
        env.min(["box", "resume", "once"]).run().assert_code(127);
        env.min(["wait", "once"]).run().assert_code(3);
    }

    /// Two who resume a box at the same moment have one life of it.
    fn two_at_once(env) {
        env.min(["run", "-q", "--name", "two", "--", "sh", "-c", "test -e ~/x && exec sleep 86803; touch ~/x"])
            .run()
            .assert_code(0);
        let tries: Vec<_> = (0..4).map(|_| env.min(["box", "resume", "-d", "two"]).spawn()).collect();
        for one in tries {
            one.wait().assert_code(0);
        }
        env.wait_for_process("sleep 86803");
        assert_eq!(env.show("two")["lives"], 2);
        let resumed = story(env, "two").iter().filter(|event| *event == "resumed").count();
        assert_eq!(resumed, 1);
        env.min(["rm", "-f", "two"]).run().assert_code(0);
        wait_until("it is gone", LIMIT, || {
            let left = env.keepers();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}
