//! The repository of a project that is a worktree or a submodule, and lies outside of it.
//!
//! A file `.git` in place of the directory says where it is (gitrepository-layout(5)). That file is
//! the project's, and a project must not name just anything of the host's to be shown to a box: the
//! repository has to name the project as well.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The longest file of git's that is read here: a path, or the configuration of one repository.
const MAX: u64 = 64 << 10;

/// Where a project's repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repository {
    /// In the project, or there is none.
    Inside,
    /// Outside: directories without symbolic links on the way to them.
    Outside {
        /// The whole of it.
        directory: PathBuf,
        /// The project's own part of it.
        git_dir: PathBuf,
    },
    /// The project names one that cannot be shown: where, and why not.
    Unknown(PathBuf, &'static str),
}

/// Finds it.
#[must_use]
pub fn find(project: &Path) -> Repository {
    let mark = project.join(".git");
    let kind = fs::symlink_metadata(&mark).map(|metadata| metadata.file_type());
    if kind.as_ref().is_ok_and(fs::FileType::is_symlink) {
        return match mark.canonicalize() {
            Ok(real) if !real.starts_with(project) => {
                Repository::Unknown(real, "`.git` is a symbolic link that leads out of the project")
            }
            // It comes with the project; or it leads nowhere, on the host as in a box.
            Ok(_) | Err(_) => Repository::Inside,
        };
    }
    let is_file = kind.is_ok_and(|kind| kind.is_file());
    let Some(named) = read(&mark).ok().filter(|_| is_file) else { return Repository::Inside };
    let Some(named) = named.strip_prefix(b"gitdir: ") else { return Repository::Inside };
    let named = project.join(path(named));
    let unknown = |why| Repository::Unknown(named.clone(), why);
    let Ok(own) = named.canonicalize() else { return unknown("it is not there") };
    if own.starts_with(project) {
        return Repository::Inside;
    }
    // A worktree's directory says what it shares with others, and where the worktree is.
    if let Ok(common) = read(&own.join("commondir")) {
        let Ok(common) = own.join(path(&common)).canonicalize() else {
            return unknown("it belongs to a repository that is not there");
        };
        let back = read(&own.join("gitdir")).map(|back| own.join(path(&back)).canonicalize());
        return match back {
            Ok(Ok(back)) if back == mark && own.parent() == Some(&common.join("worktrees")) => {
                if common.starts_with(project) {
                    Repository::Inside
                } else {
                    outside(common, own)
                }
            }
            _ => unknown("it does not name the project as one of its worktrees"),
        };
    }
    // A submodule's directory says so in its configuration.
    let config = read(&own.join("config")).unwrap_or_default();
    match worktree(&config).map(|back| own.join(back).canonicalize()) {
        Some(Ok(back)) if back == project => outside(own.clone(), own),
        _ => unknown("it does not name the project as its worktree"),
    }
}

/// If it is one at all.
fn outside(directory: PathBuf, git_dir: PathBuf) -> Repository {
    if directory.join("HEAD").is_file() && directory.join("objects").is_dir() {
        Repository::Outside { directory, git_dir }
    } else {
        Repository::Unknown(directory, "it is no repository")
    }
}

/// The value of `core.worktree`, as git writes it.
fn worktree(config: &[u8]) -> Option<PathBuf> {
    let mut in_core = false;
    for line in config.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if line.starts_with(b"[") {
            in_core = line.eq_ignore_ascii_case(b"[core]");
        }
        let Some(value) = line.strip_prefix(b"worktree").filter(|_| in_core) else { continue };
        let Some(value) = value.trim_ascii_start().strip_prefix(b"=") else { continue };
        return Some(unquote(value.trim_ascii()));
    }
    None
}

/// Quotes and backslashes of git-config(1).
fn unquote(value: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = value.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => {}
            b'\\' => bytes.extend(rest.next().map(|escaped| match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                other => *other,
            })),
            other => bytes.push(*other),
        }
    }
    PathBuf::from(OsStr::from_bytes(&bytes))
}

