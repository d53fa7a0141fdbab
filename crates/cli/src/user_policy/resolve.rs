//! What lines that take something away lead to: a link that is denied is denied by its target too.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use minimal_proto::pattern;

/// How long the host's files may take to say where links lead.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// The most paths that one line may stand for.
const MOST: usize = 1000;

/// The patterns, and where those lead that are there.
///
/// # Errors
/// It cannot be told: the line, and why not.
pub(super) fn resolve(patterns: Vec<PathBuf>) -> Result<Vec<PathBuf>, (PathBuf, io::Error)> {
    let (tell, told) = mpsc::channel();
    let first = patterns.first().cloned().unwrap_or_default();
    // Of its own, since nothing can be done about one that waits for ever but to leave it behind.
    std::thread::spawn(move || {
        let mut resolved = Vec::new();
        let done = patterns.into_iter().try_for_each(|pattern| {
            let found = real(&pattern).map_err(|error| (pattern.clone(), error))?;
            resolved.extend(found.into_iter().filter(|it| *it != pattern));
            resolved.push(pattern);
            Ok(())
        });
        // Who gave up does not hear it.
        tell.send(done.map(|()| resolved)).ok();
    });
    let silent = |_| {
        (first, io::Error::other("its file system does not answer; is it on a dead network mount?"))
    };
    told.recv_timeout(LOOK_LIMIT).map_err(silent)?
}

/// Where what a pattern stands for is in the end. A part of the path that is not there leads nowhere
/// else.
fn real(pattern: &Path) -> io::Result<Vec<PathBuf>> {
    let mut at = vec![PathBuf::new()];
    for part in pattern.components() {
        let Component::Normal(part) = part else {
            at = vec![PathBuf::from("/")];
            continue;
        };
        let mut next = Vec::new();
        for directory in at {
            if pattern::is_one(part.as_bytes()) {
                next.extend(matching(&directory, part.as_bytes()));
            }
            // As it is written too: what is not there yet may come.
            let path = directory.join(part);
            next.push(path.canonicalize().unwrap_or(path));
            if next.len() > MOST {
                return Err(io::Error::other(format!("it stands for more than {MOST} paths")));
            }
        }
        at = next;
    }
    Ok(at)
}

/// Where the names lead that a part of a pattern stands for.
fn matching(directory: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let names = entries.filter(|entry| pattern::matches(pattern, entry.file_name().as_bytes()));
    // Of those that lead nowhere else the pattern says as much.
    let found =
        names.map(|entry| entry.path()).filter_map(|path| Some((path.canonicalize().ok()?, path)));
    found.map(|(real, _)| real).take(MOST + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_lead_and_the_rest_stays() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("dot/ssh")).unwrap();
        std::fs::create_dir_all(root.join("home/.config")).unwrap();
        std::os::unix::fs::symlink("../dot/ssh", root.join("home/.gnupg")).unwrap();
        std::os::unix::fs::symlink("../../dot", root.join("home/.config/app")).unwrap();
        std::os::unix::fs::symlink("home", root.join("h")).unwrap();
        let of = |pattern: &str| resolve(vec![root.join(pattern)]).unwrap();
        assert!(of("home/.gnupg").contains(&root.join("dot/ssh")));
        assert!(of("h/.gnupg/x").contains(&root.join("dot/ssh/x")));
        assert!(of("h/.config/*/keys").contains(&root.join("dot/keys")));
        assert!(of("h/none/*").contains(&root.join("home/none/*")));
        assert!(of("home/.gnupg").contains(&root.join("home/.gnupg")));
        for number in 0..=MOST {
            std::fs::write(root.join(format!("dot/{number}")), "").unwrap();
        }
        assert!(
            resolve(vec![root.join("dot/*/x")]).unwrap_err().1.to_string().contains("more than")
        );
    }
}
