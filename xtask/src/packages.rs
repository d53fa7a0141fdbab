//! Programs that chores need from the distribution.

use std::process::Command;

use anyhow::{Result, bail};

use crate::cargo::{is_there, run};

/// Names a module of the distribution's Python in place of a program.
const MODULE: &str = "python3:";

/// Makes sure that programs are there, each with the Debian package that brings it.
///
/// # Errors
/// One is missing and cannot be installed.
pub(crate) fn ensure(programs: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<_> = programs.iter().filter(|(program, _)| !is_here(program)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    let is_root = std::fs::metadata("/proc/self")
        .is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0);
    if !is_root || !is_there("apt-get") {
        bail!("missing: {}; install it, for example with apt-get", packages.join(" "));
    }
    println!("installing Debian packages that are missing: {}", packages.join(" "));
    // The lists may be absent on a fresh machine; a failure shows in the install.
    drop(run(Command::new("apt-get").args(["update", "-qq"])));
    run(Command::new("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&packages))?;
    for (program, package) in programs {
        if !is_here(program) {
            bail!("{package} is installed, but there is no {program} on the PATH");
        }
    }
    Ok(())
}

fn is_here(program: &str) -> bool {
    match program.strip_prefix(MODULE) {
        None => is_there(program),
        Some(module) => Command::new("/usr/bin/python3")
            .args(["-c", &format!("import {module}")])
            .output()
            .is_ok_and(|output| output.status.success()),
    }
}
