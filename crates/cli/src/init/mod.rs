//! What `min init` writes: a `minimal.toml` for the project that is there, or one entry more.
//!
//! `kinds` knows what projects look like and how each is checked and tested, `tools` where this host has
//! the programs for it and what a box must be given to run them, `text` writes it down.

mod kinds;
mod text;
mod tools;

use std::path::Path;

use minimal_proto::BoxName;
use minimal_spec::{ExpandError, Overrides, Project};

pub use text::{entry, file};

use crate::env::Env;

/// A task for the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it is called.
    pub name: BoxName,
    /// What it does.
    pub description: String,
    /// Program and arguments.
    pub exec: Vec<String>,
    /// Which of the groups it belongs to.
    group: usize,
}

/// What the tasks of a kind of project have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Group {
    /// The program, after which their type is called if they need one.
    tool: String,
    /// What one should know of it.
    notes: Vec<String>,
    /// Sources below the home or absolute, and their modes.
    mounts: Vec<(String, &'static str)>,
    vars: Vec<(String, String)>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Files that say what kind of project it is.
    pub because: Vec<String>,
    /// In order.
    pub tasks: Vec<Task>,
    groups: Vec<Group>,
    /// The text of an entry that is all there is to be.
    only: Option<String>,
}

impl Plan {
    /// A file with this entry alone.
    #[must_use]
    pub fn only(entry: String) -> Self {
        Self { only: Some(entry), ..Self::default() }
    }
}

/// Looks at a project.
#[must_use]
pub fn look(root: &Path, home: Option<&Path>, env: &Env) -> Plan {
    let mut plan = Plan::default();
    kinds::look(root, &tools::Tools::new(home, env), &mut plan);
    plan
}

/// Whether entries of a file can be expanded: all of them, or one.
///
/// # Errors
/// What is wrong with it.
pub fn check(name: &str, text: &str, only: Option<&BoxName>) -> Result<Project, ExpandError> {
    let project = Project::parse(name, text)?;
    for entry in project.entries().filter(|entry| only.is_none_or(|only| entry.name == *only)) {
        project.expand(entry.name.as_str(), &Overrides::default())?;
    }
    Ok(project)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A home with toolchains, and a project of these files.
    fn world(files: &[(&str, &str)]) -> (tempfile::TempDir, Plan) {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let (cargo, node) = (home.join(".cargo/bin"), home.join(".nvm/versions/node/v22/bin"));
        let project = home.join("p");
        for directory in [&cargo, &node, &project, &home.join(".rustup"), &home.join("go/pkg/mod")]
        {
            std::fs::create_dir_all(directory).unwrap();
        }
        for program in [cargo.join("cargo"), node.join("npm")] {
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        for (name, text) in files {
            std::fs::write(project.join(name), text).unwrap();
        }
        let path = format!("{}:{}:/usr/bin", cargo.display(), node.display());
        let env = Env::from([("PATH", path.as_str())]);
        let plan = look(&project, Some(&home), &env);
        (root, plan)
    }

    #[test]
    fn whatever_is_found_is_a_file_that_is_right() {
        let wild = "{\"scripts\": {\"%{x}\": \"\", \"a\\u007f\\\"b\": \"\", \"--\": \"\", \"test\": \"\", \"pretest\": \"\"}}";
        let files = [
            ("Cargo.toml", ""),
            ("package.json", wild),
            ("pyproject.toml", "pytest"),
            ("go.mod", ""),
            ("Makefile", "test:\n\tx\ncheck: test\nself:\n"),
        ];
        for file in files {
            let (_root, plan) = world(&[file]);
            assert_eq!(plan.because, [file.0]);
            check("f", &super::file(&plan), None).unwrap_or_else(|error| panic!("{error}"));
        }
        let (_root, plan) = world(&files);
        let names: Vec<_> = plan.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "check",
                "test",
                "fmt",
                "x",
                "a--b",
                "npm-test",
                "python3-test",
                "python3-check",
                "build",
                "go-test",
                "vet",
                "make-test",
                "make-check",
                "make-self",
            ]
        );
        check("f", &super::file(&plan), None).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn a_box_is_given_what_the_program_needs_and_no_more() {
        let (_root, plan) = world(&[("Cargo.toml", "")]);
        insta::assert_snapshot!(super::file(&plan));
        let (_root, plan) = world(&[("package.json", "{}")]);
        let text = super::file(&plan);
        assert!(text.contains("{ source = \"~/.nvm\" }"), "{text}");
        assert!(text.contains("PATH = \"/home/box/.nvm/versions/node/v22/bin:"), "{text}");
        let (_root, plan) = world(&[]);
        check("f", &super::file(&plan), None).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn an_entry_of_each_type_is_right() {
        for builtin in minimal_proto::spec::Builtin::ALL {
            let name = "one".parse().unwrap();
            let text = entry(&name, builtin.as_str(), builtin);
            let project = check("f", &text, None).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(project.entry("one").unwrap().box_type, builtin.into());
        }
    }
}
