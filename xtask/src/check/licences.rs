//! Licences of dependencies: permissive ones only. `deny.toml` says the same to cargo-deny.

use serde_json::Value;

const ALLOWED: [&str; 8] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Dependencies whose licence is not among them.
pub(crate) fn faults(metadata: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        match package["license"].as_str() {
            Some(expression) if allowed(expression) => {}
            licence => {
                faults.push(format!("{name} has the licence {}", licence.unwrap_or("(none)")));
            }
        }
    }
    faults
}

/// Whether an SPDX expression can be met. Knows `AND`, `OR`, parentheses, and the old `/`.
fn allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let spaced = expression.replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    any(&mut words) && words.is_empty()
}

/// Words are taken from the end, where the next one is.
fn any(words: &mut Vec<&str>) -> bool {
    let mut met = all(words);
    while words.last() == Some(&"OR") {
        words.pop();
        met |= all(words);
    }
    met
}

fn all(words: &mut Vec<&str>) -> bool {
    let mut met = one(words);
    while words.last() == Some(&"AND") {
        words.pop();
        met &= one(words);
    }
    met
}

fn one(words: &mut Vec<&str>) -> bool {
    match words.pop() {
        Some("(") => {
            let met = any(words);
            words.pop() == Some(")") && met
        }
        Some(name) if words.last() == Some(&"WITH") => {
            words.pop();
            let exception = words.pop().unwrap_or_default();
            // A licence with an exception grants more than without it.
            ALLOWED.contains(&format!("{name} WITH {exception}").as_str())
                || ALLOWED.contains(&name)
        }
        Some(name) => ALLOWED.contains(&name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT",
        ] {
            assert!(allowed(good), "{good}");
        }
        for bad in
            ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND GPL-3.0", "", "(MIT", "MIT)"]
        {
            assert!(!allowed(bad), "{bad}");
        }
    }

    #[test]
    fn deny_toml_has_the_same_list() {
        let text = std::fs::read_to_string(crate::cargo::root().join("deny.toml")).unwrap();
        let list = text.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(names, ALLOWED);
    }
}
