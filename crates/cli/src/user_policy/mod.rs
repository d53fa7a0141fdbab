//! The user policy: what a project's file may take from the host, as its user has decided.
//!
//! Of several lines about one thing `deny` wins over `ignore`, and `ignore` over `allow`. What no line
//! is about is refused, with the lines that would allow it. What a person asks for on the command line
//! is not judged.

mod remember;
mod resolve;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use minimal_proto::ErrorCode;
use minimal_proto::pattern::matches;
use serde::Deserialize;

use crate::context::Context;
use crate::error::Failure;
use crate::project_file;

/// The file, in the directory of settings.
const FILE: &str = "minimal/user_policy.toml";

/// What the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Lines {
    /// Files and directories, with all that is below them. In a part of a path `*` stands for any
    /// characters, and `?` for one.
    paths: PathLines,
    /// Variables, by name, with `*` and `?`.
    vars: VariableLines,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PathLines {
    /// May be read.
    allow: Vec<String>,
    /// May be read and changed.
    allow_write: Vec<String>,
    deny: Vec<String>,
    ignore: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct VariableLines {
    allow: Vec<String>,
    deny: Vec<String>,
    ignore: Vec<String>,
}

/// What is done with something, from the most to the least lenient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is given.
    Allowed,
    /// No line is about it.
    Unlisted,
    /// The box goes without it.
    Ignored,
    /// There is no box.
    Denied,
}

/// The policy of whoever runs the command.
#[derive(Clone, Debug, Default)]
pub struct UserPolicy {
    /// Where it is; none without a home.
    file: Option<PathBuf>,
    /// As they may be written: `~` is each of them.
    homes: Vec<PathBuf>,
    lines: Lines,
    /// What its lines deny and ignore, with what that leads to.
    denied: Vec<PathBuf>,
    ignored: Vec<PathBuf>,
}

/// An answer for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It may be taken.
    Always,
    /// It may not.
    Never,
}

/// What an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thing {
    /// Files, to be read.
    Read,
    /// Files, to be changed.
    Write,
    /// A variable.
    Variable,
}

impl UserPolicy {
    /// Reads it; without a file nothing is listed.
    ///
    /// # Errors
    /// `invalid_config`: it cannot be read, others can write it, or it is wrong.
    pub fn load(context: &Context) -> Result<Self, Failure> {
        let home = context.home();
        let file = context.settings_dir().map(|settings| settings.join(FILE));
        let mut homes: Vec<PathBuf> = home.iter().cloned().collect();
        homes.extend(home.as_deref().and_then(|home| home.canonicalize().ok()));
        homes.dedup();
        let lines = match &file {
            Some(file) if file.symlink_metadata().is_ok() => read(file)?,
            Some(_) | None => Lines::default(),
        };
        Self { file, homes, lines, ..Self::default() }.resolved().map_err(|(line, error)| {
            let message = format!("find what the policy's line `{}` leads to", line.display());
            Failure::new(ErrorCode::InvalidConfig, message).because(&error)
        })
    }

    /// With what its strict lines lead to.
    fn resolved(mut self) -> Result<Self, (PathBuf, std::io::Error)> {
        let expand = |lines: &[String]| lines.iter().flat_map(|it| self.expand(it)).collect();
        let (denied, ignored) = (expand(&self.lines.paths.deny), expand(&self.lines.paths.ignore));
        self.denied = resolve::resolve(denied)?;
        self.ignored = resolve::resolve(ignored)?;
        Ok(self)
    }

    /// Writes an answer down. Returns where the file as it was is kept, if there was one.
    ///
    /// # Errors
    /// `output_failed`: it cannot be written.
    pub fn remember(
        &self,
        answer: Answer,
        thing: Thing,
        lines: &[String],
    ) -> Result<Option<PathBuf>, Failure> {
        let list = match (thing, answer) {
            (Thing::Read, Answer::Always) => ("paths", "allow"),
            (Thing::Write, Answer::Always) => ("paths", "allow_write"),
            (Thing::Read | Thing::Write, Answer::Never) => ("paths", "deny"),
            (Thing::Variable, Answer::Always) => ("vars", "allow"),
            (Thing::Variable, Answer::Never) => ("vars", "deny"),
        };
        let failed = |error: std::io::Error| {
            let message = format!("write your answer to {}", self.place());
            Failure::new(ErrorCode::OutputFailed, message).because(&error)
        };
        let none = || std::io::Error::other("you have no home: HOME is not set");
        let file = self.file.as_deref().ok_or_else(none).map_err(failed)?;
        remember::add(file, list, lines).map_err(failed)
    }

