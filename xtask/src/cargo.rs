//! Calling cargo and other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The top of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout")
}

/// A cargo command at the top of the checkout.
pub(crate) fn cargo(args: &[&str]) -> Command {
    // The cargo that runs this chore, so that a toolchain chosen for it holds for all.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command to its end, showing it and what it prints.
///
/// # Errors
/// It cannot be started, or fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("start `{shown}`"))?;
    ensure!(status.success(), "`{shown}`: {status}");
    Ok(())
}

/// What a command prints.
///
/// # Errors
/// It cannot be started, or fails.
pub(crate) fn read(command: &mut Command) -> Result<Vec<u8>> {
    let shown = shown(command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("start `{shown}`"))?;
    ensure!(output.status.success(), "`{shown}`: {}", output.status);
    Ok(output.stdout)
}

/// Whether a program is on the PATH.
pub(crate) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Where cargo builds.
///
/// # Errors
/// `cargo metadata` fails.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let metadata = metadata()?;
    let path =
        metadata["target_directory"].as_str().context("metadata names the target directory")?;
    Ok(PathBuf::from(path))
}

/// All packages and how they depend on each other.
///
/// # Errors
/// `cargo metadata` fails.
pub(crate) fn metadata() -> Result<Value> {
    let json = read(&mut cargo(&["metadata", "--format-version", "1", "--locked"]))?;
    serde_json::from_slice(&json).context("read the answer of cargo metadata")
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}
