//! `cargo xtask test`: everything CI runs.
//!
//! The unit tests and the executable for the whole-system scenarios are built in the `dev` profile:
//! it keeps debug assertions, and dependencies are built once for lints, tests and executable. The
//! release build then proves the two commands of the README, and runs the journeys of `done_when`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use crate::cargo::{cargo, is_there, read, root, run, target_dir};
use crate::report::Report;
use crate::{check, own_box, packages};

const PARTS: [&str; 6] = ["check", "unit", "e2e", "tasks", "release", "docs"];

/// `cargo xtask test`.
pub(crate) fn test(args: &[String]) -> Result<()> {
    let (parts, filter) = match args.iter().position(|arg| arg == "--") {
        Some(at) => (&args[..at], &args[at + 1..]),
        None => (args, [].as_slice()),
    };
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        bail!("there is no part `{unknown}`: {}", PARTS.join(" "));
    }
    let wanted = |part: &str| parts.is_empty() || parts.iter().any(|wanted| wanted == part);
    let mut report = Report::default();
    report.section("what the tests need", needs);
    if wanted("check") {
        check::sections(&mut report);
    }
    if wanted("docs") {
        report.section("documentation", docs);
    }
    if wanted("unit") {
        report.section("unit and crate tests", || unit(filter));
    }
    if wanted("e2e") {
        report.section("whole-system tests", || e2e(filter));
    }
    if wanted("tasks") && filter.is_empty() {
        report.section("this project's own tasks, in boxes", tasks);
    }
    // The slowest build: not worth starting when something else is wrong already.
    if wanted("release") && report.is_ok() {
        report.section("release build", || release(filter));
    }
    remove_copies();
    report.finish()
}

fn needs() -> Result<()> {
    packages::ensure(&[
        ("unshare", "util-linux"),
        ("useradd", "passwd"),
        ("newuidmap", "uidmap"),
        ("bash", "bash"),
        ("git", "git"),
        ("cc", "gcc"),
        // Somebody else's ends of the runner protocol.
        ("python3:websockets", "python3-websockets"),
        // Programs that fill a terminal: scenarios run them in boxes.
        ("vim", "vim"),
        ("less", "less"),
        ("top", "procps"),
        ("htop", "htop"),
        ("tmux", "tmux"),
    ])?;
    if !is_there("cargo-nextest") {
        println!("cargo-nextest is missing: installing it (once, some minutes)");
        if run(&mut cargo(&["install", "--locked", "--quiet", "cargo-nextest"])).is_err() {
            println!(
                "cargo-nextest cannot be installed: falling back to cargo test, one test at a time"
            );
        }
    }
    match is_there("cargo-deny") {
        true => run(&mut cargo(&["deny", "--offline", "check", "bans", "licenses", "sources"])),
        false => {
            println!(
                "SKIPPED: cargo-deny is not installed; the layout check holds the licence list"
            );
            Ok(())
        }
    }
}

fn docs() -> Result<()> {
    run(cargo(&["doc", "--locked", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings"))
}

fn unit(filter: &[String]) -> Result<()> {
    let mut command = runner(&["--workspace", "--exclude", "minimal-e2e"]);
    run(command.args(filter))?;
    // Examples in documentation.
    if filter.is_empty() {
        run(&mut cargo(&["test", "--locked", "--workspace", "--doc", "--quiet"]))?;
    }
    Ok(())
}

fn e2e(filter: &[String]) -> Result<()> {
    let built = with_hooks()?;
    let mut command = runner(&["--package", "minimal-e2e"]);
    run(command.args(filter).env("MIN_BIN", built).env("MIN_OWN_TESTS", own_tests()?))
}

fn tasks() -> Result<()> {
    own_box::run_tasks(&with_hooks()?)
}

/// The executable with the hooks that scenarios use.
fn with_hooks() -> Result<PathBuf> {
    run(&mut cargo(&["build", "--locked", "--package", "minimal-cli", "--features", "testhooks"]))?;
    kept_apart(&target_dir()?.join("debug/min"), "min-testhooks")
}

/// The unit tests of two crates, for the scenario that runs them in a box. Built as the unit tests
/// are, so that there is nothing left to build.
fn own_tests() -> Result<OsString> {
    let args = ["test", "--no-run", "--locked", "--message-format", "json", "--workspace"];
    let json = read(cargo(&args).args(["--exclude", "minimal-e2e", "--lib"]))?;
    let executables = String::from_utf8_lossy(&json)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["profile"]["test"] == true)
        .filter(|message| {
            ["minimal_proto", "minimal_store"].iter().any(|name| message["target"]["name"] == *name)
        })
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .collect::<Vec<_>>();
    Ok(std::env::join_paths(executables)?)
}

fn release(filter: &[String]) -> Result<()> {
    run(&mut cargo(&["build", "--locked", "--release"]))?;
    first_command()?;
    let built = target_dir()?.join("release/min");
    let mut command = runner(&["--package", "minimal-e2e"]);
    if filter.is_empty() && is_there("cargo-nextest") {
        command.args(["-E", "test(/^done_when::/)"]);
    } else if filter.is_empty() {
        command.arg("done_when::");
    }
    run(command.args(filter).env("MIN_BIN", built))
}

/// The README's first command, word for word, in a state directory of its own.
fn first_command() -> Result<()> {
    let state = std::env::temp_dir().join(format!("minimal-test-readme-{}", std::process::id()));
    let with_state = |command: &mut Command| {
        command.env("MINIMAL_STATE_DIR", &state);
    };
    let mut first = cargo(&["run", "--quiet", "--release", "--", "run", "--", "uname", "-a"]);
    with_state(&mut first);
    let printed = read(&mut first);
    let mut stop =
        cargo(&["run", "--quiet", "--release", "--", "host", "stop", "--boxes", "--force"]);
    with_state(&mut stop);
    let stopped = run(&mut stop);
    drop(std::fs::remove_dir_all(&state));
    let printed = printed?;
    stopped?;
    let printed = String::from_utf8_lossy(&printed);
    print!("{printed}");
    ensure!(
        printed.starts_with("Linux ") && printed.lines().count() == 1,
        "that is not what uname prints"
    );
    Ok(())
}

/// A test runner: nextest, or cargo's own with one test at a time.
fn runner(args: &[&str]) -> Command {
    let mut command = if is_there("cargo-nextest") {
        let mut command = cargo(&["nextest", "run", "--locked", "--no-tests=fail"]);
        if std::env::var_os("CI").is_some() {
            command.args(["--profile", "ci"]);
        }
        command
    } else {
        cargo(&["test", "--locked"])
    };
    command.args(args);
    if !is_there("cargo-nextest") {
        command.args(["--", "--test-threads=1"]);
    }
    command
}

/// Copies an executable out of the way of the next build of the same name.
fn kept_apart(built: &PathBuf, name: &str) -> Result<PathBuf> {
    let apart = built.with_file_name(name);
    // A rename, because an older one may be running.
    let staged = built.with_file_name(format!(".{name}"));
    std::fs::copy(built, &staged)?;
    std::fs::rename(&staged, &apart)?;
    Ok(apart)
}

/// Removes the copies of executables that whole-system tests made for other accounts.
fn remove_copies() {
    drop(std::fs::remove_dir_all(std::env::temp_dir().join("minimal-test-bin")));
    drop(std::fs::remove_file(std::env::temp_dir().join("minimal-test-user.lock")));
    debug_assert!(root().exists());
}
