//! Generated files: written by the tests that otherwise compare them.

use anyhow::Result;

use crate::cargo::{cargo, run};

/// Tells a test that holds a generated file to write it instead of comparing.
pub(crate) const UPDATE: &str = "MIN_UPDATE";

/// Runs every test whose name says that it holds a generated file.
pub(crate) fn generate() -> Result<()> {
    run(cargo(&["test", "--workspace", "--exclude", "minimal-e2e", "--quiet", "generated"])
        .env(UPDATE, "1"))?;
    println!("see `git diff` for what changed");
    Ok(())
}
