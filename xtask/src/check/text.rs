//! What the project's text must not hold, and what each crate must say.

use super::sources::Sources;

/// Places of one machine, and hosts of package registries, which are a setting of whoever builds.
/// Written in two parts, so that this file does not find itself.
const NEVER: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("npmjs", ".org"),
    concat!("deb.debian", ".org"),
    concat!("proxy.golang", ".org"),
];

/// The one crate with unsafe code.
const UNSAFE: &str = "crates/linux/";

/// What breaks the rules.
pub(crate) fn faults(sources: &Sources) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in &sources.files {
        let shown = path.display();
        // Cargo writes the registry's address into its lock file.
        if path.as_os_str() != "Cargo.lock" {
            for (index, line) in text.lines().enumerate() {
                for word in NEVER.iter().filter(|word| holds(line, word)) {
                    faults.push(format!("{shown}:{}: holds `{word}`", index + 1));
                }
            }
        }
        let is_crate_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        if is_crate_root && !path.starts_with(UNSAFE) && !text.contains("#![forbid(unsafe_code)]") {
            faults.push(format!("{shown}: does not say #![forbid(unsafe_code)]"));
        }
    }
    faults
}

/// Whether a line holds a word; a path only where it begins, not as the end of a longer one.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !word.starts_with('/')
            || !before.is_some_and(|c| {
                c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '}' | '>' | '*')
            })
    })
}
