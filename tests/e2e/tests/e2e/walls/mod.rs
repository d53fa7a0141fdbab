//! Each attack of `docs/reference/walls.md`, made as it is and with what stops it taken down. The twin
//! shows that the attack is one.

mod files;
mod privileges;
mod processes;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use minimal_testkit::{Output, TestEnv};

/// A file of the host's that goes with the scenario.
struct HostFile(PathBuf);

impl HostFile {
    /// With this mode, and owned by whoever runs the boxes.
    fn new(env: &TestEnv, directory: &str, mode: u32) -> Self {
        let path = Path::new(directory).join(format!("minimal-test-{}", std::process::id()));
        fs::write(&path, "secret\n").unwrap();
        env.account().own(&path);
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// Makes the attack, then once more with these walls taken down. What fails it, and what it says when
/// it works.
fn attack(env: &TestEnv, walls: &[&str], attack: impl Fn(&TestEnv) -> Output) -> (Output, Output) {
    let outcome = attack(env);
    take_down(env, walls);
    (outcome, attack(env))
}

/// Takes walls down for the daemon of the next command.
fn take_down(env: &TestEnv, walls: &[&str]) {
    env.stop_all();
    for wall in walls {
        env.hooks().take_down(wall);
    }
}

/// The user that has the most rights in a box: root, where there is one.
fn strongest(env: &TestEnv) -> &'static str {
    env.run(["true"]).run().assert_code(0);
    match env.newest()["enforcement"]["users"].as_str() {
        Some("single") => "box",
        _ => "root",
    }
}
