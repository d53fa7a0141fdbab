//! The project's `minimal.toml`: where it is, and what it says.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use minimal_proto::ErrorCode;
use minimal_spec::{ExpandError, Fault, MAX_TEXT, Problem, Problems};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::Failure;
use crate::project::Project;

/// Where a file can be, below the root of its project.
const PLACES: [&str; 2] = ["minimal.toml", ".minimal/minimal.toml"];

/// The file of a directory: in it, or in the nearest one above. Not above the home, and not beyond
/// the mount that the directory is on, unless that is in the home: what somebody else has put there
/// is not the caller's project.
///
/// Gives the project's root and the file.
#[must_use]
pub fn find(directory: &Path, home: Option<&Path>) -> Option<(PathBuf, PathBuf)> {
    let mut at = directory;
    loop {
        let place = PLACES.iter().map(|place| at.join(place)).find(|path| is_there(path));
        if let Some(file) = place {
            return Some((at.to_owned(), file));
        }
        let parent = at.parent()?;
        let in_home = home.is_some_and(|home| parent.starts_with(home));
        if home == Some(at) || (!in_home && is_mount_point(at, parent)) {
            return None;
        }
        at = parent;
    }
}

/// Whether something of that name is there. One that cannot be looked at is, and is told of when it
/// is read.
fn is_there(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        Err(error) => {
            !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

fn is_mount_point(path: &Path, parent: &Path) -> bool {
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev());
    match (device(path), device(parent)) {
        (Ok(one), Ok(other)) => one != other,
        (Err(_), _) | (_, Err(_)) => true,
    }
}

/// What the file of the caller's project says; without one what holds everywhere.
///
/// # Errors
/// `invalid_config`: it cannot be read, belongs to somebody else, or is wrong.
pub fn load(
    context: &Context,
    project: Option<&Project>,
) -> Result<minimal_spec::Project, Failure> {
    let home = context.home();
    let found = project.and_then(|project| find(&project.directory, home.as_deref()));
    let Some((_, file)) = found else { return Ok(minimal_spec::Project::without_file()) };
    let name = shown(&file);
    let text = read(&file).map_err(|why| {
        Failure::new(ErrorCode::InvalidConfig, format!("read `{name}`: {why}"))
            .hint("the file that counts is the nearest `minimal.toml` or `.minimal/minimal.toml`, from here up")
    })?;
    minimal_spec::Project::parse(&name, &text).map_err(|problems| failure(&problems))
}

/// Relative to where the caller is, if it is there or below.
pub(crate) fn shown(file: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here.as_deref().and_then(|here| file.strip_prefix(here).ok());
    below.unwrap_or(file).display().to_string()
}

/// The text of a file of settings: of the caller's or root's, of bounded length, and never waited for.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    // One that nobody writes to must not be waited for.
    let file = File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a file".to_owned());
    }
    let me = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner != me && owner != 0 {
        return Err(format!(
            "it belongs to user {owner}, and what it says is done in your name: make it yours, or run as that user"
        ));
    }
    if metadata.mode() & 0o002 != 0 {
        return Err(
            "everybody may write to it, and what it says is done in your name: take that away with `chmod o-w`"
                .to_owned(),
        );
    }
    let mut bytes = Vec::new();
    // One more, so that a file that is too long is known to be.
    let most = u64::try_from(MAX_TEXT).unwrap_or(u64::MAX).saturating_add(1);
    file.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8")
    })
}

/// Everything that is wrong with a file.
pub(crate) fn failure(problems: &Problems) -> Failure {
    let list: Vec<Value> = problems.iter().map(problem).collect();
    // What the command line alone has got wrong is a mistake of usage, not of a file.
    let in_file = problems.iter().any(|it| {
        it.position().is_some() || matches!(it.fault, Fault::Constraint | Fault::TooLong)
    });
    let code = if in_file { ErrorCode::InvalidConfig } else { ErrorCode::InvalidSpec };
    Failure::new(code, problems.to_string()).detail("problems", list)
}

fn problem(problem: &Problem) -> Value {
    let (file, line, column) = problem.position().map_or((None, None, None), |it| {
        let (file, line, column) = it;
        (Some(file), Some(line), Some(column))
    });
    json!({
        "file": file,
        "line": line,
        "column": column,
        "message": problem.message,
        "layer": problem.layer,
        "hint": problem.hint,
    })
}

/// Why an entry has no spec.
#[must_use]
pub fn no_spec(error: ExpandError) -> Failure {
    match error {
        ExpandError::NoEntry { .. } => {
            let hint = match &error {
                ExpandError::NoEntry { hint: Some(hint), .. } => hint.clone(),
                _ => "`min task list` lists the tasks there are".to_owned(),
            };
            Failure::new(ErrorCode::NotFound, error.to_string()).hint(hint)
        }
        ExpandError::Argument(error) => Failure::usage(error.to_string()),
        ExpandError::Problems(problems) => failure(&problems),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_counts_and_none_above_the_home() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let deep = home.join("p/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let find = |directory: &Path| find(directory, Some(&home)).map(|(root, _)| root);
        std::fs::write(root.path().join("minimal.toml"), "").unwrap();
        assert_eq!(find(&deep), None, "above the home");
        // Who is not in the home has no such bound.
        assert_eq!(find(root.path()), Some(root.path().to_owned()));
        std::fs::write(home.join("minimal.toml"), "").unwrap();
        assert_eq!(find(&deep), Some(home.clone()));
        std::fs::create_dir(home.join("p/.minimal")).unwrap();
        std::fs::write(home.join("p/.minimal/minimal.toml"), "").unwrap();
        assert_eq!(find(&deep), Some(home.join("p")));
        std::os::unix::fs::symlink("nowhere", deep.join("minimal.toml")).unwrap();
        assert_eq!(find(&deep), Some(deep.clone()), "to be told of when it is read");
    }

    #[test]
    fn what_is_no_file_of_the_callers_is_not_read() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("minimal.toml");
        std::fs::write(&path, b"a\n\xff").unwrap();
        assert_eq!(read(&path), Err("line 2 is not UTF-8".to_owned()));
        assert_eq!(read(root.path()), Err("it is not a file".to_owned()));
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path).unwrap_err().contains("No such file"));
    }
}