    /// The lines by which it would be about what leads to a file and what that leads to, as far as none
    /// is yet.
    #[must_use]
    pub fn unlisted(&self, paths: [&Path; 2], is_changed: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for path in paths.map(without_steps_back) {
            let line = self.shown(&path);
            if self.of_one_path(&path, is_changed) == Verdict::Unlisted && !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    /// The file, for people.
    #[must_use]
    pub fn place(&self) -> String {
        match &self.file {
            Some(file) => shown(file, &self.homes),
            None => "~/.config/minimal/user_policy.toml".to_owned(),
        }
    }

    /// A path for the file: below the home where it is.
    #[must_use]
    pub fn shown(&self, path: &Path) -> String {
        shown(path, &self.homes)
    }

    /// What is done with a file or directory: `written` is what leads to it, `real` where that leads
    /// in the end. The stricter verdict counts.
    #[must_use]
    pub fn of_path(&self, written: &Path, real: &Path, is_changed: bool) -> Verdict {
        let written = without_steps_back(written);
        self.of_one_path(&written, is_changed).max(self.of_one_path(real, is_changed))
    }

    fn of_one_path(&self, path: &Path, is_changed: bool) -> Verdict {
        let lines = &self.lines.paths;
        let any = |patterns: &[String]| {
            patterns.iter().flat_map(|it| self.expand(it)).any(|pattern| covers(&pattern, path))
        };
        // Whoever has a directory has what is in it.
        let is_touched = |patterns: &[PathBuf]| {
            patterns.iter().any(|pattern| covers(pattern, path) || is_in(pattern, path))
        };
        if is_touched(&self.denied) {
            return Verdict::Denied;
        }
        if is_touched(&self.ignored) {
            Verdict::Ignored
        } else if any(&lines.allow_write) || (!is_changed && any(&lines.allow)) {
            Verdict::Allowed
        } else {
            Verdict::Unlisted
        }
    }

    /// What is done with a variable.
    #[must_use]
    pub fn of_variable(&self, name: &str) -> Verdict {
        let lines = &self.lines.vars;
        let any = |patterns: &[String]| {
            patterns.iter().any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
        };
        if any(&lines.deny) {
            Verdict::Denied
        } else if any(&lines.ignore) {
            Verdict::Ignored
        } else if any(&lines.allow) {
            Verdict::Allowed
        } else {
            Verdict::Unlisted
        }
    }

    fn expand(&self, pattern: &str) -> Vec<PathBuf> {
        match Path::new(pattern).strip_prefix("~") {
            Ok(below) => self.homes.iter().map(|home| home.join(below)).collect(),
            Err(_) => vec![PathBuf::from(pattern)],
        }
    }
}

fn read(file: &Path) -> Result<Lines, Failure> {
    let wrong = |why: &str| {
        Failure::new(ErrorCode::InvalidConfig, format!("read `{}`: {why}", file.display()))
    };
    let text = project_file::read(file).map_err(|why| wrong(&why))?;
    let mode = file.metadata().map_err(|error| wrong(&error.to_string()))?.mode();
    if mode & 0o022 != 0 {
        let hint = format!("take that away: chmod go-w {}", file.display());
        return Err(wrong("others can write to it, and it decides what they get").hint(hint));
    }
    let lines: Lines = toml::from_str(&text).map_err(|error| {
        wrong(error.to_string().trim_end()).hint(
            "it has [paths] with allow, allow_write, deny and ignore, and [vars] with allow, deny and ignore",
        )
    })?;
    let PathLines { allow, allow_write, deny, ignore } = lines.paths.clone();
    let mut paths = [allow, allow_write, deny, ignore].into_iter().flatten();
    // Else it would be about nothing, and a denial nobody hears of is worse than none.
    let is_path = |path: &str| path.starts_with('/') || path.starts_with("~/") || path == "~";
    let refused = paths.find(|path| !is_path(path) || has_steps_back(path));
    match refused {
        Some(path) => {
            Err(wrong(&format!("`{path}` is not an absolute path, or one that begins with ~/")))
        }
        None => Ok(lines),
    }
}

fn has_steps_back(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "." | ".."))
}

fn shown(path: &Path, homes: &[PathBuf]) -> String {
    match homes.iter().find_map(|home| path.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => Path::new("~").join(below).display().to_string(),
        None => path.display().to_string(),
    }
}

/// Whether a path is what a pattern names, or below it.
fn covers(pattern: &Path, path: &Path) -> bool {
    pattern.components().count() <= path.components().count() && agree(pattern, path)
}

