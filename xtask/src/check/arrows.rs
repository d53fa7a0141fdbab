//! Which crate may use which.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The project's crates and the ones each may use. A new arrow is a decision: it belongs into
/// ARCHITECTURE.md too.
const MAY_USE: &[(&str, &[&str])] = &[
    ("minimal-proto", &[]),
    ("minimal-spec", &["minimal-proto"]),
    ("minimal-screen", &["minimal-proto"]),
    ("minimal-linux", &["minimal-proto"]),
    ("minimal-store", &["minimal-linux", "minimal-proto"]),
    ("minimal-keeper", &["minimal-linux", "minimal-proto", "minimal-store"]),
    (
        "minimal-daemon",
        &[
            "minimal-keeper",
            "minimal-linux",
            "minimal-proto",
            "minimal-screen",
            "minimal-spec",
            "minimal-store",
        ],
    ),
    ("minimal-sdk", &["minimal-proto"]),
    ("minimal-runner", &["minimal-proto", "minimal-sdk"]),
    (
        "minimal-cli",
        &[
            "minimal-daemon",
            "minimal-keeper",
            "minimal-linux",
            "minimal-proto",
            "minimal-runner",
            "minimal-sdk",
            "minimal-spec",
            "minimal-store",
        ],
    ),
    ("minimal-testkit", &["minimal-proto"]),
    (
        "minimal-e2e",
        &["minimal-proto", "minimal-runner", "minimal-sdk", "minimal-store", "minimal-testkit"],
    ),
    ("xtask", &[]),
];

/// Only for tests: no crate may use it but as a development dependency.
const DEV_ONLY: [&str; 1] = ["minimal-testkit"];

/// What must not be anywhere below a crate, with the reason.
const NEVER_BELOW: &[(&str, &[&str], &str)] = &[
    (
        "minimal-keeper",
        &["tokio", "hyper", "axum", "rustls", "openssl-sys", "tracing"],
        "a keeper is one thread that needs nobody and parses nothing hostile",
    ),
    ("minimal-proto", &["rustix", "tokio"], "the shared words do no I/O"),
    ("minimal-spec", &["rustix", "tokio"], "an expansion reads nothing but its arguments"),
    ("minimal-screen", &["rustix", "tokio"], "a terminal is what was sent to it"),
    ("minimal-store", &["tokio"], "the store is synchronous"),
];

/// What breaks the rules.
pub(crate) fn faults(metadata: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let ours: BTreeMap<&str, &Value> = packages
        .iter()
        .filter(|package| package["source"].is_null())
        .filter_map(|package| Some((package["name"].as_str()?, package)))
        .collect();
    for (name, package) in &ours {
        let Some((_, may_use)) = MAY_USE.iter().find(|(known, _)| known == name) else {
            faults
                .push(format!("{name} is not in the table of crates (xtask/src/check/arrows.rs)"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let dev = dependency["kind"] == "dev";
            if !ours.contains_key(used) || (dev && DEV_ONLY.contains(&used)) {
                continue;
            }
            let for_tests = DEV_ONLY.contains(&used) && *name != "minimal-e2e";
            if for_tests || !may_use.contains(&used) {
                faults.push(format!("{name} must not use {used}"));
            }
        }
    }
    for (name, banned, reason) in NEVER_BELOW {
        let below = below(metadata, name);
        for dependency in banned.iter().filter(|dependency| below.contains(**dependency)) {
            faults.push(format!("{name} depends on {dependency}, directly or not: {reason}"));
        }
    }
    faults
}

/// Names of all packages below one, by normal dependencies.
fn below<'a>(metadata: &'a Value, name: &str) -> BTreeSet<&'a str> {
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let mut found = BTreeSet::new();
    let mut to_visit: Vec<&str> =
        names.iter().filter(|(_, known)| **known == name).map(|(id, _)| *id).collect();
    while let Some(id) = to_visit.pop() {
        for dependency in
            nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten()
        {
            let is_normal = dependency["dep_kinds"]
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()));
            let Some(id) = dependency["pkg"].as_str().filter(|_| is_normal) else { continue };
            if found.insert(id) {
                to_visit.push(id);
            }
        }
    }
    found.into_iter().filter_map(|id| names.get(id).copied()).collect()
}
