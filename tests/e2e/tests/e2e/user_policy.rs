//! The user policy: what it denies by whatever name, and what it asks on a terminal and writes down.

use std::fs;

use minimal_testkit::{Terminal, TestEnv, for_each_user};

const FILE: &str = "[tasks.tool]\nexec = \"cat /home/box/.tool/c\"\nmounts = [{ source = \"~/.tool\" }]\n\
    [tasks.token]\nbash = \"echo ${TOKEN:-none}\"\nvars = { TOKEN = { inherit = true } }\n\
    [tasks.up]\nexec = \"true\"\nmounts = [{ source = \"../home/x/../.tool\", dest = \"/t\" }]\n";

const POLICY: &str = "../home/.config/minimal/user_policy.toml";

fn clean(env: &TestEnv) {
    for name in [".tool", ".config", "x"] {
        let path = env.home().join(name);
        if path.is_symlink() {
            fs::remove_file(path).unwrap();
        } else if path.exists() {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

/// What a task prints on a terminal in which a question is answered.
fn answered(env: &TestEnv, words: &[&str], answers: &[&str]) -> (minimal_testkit::Output, String) {
    let mut terminal = Terminal::start(env.min(words.iter().copied()).env("TOKEN", "t"), 80, 24);
    for answer in answers {
        terminal.wait_for("ne[v]er: ");
        terminal.type_in(answer);
    }
    terminal.wait()
}

for_each_user! {
    /// Asked once, or written down for good with the file as it was kept, comments and all.
    fn asked(env) {
        env.file("minimal.toml", FILE);
        env.file("../home/.tool/c", "three\n");
        let policy = env.file(POLICY, "# mine\n[vars]\n");
        let (output, text) = answered(env, &["run", "tool"], &["what\n", "y\n"]);
        output.assert_code(0);
        assert!(text.contains("minimal.toml:3 wants to read ~/.tool.") && text.contains("three\r\n"), "{text}");
        assert_eq!(fs::read_to_string(&policy).unwrap(), "# mine\n[vars]\n");
        let (output, text) = answered(env, &["run", "tool"], &["\n"]);
        output.assert_code(5);
        assert!(text.contains("nothing was run: minimal.toml:3 wants to read ~/.tool"), "{text}");
        // Nobody is asked who does not want to be, or whose answer is for a program.
        for words in [&["--no-input", "run", "tool"][..], &["-o", "json", "run", "tool"]] {
            let (output, text) = answered(env, words, &[]);
            output.assert_code(5);
            assert!(!text.contains("Allow it?"), "{text}");
        }
        let (output, text) = answered(env, &["run", "tool"], &["a\n"]);
        output.assert_code(0);
        assert!(text.contains("Written to ~/.config/minimal/user_policy.toml; as it was it is in"), "{text}");
        assert_eq!(fs::read_to_string(&policy).unwrap(), "# mine\n[vars]\n\n[paths]\nallow = [\"~/.tool\"]\n");
        let backup = policy.with_file_name("user_policy.toml.bak");
        assert_eq!(fs::read_to_string(&backup).unwrap(), "# mine\n[vars]\n");
        env.min(["run", "tool"]).run().assert_code(0).assert_stdout("three\n");
        answered(env, &["run", "token"], &["v\n"]).0.assert_code(5);
        assert!(fs::read_to_string(&policy).unwrap().contains("deny = [\"TOKEN\"]"));
        env.min(["run", "token"]).env("TOKEN", "t").run().assert_code(5).assert_stderr_has("which you deny");
        clean(env);
    }

    /// What a line denies is denied by the name that it leads to, and what it ignores goes with what it is in.
    fn by_whatever_name(env) {
        env.file("minimal.toml", FILE);
        env.file("../home/x/secrets/c", "three\n");
        std::os::unix::fs::symlink("x/secrets", env.home().join(".keys")).unwrap();
        std::os::unix::fs::symlink("x/secrets", env.home().join(".tool")).unwrap();
        let policy = |text: &str| drop(env.file(POLICY, text));
        let run = |task: &str| env.min(["run", task]).run();
        // The lines that are told can be used as they are.
        run("up").assert_code(5).assert_stderr_has("allow = [\"~/.tool\",\"~/x/secrets\"]");
        policy("[paths]\nallow = ['~/.tool', '~/x/secrets']\n");
        run("up").assert_code(0);
        policy("[paths]\nallow = ['~']\ndeny = ['~/.keys']\n");
        run("tool").assert_code(5).assert_stderr_has("which you deny");
        policy("[paths]\nallow = ['~']\ndeny = ['~/.k*/c']\n");
        run("tool").assert_code(5).assert_stderr_has("which you deny");
        policy("[paths]\nallow = ['~']\nignore = ['~/.keys/c']\n");
        run("tool").assert_code(1).assert_stderr_has("~/.tool is left out");
        fs::remove_file(env.home().join(".keys")).unwrap();
        clean(env);
    }
}
