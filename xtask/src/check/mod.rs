//! What can be checked without running the product: formatting, lints, layout, licences.

mod arrows;
mod hooks;
mod licences;
mod size;
mod sources;
mod text;

use anyhow::{Result, ensure};

use crate::cargo::{cargo, metadata, run};
use crate::report::Report;

/// `cargo xtask check`.
pub(crate) fn check() -> Result<()> {
    let mut report = Report::default();
    sections(&mut report);
    report.finish()
}

/// The sections, for the caller's report.
pub(crate) fn sections(report: &mut Report) {
    report.section("formatting", || run(&mut cargo(&["fmt", "--all", "--check"])));
    report.section("layout", layout);
    report.section("lints", || {
        run(&mut cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--features",
            "minimal-e2e/bench",
            "--",
            "-D",
            "warnings",
        ]))?;
        // With the fault points compiled in: few lines, but they must not rot.
        run(&mut cargo(&[
            "clippy",
            "--locked",
            "--package",
            "minimal-cli",
            "--features",
            "testhooks",
            "--",
            "-D",
            "warnings",
        ]))
    });
}

fn layout() -> Result<()> {
    let metadata = metadata()?;
    let sources = sources::Sources::read()?;
    let mut faults = Vec::new();
    faults.extend(arrows::faults(&metadata));
    faults.extend(licences::faults(&metadata));
    faults.extend(size::faults(&sources));
    faults.extend(text::faults(&sources));
    faults.extend(hooks::faults(&sources));
    for fault in &faults {
        println!("   {fault}");
    }
    ensure!(faults.is_empty(), "{} faults", faults.len());
    println!("   dependencies, licences, file sizes, text and fault points are in order");
    Ok(())
}
