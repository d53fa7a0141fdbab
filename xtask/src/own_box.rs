//! The project's own `minimal.toml`: one of its tasks is run as a person would run it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::cargo::{read, root, run};

/// What the project's file takes of the home, and what a person allows it.
const POLICY: &str = "[paths]\nallow = [\"~/.cargo/bin\", \"~/.cargo/registry\", \"~/.rustup\"]\n";

/// What must be in the home for that, in which rustup and cargo keep them by default.
const SOURCES: [&str; 3] = [".cargo/bin/cargo", ".cargo/registry", ".rustup"];

/// Names needs that must be there, as for every test (`docs/testing.md`).
const REQUIRE: &str = "MIN_REQUIRE";

/// Checks and tests a crate of this project in a box, with this executable.
///
/// # Errors
/// It does not work, or this machine has no toolchain in the home and must have one.
pub(crate) fn run_tasks(min: &Path) -> Result<()> {
    if let Some(missing) = missing() {
        let required = std::env::var(REQUIRE).unwrap_or_default();
        ensure!(
            !required.split(',').any(|name| name.trim() == "rustup"),
            "{REQUIRE} names `rustup`, and there is no {missing}"
        );
        println!("SKIPPED: the tasks of minimal.toml need `rustup`: there is no {missing}");
        return Ok(());
    }
    let world = World::new(min)?;
    // Without a word of the person's it takes nothing.
    let refused = world.min(&["run", "--rm", "test"]).output().context("start min")?;
    ensure!(refused.status.code() == Some(5), "without a policy: {refused:?}");
    world.allow()?;
    let tested = read(&mut world.min(&["run", "--rm", "test"]))?;
    let tested = String::from_utf8_lossy(&tested);
    print!("{tested}");
    ensure!(tested.contains("test result: ok."), "no test was run");
    run(&mut world.min(&["run", "--rm", "fmt"]))
}

/// What the tasks need and the home does not have.
fn missing() -> Option<String> {
    let Some(home) = std::env::var_os("HOME").map(PathBuf::from) else {
        return Some("HOME".to_owned());
    };
    let missing = SOURCES.iter().find(|source| !home.join(source).exists());
    missing.map(|source| format!("~/{source}"))
}

/// Boxes and settings of its own, gone with it.
struct World<'a> {
    min: &'a Path,
    directory: PathBuf,
}

impl<'a> World<'a> {
    fn new(min: &'a Path) -> Result<Self> {
        let name = format!("minimal-test-tasks-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(directory.join("config/minimal"))
            .with_context(|| format!("make {}", directory.display()))?;
        Ok(Self { min, directory })
    }

    fn allow(&self) -> Result<()> {
        let file = self.directory.join("config/minimal/user_policy.toml");
        std::fs::write(&file, POLICY).with_context(|| format!("write {}", file.display()))
    }

    fn min(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.min);
        command
            .args(args)
            .current_dir(root())
            .env("MINIMAL_STATE_DIR", self.directory.join("state"))
            .env("XDG_CONFIG_HOME", self.directory.join("config"))
            .stdin(std::process::Stdio::null());
        command
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        if let Err(error) = run(&mut self.min(&["host", "stop", "--boxes", "--force"])) {
            println!("{error:#}");
        }
        drop(std::fs::remove_dir_all(&self.directory));
    }
}
