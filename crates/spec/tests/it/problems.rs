//! Every kind of fault has a file that has it, and the words in which it is told.

use std::collections::BTreeSet;

use minimal_spec::{ExpandError, Fault, Overrides, Project};

use crate::golden::{compare, directory};

const FAULTS: &[Fault] = &[
    Fault::Syntax,
    Fault::UnknownKey,
    Fault::WrongKind,
    Fault::WrongValue,
    Fault::MissingKey,
    Fault::Conflict,
    Fault::WrongName,
    Fault::Taken,
    Fault::Unknown,
    Fault::Cycle,
    Fault::Widens,
    Fault::Constraint,
    Fault::Placeholder,
    Fault::Spec,
];

#[test]
fn each_is_told_in_words_that_are_kept() {
    let directory = directory().join("problems");
    let mut files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut seen = BTreeSet::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|it| it == "toml")) {
        let text = std::fs::read_to_string(file).unwrap();
        let mut told = Vec::new();
        match Project::parse("minimal.toml", &text) {
            Err(problems) => {
                seen.extend(problems.iter().map(|problem| problem.fault));
                told.push(problems.to_string());
            }
            Ok(project) => {
                for entry in project.entries() {
                    match project.expand(entry.name.as_str(), &Overrides::default()) {
                        Err(ExpandError::Problems(problems)) => {
                            seen.extend(problems.iter().map(|problem| problem.fault));
                            told.push(problems.to_string());
                        }
                        // The session that is always there.
                        Ok(_) => assert_eq!(entry.name.as_str(), "default"),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        assert!(!told.is_empty(), "{} has no fault", file.display());
        compare(&file.with_extension("expected"), &format!("{}\n", told.join("\n")));
    }
    // The one that is too long for a file of its own is in `bounds`.
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), FAULTS);
}
