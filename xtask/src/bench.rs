//! `cargo xtask bench`.

use anyhow::Result;

use crate::cargo::{cargo, run, target_dir};
use crate::packages;

/// Builds the release executable and the measuring program, and runs it.
pub(crate) fn bench(names: &[String]) -> Result<()> {
    let peers = [("bwrap", "bubblewrap"), ("podman", "podman"), ("runc", "runc")];
    if let Err(error) = packages::ensure(&peers) {
        println!("SKIPPED: not every peer can be measured: {error:#}");
    }
    run(&mut cargo(&["build", "--locked", "--release", "--package", "minimal-cli"]))?;
    run(&mut cargo(&[
        "build",
        "--locked",
        "--release",
        "--package",
        "minimal-e2e",
        "--features",
        "bench",
        "--bin",
        "bench",
    ]))?;
    let target = target_dir()?;
    let mut bench = std::process::Command::new(target.join("release/bench"));
    bench
        .args(names)
        .env("MIN_BIN", target.join("release/min"))
        .env("MIN_BENCH_JSON", target.join("bench.json"))
        // On a disk, where the usual temporary directory may be memory.
        .env("TMPDIR", "/var/tmp");
    run(&mut bench)
}
