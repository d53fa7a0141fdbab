//! `ls`, `show`, `events`, `version`, `host show`, and the long spelling of each verb.

use minimal_testkit::{LIMIT, for_each_user, wait_until};
use serde_json::Value;

fn names(list: &Value) -> Vec<&str> {
    list["boxes"].as_array().unwrap().iter().filter_map(|record| record["name"].as_str()).collect()
}

for_each_user! {
    /// A project whose path is no text, and one that would talk to the terminal.
    fn odd_projects(env) {
        use std::os::unix::ffi::OsStrExt as _;
        for name in [&b"not\xfftext"[..], b"esc\x1b[31m", b"two\nlines"] {
            let project = env.work().join(std::ffi::OsStr::from_bytes(name));
            env.account().make_dir(&project);
            env.run(["true"]).cwd(&project).run().assert_code(0);
            let listed = env.min(["ls"]).cwd(&project).run();
            assert_eq!(listed.assert_code(0).text().lines().count(), 2, "{listed}");
            let shown = env.min(["show", env.newest()["id"].as_str().unwrap()]).run();
            let shown = shown.assert_code(0).text();
            let line = shown.lines().find(|line| line.starts_with("project")).unwrap();
            assert!(!shown.contains('\x1b') && !line.ends_with("two"), "{shown}");
        }
    }

    /// Completion offers the names of boxes where a box is wanted, and starts no daemon for it.
    fn completion(env) {
        let complete = |words: &str| {
            let script = format!(
                "source <(min completions bash); COMP_WORDS=({words} ''); \
                 COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _min_with_boxes min '' x; echo \"${{COMPREPLY[@]}}\""
            );
            let output = env.bash(&script).run();
            output.assert_code(0);
            output.text().to_owned()
        };
        assert!(!complete("min show").contains("web"));
        assert_eq!(env.daemon(), None);
        env.min(["run", "--name", "web", "--", "true"]).run().assert_code(0);
        for words in ["min show", "min box stop", "min -q logs"] {
            // The budget is a person's patience, and this machine may be busy.
            wait_until(&format!("{words} offers the box"), LIMIT, || {
                let offered = complete(words);
                if offered.contains("web") { Ok(()) } else { Err(offered) }
            });
        }
        assert!(!complete("min run -- show").contains("web"));
    }

    /// Newest first, of this project or of all, by state, as table, JSON and lines.
    fn filters(env) {
        env.run_sh("exit 1").run().assert_code(1);
        env.run(["nosuch"]).run().assert_code(127);
        let id = env.min(["run", "-d", "--name", "live", "--", "sleep", "86531"]).run().word().to_owned();
        let list = |args: &[&str]| {
            let output = env.min(["ls", "-o", "json"].iter().chain(args)).run();
            output.assert_code(0);
            output.json()
        };
        let all = list(&["--all"]);
        assert_eq!(all["schema"], "min/v1/box-list");
        assert_eq!(names(&all), ["live", "nosuch-1", "sh-1"]);
        assert_eq!(names(&list(&["--all", "--state", "running"])), ["live"]);
        assert_eq!(names(&list(&["--all", "--state", "failed"])), ["nosuch-1"]);
        assert_eq!(names(&list(&["--all", "--state", "exited"])), ["sh-1"]);
        env.min(["ls", "--state", "nosuch"]).run().assert_code(2);
        let lines = env.min(["ls", "--all", "-o", "jsonl"]).run();
        assert_eq!(lines.json_lines().len(), 3);
        let table = env.min(["ls", "--all"]).run();
        for word in ["live", "running", "sh-1", "exited", "nosuch-1", "failed"] {
            assert!(table.text().contains(word), "{word}: {table}");
        }
        assert!(table.text().contains(&id[id.len() - 8..]), "the id's last eight: {table}");
        env.min(["stop", "--force", "live"]).run().assert_code(0);
    }

    /// A listing is of the project one is in.
    fn of_this_project(env) {
        for project in ["one", "two"] {
            env.account().make_dir(&env.work().join(project));
            env.run(["true"]).cwd(env.work().join(project)).run().assert_code(0);
        }
        let of_one = env.min(["ls", "-o", "json"]).cwd(env.work().join("one")).run().json();
        assert_eq!(names(&of_one), ["true-1"]);
        assert_eq!(env.boxes().len(), 2);
    }

    /// The events of a box, in order, without a gap, and nothing secret in them.
    fn events(env) {
        let id = env.detached("sleep 86532");
        env.wait_for_process("sleep 86532");
        env.min(["stop", &id]).run().assert_code(0);
        let events = env.events(&id);
        let types: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        assert_eq!(types, ["created", "started", "stop_requested", "exited"]);
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event["schema"], "min/v1/event");
            assert_eq!(event["seq"], index + 1);
            assert_eq!(event["box"], *id);
        }
        assert_eq!(events[3]["data"]["reason"], "stopped");
        let followed = env.min(["events", "--follow", "-o", "jsonl", &id]).run();
        assert_eq!(followed.json_lines(), events);
    }

    /// Every shortcut has its long spelling, with the plural too, and they answer the same.
    fn long_spellings(env) {
        env.min(["box", "run", "--", "sh", "-c", "echo x; exit 2"]).run().assert_code(2);
        for verb in ["show", "logs", "wait", "events"] {
            let short = env.min([verb, "sh-1"]).run();
            for noun in ["box", "boxes"] {
                let long = env.min([noun, verb, "sh-1"]).run();
                assert_eq!(long.stdout, short.stdout, "{noun} {verb}");
                assert_eq!(long.code(), short.code(), "{noun} {verb}");
            }
        }
        let short = env.min(["ls", "--all", "-o", "json"]).run();
        assert_eq!(env.min(["box", "list", "--all", "-o", "json"]).run().json(), short.json());
        env.min(["box", "stop", "sh-1"]).run().assert_code(0);
        env.min(["box", "kill", "sh-1"]).run().assert_code(2);
        env.min(["box", "rm", "sh-1"]).run().assert_code(0);
    }

    /// Who answers: one build on both sides.
    fn version_and_host(env) {
        let version = env.min(["version", "-o", "json"]).run();
        version.assert_code(0);
        assert!(version.json().is_object(), "{version}");
        env.min(["version"]).run().assert_code(0);
        env.min(["--version"]).run().assert_code(0);
        env.run(["true"]).run().assert_code(0);
        let host = env.min(["host", "show", "-o", "json"]).run();
        host.assert_code(0);
        let pid = host.json()["version"]["pid"].as_i64().expect("the daemon's pid");
        assert_eq!(i64::from(env.daemon().expect("a daemon").pid), pid);
        assert_eq!(host.json()["boxes"]["exited"], 1);
    }

    /// A mistake in a command line is exit 2, and no daemon is started for it.
    fn mistakes(env) {
        for args in [&["nosuch"][..], &["ls", "--nosuch"], &["show"], &["wait"], &["rm"], &["box", "nosuch"]] {
            env.min(args).run().assert_code(2);
        }
        assert_eq!(env.daemon(), None);
        assert!(!env.state_dir().exists(), "nothing was made");
    }
}
