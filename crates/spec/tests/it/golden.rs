//! Bytes, digests and origins that must never change by themselves: `tests/golden/spec`.
//!
//! `MIN_UPDATE=1` writes what the code says, to be looked at with `git diff`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use minimal_proto::spec::Builtin;
use minimal_spec::{KEYS, LayerName, Overrides, Project, canonical_bytes, digest};

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/spec")
}

pub(crate) fn compare(file: &Path, text: &str) {
    if std::env::var_os("MIN_UPDATE").is_some() {
        std::fs::write(file, text).unwrap();
    }
    let expected = std::fs::read_to_string(file).unwrap_or_default();
    assert_eq!(expected, text, "{} is not what the code says", file.display());
}

fn read(name: &str) -> Project {
    let text = std::fs::read_to_string(directory().join(name)).unwrap();
    Project::parse("minimal.toml", &text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn vectors(name: &str) -> Project {
    let project = read(&format!("{name}.toml"));
    let mut text = String::new();
    for entry in project.entries() {
        let expanded = project.expand(entry.name.as_str(), &Overrides::default()).unwrap();
        writeln!(text, "== {}", entry.name).unwrap();
        writeln!(text, "{}", digest(&expanded.spec)).unwrap();
        text.push_str(std::str::from_utf8(&canonical_bytes(&expanded.spec)).unwrap());
        text.push('\n');
        for it in expanded.explain() {
            if it.origin.layer == LayerName::Builtin {
                continue;
            }
            let place = it.origin.position().map(|(file, line)| format!(", {file}:{line}"));
            let place = place.unwrap_or_default();
            writeln!(text, "{} = {} ({}{place})", it.path, it.value, it.origin.layer).unwrap();
        }
    }
    compare(&directory().join(format!("{name}.expected")), &text);
    project
}

#[test]
fn each_key() {
    let project = vectors("keys");
    for key in KEYS {
        let name = key.name.replace('_', "-");
        assert!(project.entry(&name).is_some(), "no entry for the key `{}`", key.name);
    }
}

#[test]
fn each_rule_of_merging() {
    vectors("merging");
}

#[test]
fn each_type() {
    let project = vectors("types");
    for builtin in Builtin::ALL {
        assert_eq!(project.entry(builtin.as_str()).unwrap().box_type, builtin.into());
    }
}

#[test]
fn each_constraint() {
    vectors("constraints");
}

#[test]
fn the_example() {
    vectors("example");
}

#[test]
fn a_spec_reads_back_from_its_bytes() {
    let project = read("keys.toml");
    for entry in project.entries() {
        let spec = project.expand(entry.name.as_str(), &Overrides::default()).unwrap().spec;
        let back: minimal_proto::Spec = serde_json::from_slice(&canonical_bytes(&spec)).unwrap();
        assert_eq!(back, spec);
        assert_eq!(digest(&back), digest(&spec));
    }
}
