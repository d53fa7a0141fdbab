//! Where this host has a program, and what a box must be given to run it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use minimal_keeper::plan::{HOME, PATH};

use super::Group;
use crate::env::Env;
use crate::home_program;

/// What a box sees of the host without being given it.
const SHOWN: [&str; 2] = ["/usr", "/opt"];

/// The caller's programs.
pub(super) struct Tools {
    home: Option<PathBuf>,
    path: Vec<PathBuf>,
}

impl Tools {
    pub(super) fn new(home: Option<&Path>, env: &Env) -> Self {
        let path = env.get("PATH").map(|path| std::env::split_paths(path).collect());
        // A home that is the root would make everything part of it.
        let home = home.filter(|home| home.parent().is_some()).map(Path::to_owned);
        Self { home, path: path.unwrap_or_default() }
    }

    /// Whether there is something below the home.
    pub(super) fn has_at_home(&self, below: &str) -> bool {
        self.home.as_ref().is_some_and(|home| home.join(below).exists())
    }

    /// What tasks need that run a program.
    pub(super) fn group(&self, program: &str) -> Group {
        let mut group = Group { tool: program.to_owned(), ..Group::default() };
        let is_executable = |directory: &&PathBuf| {
            // What is there only looks for the program elsewhere, by settings that a box does not have.
            if directory.ends_with("shims") {
                return false;
            }
            let found = std::fs::metadata(directory.join(program));
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let Some(directory) = self.path.iter().find(is_executable) else {
            group.notes.push(format!(
                "No {program} was found on this machine: a box has the host's /usr and /opt, and what `mounts` names."
            ));
            return group;
        };
        if std::env::split_paths(PATH).any(|known| known == *directory) {
            return group;
        }
        let below = self.home.as_ref().and_then(|home| directory.strip_prefix(home).ok());
        let place = match below {
            Some(below) => {
                // Of ~/.cargo not all: the credentials of registries are in it too.
                let source = match below.starts_with(".cargo") {
                    true => below.to_owned(),
                    false => home_program::whole(below),
                };
                group.mounts.push((format!("~/{}", source.display()), "ro"));
                Path::new(HOME).join(below)
            }
            None => {
                if !SHOWN.iter().any(|shown| directory.starts_with(shown)) {
                    let whole = directory.parent().filter(|it| it.parent().is_some());
                    let source = whole.unwrap_or(directory).display().to_string();
                    group.mounts.push((source, "ro"));
                }
                directory.clone()
            }
        };
        group.vars.push(("PATH".to_owned(), format!("{}:{PATH}", place.display())));
        group
    }
}
