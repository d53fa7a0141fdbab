//! `min init`: a file for the project that is there, one entry more, and never over anything.

use std::fs;

use minimal_testkit::for_each_user;

for_each_user! {
    /// What is written runs as it is.
    fn what_is_written_runs(env) {
        env.file("Makefile", "test:\n\t@echo tested\n");
        let init = |words: &[&str]| env.min([&["init"], words].concat()).run();
        init(&[]).assert_code(0).assert_stdout("").assert_stderr_has("`minimal.toml` has default, test now");
        let file = env.work().join("minimal.toml");
        let text = || fs::read_to_string(&file).unwrap();
        let first = text();
        env.min(["run", "test"]).run().assert_code(0).assert_stdout("tested\n");
        init(&[]).assert_code(2).assert_stderr_has("left as it is");
        init(&["test"]).assert_code(2).assert_stderr_has("an entry `test` already: minimal.toml:7");
        init(&["x", "--type", "tsk"]).assert_code(2).assert_stderr_has("types: task, session");
        init(&["self"]).assert_code(2);
        assert_eq!(text(), first);
        // An entry more, of each type that can be had here.
        for (name, box_type) in [("one", "task"), ("web", "service"), ("place", "sandbox")] {
            init(&[name, "--type", box_type]).assert_code(0);
        }
        assert!(text().starts_with(&first));
        env.min(["run", "one"]).run().assert_code(0).assert_stdout("hello\n");
        for name in ["web", "place"] {
            env.min(["box", "start", name]).run().assert_code(0);
        }
        // A file that is wrong is not made worse, and a type of the project's own is known.
        fs::write(&file, "[tasks.a]\nexec = 1\n").unwrap();
        init(&["b"]).assert_code(3).assert_stderr_has("minimal.toml:2");
        fs::write(&file, "[box_types.ci]\nextends = \"task\"\n[tasks.a]\nexec = \"a\"").unwrap();
        init(&["b", "--type", "ci"]).assert_code(0);
        env.min(["run", "b"]).run().assert_code(0).assert_stdout("hello\n");
        // Where everything would be one project, there is none.
        env.min(["init", "-C", env.home().to_str().unwrap()]).run().assert_code(5).assert_stderr_has("home directory");
        assert!(!env.home().join("minimal.toml").exists());
    }
}
