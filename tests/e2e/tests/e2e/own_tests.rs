//! A real job: this repository's own unit tests of `proto` and `store`, prebuilt, in a box.

use std::path::PathBuf;
use std::process::Command;

use minimal_testkit::{TestEnv, need};

/// Whose tests are run.
const PACKAGES: [&str; 2] = ["minimal_proto", "minimal_store"];

/// Names the executables, as a list like PATH; without it, cargo is asked, which may build them.
const EXECUTABLES: &str = "MIN_OWN_TESTS";

/// The test executables.
fn executables() -> Vec<PathBuf> {
    if let Some(list) = std::env::var_os(EXECUTABLES) {
        return std::env::split_paths(&list).collect();
    }
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["test", "--no-run", "--message-format", "json", "--locked", "--lib"])
        .args(["--package", "minimal-proto", "--package", "minimal-store"])
        .current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| {
            message["reason"] == "compiler-artifact" && message["profile"]["test"] == true
        })
        .filter(|message| PACKAGES.iter().any(|name| message["target"]["name"] == *name))
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect()
}

fn scenario(env: &TestEnv) {
    let executables = executables();
    assert!(executables.len() >= 2, "{executables:?}");
    for (number, executable) in executables.iter().enumerate() {
        let name = format!("tests-{number}");
        std::fs::copy(executable, env.work().join(&name)).unwrap();
        env.account().own(&env.work().join(&name));
        let output = env
            .min(["run", "--rm", "--workspace", "bind", "--"])
            .arg(format!("./{name}"))
            .arg("--test-threads=2")
            .limit(minimal_testkit::LIMIT * 4)
            .run();
        output.assert_code(0);
        assert!(output.text().contains("test result: ok."), "{output}");
    }
}

#[test]
fn as_root() {
    if need::root() && need::userns(&minimal_testkit::Account::current()) {
        scenario(&TestEnv::new());
    }
}

#[test]
fn as_user() {
    if let Some(account) = need::user().filter(need::userns) {
        scenario(&TestEnv::for_account(account));
    }
}