/// Whether what a pattern names can be below a path.
fn is_in(pattern: &Path, path: &Path) -> bool {
    path.components().count() <= pattern.components().count() && agree(pattern, path)
}

/// Whether the parts that both have agree.
fn agree(pattern: &Path, path: &Path) -> bool {
    let mut parts = pattern.components().zip(path.components());
    parts.all(|(one, other)| matches(one.as_os_str().as_bytes(), other.as_os_str().as_bytes()))
}

/// A path as its words say, whatever is there.
pub(crate) fn without_steps_back(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push::<&OsStr>(part.as_os_str()),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> UserPolicy {
        let lines = toml::from_str(text).unwrap();
        UserPolicy { homes: vec!["/home/me".into()], lines, ..UserPolicy::default() }
            .resolved()
            .unwrap()
    }

    #[test]
    fn deny_wins_over_ignore_and_that_over_allow() {
        let policy = policy(
            "[paths]\nallow = ['~/.cargo', '/srv/*/data', '~/.ssh', '~/.local']\nallow_write = ['~/out']\n\
             ignore = ['~/.cargo/registry', '~/.local/share/secret']\ndeny = ['~/.ssh', '~/.cargo/registry/keys']\n\
             [vars]\nallow = ['CI_*', 'A?']\nignore = ['CI_B*']\ndeny = ['CI_BAD']\n",
        );
        let of = |path: &str, is_changed| policy.of_path(path.as_ref(), path.as_ref(), is_changed);
        for (path, verdict) in [
            ("/home/me/.cargo", Verdict::Denied),
            ("/home/me/.cargo/bin", Verdict::Allowed),
            ("/home/me/.cargo/registry/x", Verdict::Ignored),
            ("/home/me/.cargo/registry/keys", Verdict::Denied),
            ("/home/me/.ssh/id", Verdict::Denied),
            ("/home/me", Verdict::Denied),
            ("/", Verdict::Denied),
            ("/home/me/.cargo2", Verdict::Unlisted),
            ("/home/me/.local/share", Verdict::Ignored),
            ("/home/me/.local/bin", Verdict::Allowed),
            ("/srv/a/data/b", Verdict::Allowed),
            ("/srv/a/b/data", Verdict::Unlisted),
            ("/home/me/out/x", Verdict::Allowed),
        ] {
            assert_eq!(of(path, false), verdict, "{path}");
        }
        assert_eq!(of("/home/me/.cargo/bin", true), Verdict::Unlisted);
        assert_eq!(of("/home/me/out", true), Verdict::Allowed);
        for (name, verdict) in [
            ("CI_A", Verdict::Allowed),
            ("CI_B", Verdict::Ignored),
            ("CI_BAD", Verdict::Denied),
            ("AB", Verdict::Allowed),
            ("ABC", Verdict::Unlisted),
        ] {
            assert_eq!(policy.of_variable(name), verdict, "{name}");
        }
    }

    #[test]
    fn of_link_and_target_the_stricter_counts() {
        let policy = policy("[paths]\nallow = ['/a']\ndeny = ['/secret']\nignore = ['/i']\n");
        let of = |written: &str, real: &str| policy.of_path(written.as_ref(), real.as_ref(), false);
        assert_eq!(of("/a/x", "/a/y"), Verdict::Allowed);
        assert_eq!(of("/a/x", "/b"), Verdict::Unlisted);
        assert_eq!(of("/b", "/a"), Verdict::Unlisted);
        assert_eq!(of("/a/x", "/i"), Verdict::Ignored);
        assert_eq!(of("/a/../secret", "/a"), Verdict::Denied);
        assert_eq!(of("/i", "/secret/x"), Verdict::Denied);
    }

    #[test]
    fn what_is_no_policy_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, why) in [
            ("[paths]\nalow = []\n", "unknown field `alow`"),
            ("[paths]\ndeny = ['.ssh']\n", "`.ssh` is not an absolute path"),
            ("[paths]\ndeny = ['/a/../b']\n", "`/a/../b` is not an absolute path"),
            ("[vars]\nallow = 'A'\n", "expected a sequence"),
        ] {
            std::fs::write(&file, text).unwrap();
            let failure = read(file.path()).unwrap_err();
            assert_eq!(failure.code, ErrorCode::InvalidConfig);
            assert!(failure.message.contains(why), "{}", failure.message);
        }
        std::fs::write(&file, "").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o664);
        std::fs::set_permissions(&file, mode).unwrap();
        assert!(read(file.path()).unwrap_err().message.contains("others can write"));
    }
}
