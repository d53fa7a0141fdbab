//! Files that mean harm: each ends in an error, or is read, without much work.

use minimal_spec::{Fault, MAX_TEXT, Overrides, Project};

/// What a file that is wrong must not come to.
const MOST_TEXT: usize = 200_000;

fn problems(text: &str) -> String {
    let problems = Project::parse("minimal.toml", text).unwrap_err().to_string();
    assert!(problems.len() < MOST_TEXT, "{} bytes of problems", problems.len());
    problems
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let text = "#".repeat(10 << 20);
    assert!(problems(&text).contains("it is longer than 4 MiB"));
    assert!(Project::parse("f", &"#".repeat(MAX_TEXT)).is_ok());
}

#[test]
fn nothing_nests_without_end() {
    for deep in [
        format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("a = {}1{}", "{a=".repeat(100_000), "}".repeat(100_000)),
        format!("{} = 1", vec!["a"; 100_000].join(".")),
        format!("[{}]", vec!["a"; 100_000].join(".")),
    ] {
        problems(&deep);
    }
}

#[test]
fn many_faults_are_cut_off() {
    let keys: String = (0..100_000).map(|n| format!("key{n} = 1\n")).collect();
    assert!(problems(&keys).ends_with("the first 50 are shown"));
    problems(&format!("[tasks.a]\n{keys}"));
    let entries: String = (0..40_000).map(|n| format!("[tasks.t{n}]\nexce = 1\n")).collect();
    problems(&entries);
    problems(&"= = [ \" '\n".repeat(100_000));
    problems(&format!("[tasks.a]\nexec = \"{}\"", "%{".repeat(100_000)));
}

#[test]
fn types_in_a_row_or_a_circle_end() {
    let row: String =
        (1..50_000).map(|n| format!("[box_types.t{n}]\nextends = \"t{}\"\n", n - 1)).collect();
    problems(&format!("{row}[box_types.t0]\nextends = \"task\"\n"));
    problems(&format!("{row}[box_types.t0]\nextends = \"t49999\"\n"));
}

#[test]
fn names_that_look_alike_or_turn_text_around_are_shown_plainly() {
    let text = "[tasks.\"\u{202e}txt\"]\nexec = \"a\"\n[tasks.\"\u{430}\"]\nexec = \"a\"\n\"\\u001b[31m\" = 1\n";
    let problems = Project::parse("minimal.toml", text).unwrap_err();
    assert_eq!(problems.iter().filter(|it| it.fault == Fault::WrongName).count(), 2);
    let shown = problems.to_string();
    assert!(!shown.contains(['\u{202e}', '\u{1b}']), "{shown:?}");
}

#[test]
fn a_large_file_is_read() {
    let text: String = (0..10_000).map(|n| format!("[tasks.t{n}]\nexec = [\"a\"]\n")).collect();
    let project = Project::parse("f", &text).unwrap();
    assert_eq!(project.entries().count(), 10_001);
    project.expand("t9999", &Overrides::default()).unwrap();
}
