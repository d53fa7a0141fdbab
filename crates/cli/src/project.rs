//! The project a command is in.

use std::path::{Path, PathBuf};

use minimal_proto::ErrorCode;

use crate::error::Failure;

/// Where the caller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The root: of a version-controlled tree, else the working directory.
    pub root: PathBuf,
    /// The working directory, below the root or the root itself.
    pub directory: PathBuf,
}

/// What marks the root of a version-controlled tree.
const MARKS: [&str; 3] = [".git", ".hg", ".jj"];

impl Project {
    /// The project of the working directory; none if that directory is gone.
    #[must_use]
    pub fn find(home: Option<&Path>) -> Option<Self> {
        // What the kernel says, without symbolic links, so that one project has one name.
        let directory = std::env::current_dir().ok()?;
        Some(Self::of(&directory, home))
    }

    /// The project of a directory. A home that is itself under version control is not the project
    /// of everything in it.
    #[must_use]
    pub fn of(directory: &Path, home: Option<&Path>) -> Self {
        let root = directory
            .ancestors()
            .take_while(|candidate| !home.is_some_and(|home| home.starts_with(candidate)))
            .find(|candidate| MARKS.iter().any(|mark| candidate.join(mark).exists()))
            .unwrap_or(directory);
        Self { root: root.to_owned(), directory: directory.to_owned() }
    }

    /// The working directory as seen from the root; none at the root.
    #[must_use]
    pub fn below_root(&self) -> Option<&Path> {
        let below = self.directory.strip_prefix(&self.root).ok()?;
        (!below.as_os_str().is_empty()).then_some(below)
    }

    /// Refuses a root that must not be handed to a box to write to.
    ///
    /// # Errors
    /// `refused`, with the reason.
    pub fn check_bind(&self, home: Option<&Path>, state_dir: &Path) -> Result<(), Failure> {
        let root = &self.root;
        // Paths are compared as the kernel sees them; a state directory that is not there yet is
        // not inside anything by another name than its own.
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let why = if root.parent().is_none() {
            "it is the host's whole file system"
        } else if home.is_some_and(|home| real(home) == *root) {
            "it is your home directory"
        } else if home.is_some_and(|home| real(home).starts_with(root)) {
            "your home directory is in it"
        } else if real(state_dir).starts_with(root) {
            "the state of every box is in it"
        } else if root.starts_with(real(state_dir)) {
            "it is in the state directory"
        } else {
            return Ok(());
        };
        let message = format!("`{}` cannot be given to a box: {why}", root.display());
        Err(Failure::new(ErrorCode::Refused, message)
            .hint("change to the directory of a project, or name one with -C"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mark_below_the_home_decides() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let deep = home.join("p/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let of = |directory: &Path| Project::of(directory, Some(&home)).root;
        assert_eq!(of(&deep), deep, "no mark");
        std::fs::create_dir(home.join(".git")).unwrap();
        assert_eq!(of(&deep), deep, "the home's own mark is not taken");
        assert_eq!(of(&home), home);
        // A worktree has a file in place of the directory.
        std::fs::write(home.join("p/.git"), "gitdir: x").unwrap();
        assert_eq!(of(&deep), home.join("p"));
        assert_eq!(Project::of(&deep, Some(&home)).below_root(), Some(Path::new("a/b")));
        assert_eq!(Project::of(&home.join("p"), Some(&home)).below_root(), None);
        std::fs::create_dir(home.join("p/a/.jj")).unwrap();
        assert_eq!(of(&deep), home.join("p/a"));
    }

    #[test]
    fn what_must_not_be_bound_says_why() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (home, state) = (root.join("home"), root.join("home/.local/state/minimal"));
        let inside = state.join("boxes/x");
        let project = home.join("p");
        for directory in [&inside, &project] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let check =
            |directory: &Path| Project::of(directory, Some(&home)).check_bind(Some(&home), &state);
        for (directory, why) in [
            (Path::new("/"), "whole file system"),
            (&home, "your home"),
            (&root, "home directory is in it"),
            (&home.join(".local"), "state of every box"),
            (&inside, "in the state directory"),
        ] {
            let failure = check(directory).unwrap_err();
            assert_eq!(failure.code, ErrorCode::Refused);
            assert!(failure.message.contains(why), "{}", failure.message);
        }
        assert_eq!(check(&project), Ok(()));
    }
}
