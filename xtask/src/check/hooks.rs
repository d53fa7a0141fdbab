//! Fault points: each one listed is passed somewhere, and each one passed is listed.
//!
//! That each is also exercised is held by the crash scenarios of `tests/e2e`.

use std::collections::BTreeSet;

use super::sources::Sources;

/// Where they are listed.
const LIST: &str = "crates/store/src/hook/mod.rs";

/// What does not agree.
pub(crate) fn faults(sources: &Sources) -> Vec<String> {
    let Some((_, text)) = sources.rust().find(|(path, _)| path.as_os_str() == LIST) else {
        return vec![format!("{LIST}, which lists the fault points, is missing")];
    };
    let list = text.split("pub const POINTS").nth(1).and_then(|rest| rest.split("];").next());
    let listed: BTreeSet<&str> = list.unwrap_or_default().split('"').skip(1).step_by(2).collect();
    let mut passed = BTreeSet::new();
    for (path, text) in sources.rust() {
        if !path.starts_with("crates") || path.starts_with("crates/store/src/hook") {
            continue;
        }
        for part in text.split("point(").skip(1) {
            if let Some(name) =
                part.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next())
            {
                passed.insert(name);
            }
        }
    }
    let unpassed =
        listed.difference(&passed).map(|name| format!("{name} is listed, but no code passes it"));
    let unlisted = passed
        .difference(&listed)
        .map(|name| format!("{name} is passed, but not listed in {LIST}"));
    unpassed.chain(unlisted).collect()
}
