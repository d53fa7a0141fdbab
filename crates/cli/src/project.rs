//! The project a command is in.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use minimal_proto::ErrorCode;
use minimal_proto::api::FileId;

use crate::error::Failure;
use crate::project_file;

/// Where the caller is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    /// The root: where `minimal.toml` is, else that of a version-controlled tree, else the working
    /// directory.
    pub root: PathBuf,
    /// The working directory, below the root or the root itself.
    pub directory: PathBuf,
}

/// What marks the root of a version-controlled tree.
const MARKS: [&str; 3] = [".git", ".hg", ".jj"];

/// How long home and state directory may take to say what they are.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// What is no project though somebody may stand in it. Below them are projects: /usr/src, /var/www.
const SYSTEM: [&str; 15] = [
    "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/root",
    "/run", "/sbin", "/srv", "/usr", "/var",
];

/// And below these there are none: what is there is the host's to read, its keys among it.
const SETTINGS: [&str; 2] = ["/boot", "/etc"];

/// Where there are no files but what the kernel makes up.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Except here.
const MEMORY: &str = "/dev/shm";

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
        if let Some((root, _)) = project_file::find(directory, home) {
            return Self { root, directory: directory.to_owned() };
        }
        let root = directory
            .ancestors()
            .take_while(|candidate| !home.is_some_and(|home| home.starts_with(candidate)))
            .find(|candidate| MARKS.iter().any(|mark| candidate.join(mark).exists()))
            .unwrap_or(directory);
        Self { root: root.to_owned(), directory: directory.to_owned() }
    }

    /// Which directory the root is; none if it cannot be looked at.
    #[must_use]
    pub fn file(&self) -> Option<FileId> {
        let metadata = std::fs::metadata(&self.root).ok()?;
        Some(FileId { device: metadata.dev(), inode: metadata.ino() })
    }

    /// The working directory as seen from the root; none at the root.
    #[must_use]
    pub fn below_root(&self) -> Option<&Path> {
        let below = self.directory.strip_prefix(&self.root).ok()?;
        (!below.as_os_str().is_empty()).then_some(below)
    }

    /// Why the root is not given to a box: too much would come with it, or our own state. None if it
    /// can be.
    #[must_use]
    pub fn why_not_given(&self, home: Option<&Path>, state_dir: &Path) -> Option<&'static str> {
        let root = &self.root;
        let [home, state_dir] = real([home.map(Path::to_owned), Some(state_dir.to_owned())]);
        let shown_by_the_kernel = |path: &&str| root.starts_with(path) && !root.starts_with(MEMORY);
        if root.parent().is_none() {
            Some("it is the host's whole file system")
        } else if home.as_ref().is_some_and(|home| home == root) {
            Some("it is your home directory")
        } else if home.is_some_and(|home| home.starts_with(root)) {
            Some("your home directory is in it")
        } else if state_dir.as_ref().is_some_and(|state_dir| state_dir.starts_with(root)) {
            Some("the state of every box is in it")
        } else if state_dir.is_some_and(|state_dir| root.starts_with(state_dir)) {
            Some("it is in the state directory")
        } else if root.ancestors().any(is_state_dir) {
            Some("the state of boxes is kept there")
        } else if SYSTEM.iter().any(|path| root == Path::new(path))
            || SETTINGS.iter().any(|path| root.starts_with(path))
        {
            Some("it is a directory of the host's system")
        } else if is_somebodys_home(root) {
            Some("it is somebody's home directory")
        } else if KERNEL.iter().any(shown_by_the_kernel) {
            Some("it is the kernel's and holds no files")
        } else {
            None
        }
    }

    /// Refuses a root that must not be given to a box.
    ///
    /// # Errors
    /// `refused`, with the reason.
    pub fn check_given(&self, home: Option<&Path>, state_dir: &Path) -> Result<(), Failure> {
        let Some(why) = self.why_not_given(home, state_dir) else { return Ok(()) };
        let message = format!("`{}` cannot be given to a box: {why}", self.root.display());
        Err(Failure::new(ErrorCode::Refused, message)
            .hint("change to the directory of a project, or name one with -C"))
    }
}

/// Whether a directory holds the state of boxes, this user's or another's: what every daemon makes
/// there.
fn is_state_dir(path: &Path) -> bool {
    ["boxes", "reaping"].iter().all(|name| path.join(name).is_dir())
        && ["format", "lock"].iter().all(|name| path.join(name).is_file())
}

/// Whether the list of users says that a person lives there (passwd(5)); 1000 is the first of them
/// (login.defs(5), UID_MIN).
fn is_somebodys_home(path: &Path) -> bool {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    users.lines().any(|line| {
        let mut fields = line.split(':').skip(2);
        let uid = fields.next().and_then(|uid| uid.parse::<u32>().ok());
        uid.is_some_and(|uid| (1000..65_534).contains(&uid))
            && fields.nth(2).is_some_and(|home| Path::new(home) == path)
    })
}

/// Paths as the kernel sees them, to be compared. One that is not there yet is not inside anything
/// by another name than its own, and one on a mount that does not answer is told of by whoever has
/// to use it.
fn real(paths: [Option<PathBuf>; 2]) -> [Option<PathBuf>; 2] {
    let (told, hears) = mpsc::channel();
    let asked = paths.clone();
    // Of its own, since nothing can be done about one that waits for ever but to leave it behind.
    std::thread::spawn(move || {
        let real = |path: PathBuf| std::fs::canonicalize(&path).unwrap_or(path);
        // Who gave up does not hear it.
        told.send(asked.map(|path| path.map(real))).ok();
    });
    hears.recv_timeout(LOOK_LIMIT).unwrap_or(paths)
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
    fn what_must_not_be_given_says_why() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (home, state) = (root.join("home"), root.join("home/.local/state/minimal"));
        let inside = state.join("boxes/x");
        let project = home.join("p");
        for directory in [&inside, &project] {
            std::fs::create_dir_all(directory).unwrap();
        }
        let check =
            |directory: &Path| Project::of(directory, Some(&home)).check_given(Some(&home), &state);
        for (directory, why) in [
            (Path::new("/"), "whole file system"),
            (&home, "your home"),
            (&root, "home directory is in it"),
            (&home.join(".local"), "state of every box"),
            (&inside, "in the state directory"),
            (Path::new("/etc"), "host's system"),
            (Path::new("/proc/self"), "kernel's"),
            (Path::new("/dev"), "kernel's"),
        ] {
            let failure = check(directory).unwrap_err();
            assert_eq!(failure.code, ErrorCode::Refused);
            assert!(failure.message.contains(why), "{}", failure.message);
        }
        for directory in [project.as_path(), Path::new("/usr/src/linux"), Path::new("/dev/shm/p")] {
            assert_eq!(check(directory), Ok(()));
        }
    }
}
