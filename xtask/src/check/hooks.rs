//! Fault points: each one listed is passed somewhere, and each one passed is listed.
//!
//! That each is also exercised is held by the crash scenarios of `tests/e2e`.

use std::collections::BTreeSet;

use super::sources::Sources;

/// Where they are listed.
const LIST: &str = "crates/store/src/hook/mod.rs";

/// Crates with fault points, which begin the points' names.
const OWNERS: [&str; 3] = ["store.", "keeper.", "daemon."];

/// What does not agree.
pub(crate) fn faults(sources: &Sources) -> Vec<String> {
    let Some((_, text)) = sources.rust().find(|(path, _)| path.as_os_str() == LIST) else {
        return vec![format!("{LIST}, which lists the fault points, is missing")];
    };
    let list = text.split("pub const POINTS").nth(1).and_then(|rest| rest.split("];").next());
    let listed: BTreeSet<&str> = literals(list.unwrap_or_default()).collect();
    let code = sources.rust().filter(|(path, _)| {
        path.starts_with("crates")
            && !path.starts_with("crates/store/src/hook")
            && !path.starts_with("crates/testkit")
            // Tests name what is at a point as well (`….fail`), and points by their beginnings.
            && !path.components().any(|part| part.as_os_str() == "tests")
    });
    let passed: BTreeSet<&str> =
        code.flat_map(|(_, text)| literals(text)).filter(|literal| is_point(literal)).collect();
    let unpassed =
        listed.difference(&passed).map(|name| format!("{name} is listed, but no code passes it"));
    let unlisted = passed
        .difference(&listed)
        .map(|name| format!("{name} is passed, but not listed in {LIST}"));
    unpassed.chain(unlisted).collect()
}

/// Texts between quotes. Good enough for names without quotes in them.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// Whether a text has the form of a point's name: `store.create.after_mkdir`.
fn is_point(text: &str) -> bool {
    OWNERS.iter().any(|owner| text.starts_with(owner))
        && text.split('.').count() >= 3
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'.' | b'_'))
}