fn path(line: &[u8]) -> PathBuf {
    // A path may hold newlines; one at the end is the file's.
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    PathBuf::from(OsStr::from_bytes(line))
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    // A named pipe in its place must not be waited for.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::File::options().read(true).custom_flags(nonblocking).open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    file.take(MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        _root: tempfile::TempDir,
        path: PathBuf,
    }

    impl World {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().canonicalize().unwrap();
            Self { _root: root, path }
        }

        fn write(&self, file: &str, text: &str) {
            let file = self.path.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        fn at(&self, path: &str) -> PathBuf {
            self.path.join(path)
        }

        fn find(&self) -> Repository {
            find(&self.at("project"))
        }
    }

    #[test]
    fn a_worktree_brings_what_it_shares_if_that_knows_it() {
        let world = World::new();
        let git = world.at("main/.git");
        world.write("main/.git/HEAD", "ref: refs/heads/main\n");
        fs::create_dir_all(git.join("objects")).unwrap();
        world.write("main/.git/worktrees/w/commondir", "../..\n");
        world.write("project/.git", &format!("gitdir: {}/worktrees/w\n", git.display()));
        world.write("main/.git/worktrees/w/gitdir", "/elsewhere/.git\n");
        let named = git.join("worktrees/w");
        let why = "it does not name the project as one of its worktrees";
        assert_eq!(world.find(), Repository::Unknown(named.clone(), why));
        let back = format!("{}\n", world.at("project/.git").display());
        world.write("main/.git/worktrees/w/gitdir", &back);
        assert_eq!(world.find(), Repository::Outside { directory: git, git_dir: named });
    }

    #[test]
    fn a_submodule_brings_its_own_if_that_knows_it() {
        let world = World::new();
        world.write("project/.git", "gitdir: ../.git/modules/project\n");
        assert!(matches!(world.find(), Repository::Unknown(_, "it is not there")));
        world.write(".git/modules/project/HEAD", "x");
        fs::create_dir_all(world.at(".git/modules/project/objects")).unwrap();
        world.write(".git/modules/project/config", "[core]\n\tbare = false\n");
        assert!(matches!(world.find(), Repository::Unknown(..)));
        world.write(".git/modules/project/config", "[core]\n\tworktree = ../../../other\n");
        assert!(matches!(world.find(), Repository::Unknown(..)));
        world.write(".git/modules/project/config", "[core]\n\tworktree = ../../../project\n");
        let own = world.at(".git/modules/project");
        let expected = Repository::Outside { directory: own.clone(), git_dir: own };
        assert_eq!(world.find(), expected);
        // What knows the project and is no repository is not shown.
        fs::remove_dir_all(world.at(".git/modules/project/objects")).unwrap();
        assert!(matches!(world.find(), Repository::Unknown(_, "it is no repository")));
    }

    #[test]
    fn what_names_nothing_outside_brings_nothing() {
        let world = World::new();
        fs::create_dir_all(world.at("project/.git/objects")).unwrap();
        assert_eq!(world.find(), Repository::Inside);
        fs::remove_dir_all(world.at("project/.git")).unwrap();
        assert_eq!(world.find(), Repository::Inside);
        world.write("project/real/HEAD", "x");
        for text in ["", "gitdir:", "nothing", "gitdir: real\n"] {
            world.write("project/.git", text);
            assert_eq!(world.find(), Repository::Inside, "{text}");
        }
    }

    #[test]
    fn a_link_that_leads_out_of_the_project_is_told() {
        let world = World::new();
        fs::create_dir_all(world.at("project/inside")).unwrap();
        fs::create_dir_all(world.at("outside")).unwrap();
        for (target, outside) in [("inside", false), ("nowhere", false), ("../outside", true)] {
            std::os::unix::fs::symlink(target, world.at("project/.git")).unwrap();
            match (world.find(), outside) {
                (Repository::Inside, false) => {}
                (Repository::Unknown(path, _), true) => assert_eq!(path, world.at("outside")),
                other => panic!("{target}: {other:?}"),
            }
            fs::remove_file(world.at("project/.git")).unwrap();
        }
    }

    #[test]
    fn configuration_is_read_as_git_writes_it() {
        let of = |text: &str| worktree(text.as_bytes());
        assert_eq!(of("[core]\n worktree = ../a b\n"), Some("../a b".into()));
        assert_eq!(of("[core]\nworktree=\"a\\\"b\\\\c\"\n"), Some("a\"b\\c".into()));
        assert_eq!(of("[other]\n worktree = x\n"), None);
        assert_eq!(of("[core]\n worktreeish = x\n"), None);
    }
}
