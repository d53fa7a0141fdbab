//! What a test needs of the machine, and loud skips where it is missing.

use std::process::{Command, Stdio};

use crate::Account;

/// Names needs that must be there (comma-separated): without them a test fails instead of skipping.
pub const REQUIRE: &str = "MIN_REQUIRE";

/// Whether the test runs as root.
#[track_caller]
pub fn root() -> bool {
    met("root", Account::current().is_root(), "this test run is not root's")
}

/// The ordinary user: under root a system user made for it, else whoever runs the tests.
#[must_use]
#[track_caller]
pub fn user() -> Option<Account> {
    let current = Account::current();
    if !current.is_root() {
        return Some(current);
    }
    match Account::ordinary() {
        Ok(account) => Some(account),
        Err(reason) => {
            met("user", false, &reason);
            None
        }
    }
}

/// An ordinary user with subordinate ids and the programs that map them: under root a system user
/// made for it.
#[must_use]
#[track_caller]
pub fn subordinate_ids() -> Option<Account> {
    if !root() {
        return None;
    }
    let programs = ["newuidmap", "newgidmap"];
    if let Some(missing) =
        programs.iter().find(|name| !std::path::Path::new("/usr/bin").join(name).exists())
    {
        met("subids", false, &format!("there is no {missing} (Debian: uidmap)"));
        return None;
    }
    match Account::with_subordinate_ids() {
        Ok(account) => Some(account),
        Err(reason) => {
            met("subids", false, &reason);
            None
        }
    }
}

/// Whether this account may make user namespaces.
#[track_caller]
pub fn userns(account: &Account) -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["--user", "--mount", "--pid", "--fork", "--map-root-user", "true"]);
    account.apply(&mut probe);
    let answer = probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    match answer {
        Ok(output) if output.status.success() => true,
        Ok(output) => met("userns", false, String::from_utf8_lossy(&output.stderr).trim()),
        Err(error) => met("userns", false, &format!("unshare(1) cannot be run: {error}")),
    }
}

/// Whether the test may mount: root with the capability.
#[track_caller]
pub fn tmpfs() -> bool {
    met("tmpfs", Account::current().is_root(), "mounting a tmpfs takes root")
}

/// Reports a need of any other name.
///
/// # Panics
/// If it is missing and [`REQUIRE`] names it.
#[track_caller]
pub fn met(need: &str, there: bool, reason: &str) -> bool {
    if there {
        return true;
    }
    let required = std::env::var(REQUIRE).unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == need),
        "{REQUIRE} names `{need}`, but it is missing: {reason}",
    );
    eprintln!("SKIPPED: this test needs `{need}`: {reason}");
    false
}
