//! Names and addresses of boxes.

use minimal_testkit::for_each_user;

for_each_user! {
    /// A running box holds its name; an ended one does not.
    fn a_held_name(env) {
        let id = env.min(["run", "-d", "--name", "web", "--", "sleep", "86471"]).run().word().to_owned();
        let output = env.min(["run", "--name", "web", "--", "true"]).run();
        output.assert_code(2).assert_stderr_has("web").assert_stderr_has("nothing was run");
        assert_eq!(env.boxes().len(), 1);
        env.min(["stop", "--force", "web"]).run().assert_code(0);
        env.min(["run", "--name", "web", "--", "sh", "-c", "exit 3"]).run().assert_code(3);
        assert_eq!(env.boxes().len(), 2);
        // The name means the newest now, and the id still the first.
        assert_eq!(env.show("web")["ending"]["exit_code"], 3);
        assert_eq!(env.show(&id)["ending"]["reason"], "stopped");
    }

    /// Names that are reserved or not safe in DNS, each with its reason; nothing is made.
    fn wrong_names(env) {
        let long = "x".repeat(64);
        for name in ["self", "", "-a", "a-", "Big", "a.b", "a_b", "a b", "ä", "../x", &long] {
            let output = env.min(["run", &format!("--name={name}"), "--", "true"]).run();
            output.assert_code(2).assert_stdout("");
            assert!(!output.stderr.is_empty(), "{name}: {output}");
        }
        assert_eq!(env.boxes().len(), 0);
    }

    /// Without a name a box is called after its program, with the smallest number that is free.
    fn names_after_the_program(env) {
        for _ in 0..3 {
            env.run(["/bin/true"]).run().assert_code(0);
        }
        env.min(["rm", "true-2"]).run().assert_code(0);
        env.run(["true"]).run().assert_code(0).assert_stderr_has("true-2");
        let mut names: Vec<String> =
            env.boxes().iter().map(|record| record["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["true-1", "true-2", "true-3"]);
    }

    /// Full id, its first or last digits, a name; what means none, or several.
    fn addresses(env) {
        env.run_sh("exit 1").run().assert_code(1);
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        let digits = id.replace('-', "");
        for address in [&id[..], &digits[digits.len() - 8..], &digits[..20], "sh-1"] {
            assert_eq!(env.show(address)["id"], id, "{address}");
        }
        for address in ["nosuch", "00000000-0000-7000-8000-000000000000", &digits[digits.len() - 5..]] {
            for verb in ["show", "logs", "wait", "stop", "rm", "events"] {
                env.min([verb, address]).run().assert_code(4).assert_stderr_has(address);
            }
        }
        let error = env.min(["show", "-o", "json", "nosuch"]).run().error();
        assert_eq!(error["code"], "not_found");
        assert_eq!(error["schema"], "min/v1/error");
    }

    /// The host name of a box is its name.
    fn the_host_name(env) {
        env.min(["run", "--name", "my-box", "--", "uname", "-n"]).run().assert_stdout("my-box\n");
    }
}
