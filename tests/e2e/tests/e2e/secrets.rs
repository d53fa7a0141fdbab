//! Values given by name are in memory only.

use std::path::Path;

use minimal_testkit::for_each_user;

/// Every file below a directory whose content holds `needle`.
fn holders(directory: &Path, needle: &[u8], found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            holders(&entry.path(), needle, found);
        } else if kind.is_file() {
            let content = std::fs::read(entry.path()).unwrap_or_default();
            if minimal_testkit::command::contains(&content, needle) {
                found.push(entry.path().display().to_string());
            }
        }
    }
}

for_each_user! {
    /// The command gets them; no file of ours does, running or ended.
    fn values_are_in_no_file(env) {
        let secret = "correct-horse-battery";
        let script = "test \"$TOKEN\" = correct-horse-battery && test \"$OTHER\" = correct-horse-battery-2 && echo right; read _";
        env.file("env", "OTHER=correct-horse-battery-2\n");
        let mut running = env
            .min(["run", "-e", "TOKEN", "--env-file", "env", "--", "sh", "-c", &script.replace(secret, "\"correct\"-horse-battery")])
            .env("TOKEN", secret)
            .stdin_piped()
            .spawn();
        running.wait_for_stdout("right\n");
        let mut found = Vec::new();
        holders(env.state_dir(), secret.as_bytes(), &mut found);
        assert_eq!(found, Vec::<String>::new());
        running.write(b"go\n");
        running.wait().assert_code(0);
        holders(env.state_dir(), secret.as_bytes(), &mut found);
        assert_eq!(found, Vec::<String>::new());
        for verb in ["show", "events"] {
            let output = env.min([verb, "-o", "json", "sh-1"]).run();
            assert!(!output.text().contains(secret), "{output}");
        }
    }
}
