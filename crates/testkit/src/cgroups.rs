//! Control groups of a scenario's boxes.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The groups that bear the mark of this state directory, wherever they are.
#[must_use]
pub fn of(state_dir: &Path) -> Vec<PathBuf> {
    let Ok(metadata) = state_dir.metadata() else { return Vec::new() };
    let prefix = format!("minimal.{:x}-{:x}.", metadata.dev(), metadata.ino());
    let mut found = Vec::new();
    find(Path::new("/sys/fs/cgroup"), &prefix, &mut found);
    found
}

fn find(directory: &Path, prefix: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // A hierarchy may be a link to the one it is mounted with.
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        } else {
            find(&entry.path(), prefix, found);
        }
    }
}

/// Removes them as far as nothing is in them: after a scenario that was ended by force.
pub fn sweep(state_dir: &Path) {
    for group in of(state_dir) {
        // One that is in use shows in the next scenario's machine, and is no reason to fail twice.
        fs::remove_dir(group).ok();
    }
}
