//! Tests of the command line as a whole.

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};

use crate::args::{Cli, Command};

#[test]
fn the_model_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn a_commands_own_options_stay_its_own() {
    let cli =
        Cli::try_parse_from(["min", "run", "-q", "--", "ls", "-la", "--", "-o", "json"]).unwrap();
    let Command::Run(args) = cli.command else { panic!("it is a run") };
    assert_eq!(args.argv, ["ls", "-la", "--", "-o", "json"]);
    assert!(args.words.is_empty());
    assert!(cli.global.quiet);
}

/// What is told to be run can be run: every `min …` in a message of any crate is parsed.
#[test]
fn no_hint_names_a_command_that_does_not_exist() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut checked = 0;
    for krate in std::fs::read_dir(crates).unwrap() {
        let source = krate.unwrap().path().join("src");
        for_each_source(&source, &mut |path, text| {
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                for hint in hints(line) {
                    let words = words(hint);
                    match Cli::try_parse_from(&words) {
                        Ok(_) => {}
                        // A command that is only named is there, too.
                        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {}
                        Err(error) => panic!("{}: `{hint}`: {error}", path.display()),
                    }
                    checked += 1;
                }
            }
        });
    }
    assert!(checked > 10, "{checked} hints were found");
    assert!(Cli::try_parse_from(words("min box rm x")).is_ok(), "the line about a kept box");
}

fn for_each_source(directory: &std::path::Path, each: &mut impl FnMut(&std::path::Path, &str)) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_tests = path.file_name().is_some_and(|name| name == "tests.rs" || name == "tests");
        if path.is_dir() && !is_tests {
            for_each_source(&path, each);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tests {
            each(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}

fn hints(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("min "))
}

/// Places to fill in become a word.
fn words(hint: &str) -> Vec<String> {
    hint.split_whitespace()
        .map(|word| if word.contains(['{', '<', '…']) { "x".to_owned() } else { word.to_owned() })
        .collect()
}
