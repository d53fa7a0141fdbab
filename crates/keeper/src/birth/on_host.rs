//! Paths of the host that a spec names.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use minimal_linux::namespaces;
use minimal_proto::api::FileId;
use minimal_store::BoxDir;

/// A path below the home of whoever the daemon is, in full.
pub(super) fn at_home(path: &Path) -> io::Result<PathBuf> {
    let Ok(below) = path.strip_prefix("~") else { return Ok(path.to_owned()) };
    // Our own ids may be another namespace's.
    let map = namespaces::own_uid_map()?;
    let line = map.iter().find(|line| line.inside == 0);
    let uid = line.map_or_else(|| rustix::process::geteuid().as_raw(), |line| line.outside);
    let users = std::fs::read_to_string("/etc/passwd")?;
    let home = users.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let is_it = fields.next()?.parse() == Ok(uid);
        fields.nth(2).filter(|_| is_it)
    });
    let none =
        || io::Error::other(format!("/etc/passwd has no home for uid {uid}: write it in full"));
    Ok(Path::new(home.ok_or_else(none)?).join(below))
}

/// Refuses what our state is in, and what is in our state: whatever is there is some box's.
pub(super) fn check_no_state(path: &Path, box_dir: &BoxDir) -> io::Result<()> {
    let state = box_dir.path().canonicalize()?;
    if state.starts_with(path) {
        return Err(io::Error::other("the state of every box is in it"));
    }
    // <state>/boxes/<id>
    if state.ancestors().nth(2).is_some_and(|state| path.starts_with(state)) {
        return Err(io::Error::other("it is in the state directory"));
    }
    Ok(())
}

/// Refuses another file than the caller has found under the same path.
pub(super) fn check_same(opened: BorrowedFd<'_>, meant: FileId) -> io::Result<()> {
    let stat = rustix::fs::fstat(opened)?;
    if meant == (FileId { device: stat.st_dev, inode: stat.st_ino }) {
        return Ok(());
    }
    Err(io::Error::other(
        "it is another one for the daemon, since something was mounted or unmounted there after that \
         had started; `min host stop` lets the next one see it, and boxes run on",
    ))
}
