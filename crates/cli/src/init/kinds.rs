//! Kinds of projects, by the files that each has.

use std::collections::BTreeSet;
use std::path::Path;

use minimal_proto::BoxName;

use super::tools::Tools;
use super::{Group, Plan, Task};

/// How much of a project's own file is read, in bytes: more than any written by hand.
const MOST: u64 = 1 << 20;
/// The most tasks that one kind gives.
const MOST_TASKS: usize = 12;

/// Looks for every kind, in this order.
pub(super) fn look(root: &Path, tools: &Tools, plan: &mut Plan) {
    for kind in [cargo, npm, python, go, make] {
        kind(root, tools, plan);
    }
}

impl Plan {
    fn add(&mut self, because: &str, group: Group, tasks: Vec<(String, String, Vec<String>)>) {
        let index = self.groups.len();
        let mut names: BTreeSet<_> = self.tasks.iter().map(|task| task.name.clone()).collect();
        let before = self.tasks.len();
        for (name, description, exec) in tasks.into_iter().take(MOST_TASKS) {
            // Two kinds of one project may both have a `test`.
            let free = [name.clone(), format!("{}-{name}", group.tool)].into_iter();
            let name = free
                .filter_map(|name| name.parse::<BoxName>().ok())
                .find(|name| !names.contains(name));
            if let Some(name) = name {
                names.insert(name.clone());
                self.tasks.push(Task { name, description, exec, group: index });
            }
        }
        if self.tasks.len() > before {
            self.because.push(because.to_owned());
            self.groups.push(group);
        }
    }
}

fn task(name: &str, description: &str, exec: &[&str]) -> (String, String, Vec<String>) {
    (name.to_owned(), description.to_owned(), exec.iter().map(|&word| word.to_owned()).collect())
}

/// The text of a file of the project, as far as it is one.
fn read(root: &Path, name: &str) -> Option<String> {
    use std::io::Read as _;
    let path = root.join(name);
    // One that nobody writes to would be waited for.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn cargo(root: &Path, tools: &Tools, plan: &mut Plan) {
    if read(root, "Cargo.toml").is_none() {
        return;
    }
    let mut group = tools.group("cargo");
    group.notes.push(
        "A box has no network: `cargo fetch` downloads what it builds from, and what it builds stays in it."
            .to_owned(),
    );
    for source in [".cargo/registry", ".cargo/git", ".rustup"] {
        if tools.has_at_home(source) {
            group.mounts.push((format!("~/{source}"), "ro"));
        }
    }
    for (name, value) in [("CARGO_NET_OFFLINE", "true"), ("CARGO_TARGET_DIR", "/home/box/target")] {
        group.vars.push((name.to_owned(), value.to_owned()));
    }
    let tasks = vec![
        task("check", "see whether it compiles", &["cargo", "check", "--all-targets"]),
        task("test", "run the tests", &["cargo", "test"]),
        task("fmt", "see whether it is formatted", &["cargo", "fmt", "--check"]),
    ];
    plan.add("Cargo.toml", group, tasks);
}

fn npm(root: &Path, tools: &Tools, plan: &mut Plan) {
    let Some(text) = read(root, "package.json") else { return };
    let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let scripts = json["scripts"].as_object().into_iter().flatten();
    // What runs before and after another script runs with that one.
    let is_own = |name: &str| !name.starts_with("pre") && !name.starts_with("post");
    let mut tasks: Vec<_> = scripts
        .map(|(name, _)| name)
        .filter(|name| is_own(name))
        .map(|name| {
            let exec = vec!["npm".to_owned(), "run".to_owned(), name.clone()];
            (as_name(name), format!("npm run {name}"), exec)
        })
        .collect();
    if tasks.is_empty() {
        tasks.push(task("node", "the version of node", &["node", "--version"]));
    }
    let mut group = tools.group("npm");
    group.notes.push("A box has no network: install what it needs on the host.".to_owned());
    plan.add("package.json", group, tasks);
}

fn python(root: &Path, tools: &Tools, plan: &mut Plan) {
    let marks = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt"];
    let Some(mark) = marks.into_iter().find(|name| root.join(name).is_file()) else { return };
    let own = root.join(".venv/bin/python").exists();
    let python = if own { ".venv/bin/python" } else { "python3" };
    let group = if own {
        Group { tool: "python".to_owned(), ..Group::default() }
    } else {
        tools.group("python3")
    };
    let says = |name: &str| read(root, name).is_some_and(|text| text.contains("pytest"));
    let has_pytest = marks.into_iter().any(says)
        || ["pytest.ini", "conftest.py", "tests/conftest.py"]
            .iter()
            .any(|it| root.join(it).exists());
    let test = match has_pytest {
        true => task("test", "run the tests", &[python, "-m", "pytest"]),
        false => task("test", "run the tests", &[python, "-m", "unittest", "discover"]),
    };
    let check = task("check", "see whether it compiles", &[python, "-m", "compileall", "-q", "."]);
    plan.add(mark, group, vec![test, check]);
}

fn go(root: &Path, tools: &Tools, plan: &mut Plan) {
    if read(root, "go.mod").is_none() {
        return;
    }
    let mut group = tools.group("go");
    group
        .notes
        .push("A box has no network: `go mod download` fetches what it builds from.".to_owned());
    if tools.has_at_home("go/pkg/mod") {
        // It keeps locks beside what it has downloaded.
        group.mounts.push(("~/go/pkg/mod".to_owned(), "overlay"));
    }
    for (name, value) in
        [("GOTOOLCHAIN", "local"), ("GOFLAGS", "-mod=readonly"), ("GOPROXY", "off")]
    {
        group.vars.push((name.to_owned(), value.to_owned()));
    }
    let tasks = vec![
        task("build", "build everything", &["go", "build", "./..."]),
        task("test", "run the tests", &["go", "test", "./..."]),
        task("vet", "look for mistakes", &["go", "vet", "./..."]),
    ];
    plan.add("go.mod", group, tasks);
}

fn make(root: &Path, tools: &Tools, plan: &mut Plan) {
    let names = ["GNUmakefile", "makefile", "Makefile"];
    let found = names.into_iter().find_map(|name| Some((name, read(root, name)?)));
    let Some((name, text)) = found else { return };
    let mut seen = BTreeSet::new();
    let mut tasks = Vec::new();
    for target in text.lines().filter_map(target).filter(|target| seen.insert(*target)) {
        tasks.push(task(&as_name(target), &format!("make {target}"), &["make", target]));
    }
    plan.add(name, tools.group("make"), tasks);
}

/// The target that a line of a makefile begins a rule for, if it is a plain word.
fn target(line: &str) -> Option<&str> {
    let (target, rest) = line.split_once(':')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // `a := b` sets a variable.
    let fits = !target.is_empty() && target.chars().all(is_plain) && !rest.starts_with([':', '=']);
    fits.then_some(target)
}

/// A word as a name of a box: a DNS label.
fn as_name(word: &str) -> String {
    let label: String = word
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(63)
        .collect();
    label.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_plain_words_that_rules_begin_with() {
        for (line, expected) in [
            ("test: build", Some("test")),
            ("a-b_c:", Some("a-b_c")),
            ("x := 1", None),
            ("x ::= 1", None),
            ("\tcommand: x", None),
            (".PHONY: test", None),
            ("%.o: %.c", None),
            ("$(A): b", None),
            ("a::", None),
        ] {
            assert_eq!(target(line), expected, "{line}");
        }
        assert_eq!(as_name("Test:Unit_1"), "test-unit-1");
    }
}
