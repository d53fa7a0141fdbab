//! Groups of keepers that were killed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use minimal_linux::cgroup::{self, Controller};
use minimal_proto::keeper::Enforcement;

use super::host::prefix;

/// How often, and after which pauses, the groups of a killed box are tried: its processes are
/// dying, which takes milliseconds unless one waits in the kernel.
const PAUSES_MS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/// After how many of them a box whose groups nobody knows is given up.
const BLIND: usize = 7;

/// What groups are made for.
const CONTROLLERS: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Freezer];

/// Removes the groups in `place` that begin with `prefix` and have nothing in them.
pub(super) fn sweep(place: &Path, prefix: &str) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            // One that is in use is refused by the kernel, and is somebody's who lives.
            cgroup::remove(&entry.path()).ok();
        }
    }
}

/// Removes the control groups that a keeper made before it had a box, once it is gone. Returns at once.
pub(crate) fn remove_cgroups_of(state_dir: &Path, keeper: i32) {
    let name = format!("{}{keeper}", prefix(state_dir));
    let work = move || {
        let sites = CONTROLLERS.map(cgroup::find);
        let groups = sites.iter().flatten().map(|site| site.place.join(&name));
        remove_all(&groups.filter(|group| group.exists()).collect::<Vec<_>>());
    };
    // Without a thread the next nursery does it.
    drop(std::thread::Builder::new().name("cgroups".to_owned()).spawn(work));
}

/// Removes the control groups of a box whose keeper is gone without a word: those that the record
/// of its start names, or for want of one all in which nothing is left. Returns at once; it is done
/// within two seconds by a thread of its own, and what is in use for longer is removed by the next
/// nursery.
pub fn remove_cgroups_left_behind(state_dir: &Path, enforcement: Option<&Enforcement>) {
    let prefix = prefix(state_dir);
    let groups = left_behind(&prefix, enforcement);
    let work = move || {
        if groups.is_empty() {
            for pause in &PAUSES_MS[..BLIND] {
                for controller in CONTROLLERS {
                    if let Ok(site) = cgroup::find(controller) {
                        sweep(&site.place, &prefix);
                    }
                }
                std::thread::park_timeout(Duration::from_millis(*pause));
            }
            return;
        }
        remove_all(&groups);
    };
    // Without a thread the next nursery does it.
    drop(std::thread::Builder::new().name("cgroups".to_owned()).spawn(work));
}

/// Lets a box go on that a keeper which is gone had paused: what is frozen does not even die.
pub fn thaw_left_behind(state_dir: &Path, enforcement: &Enforcement) {
    let freezer = enforcement.freezer.clone();
    let only = Enforcement { limits: Vec::new(), freezer, ..enforcement.clone() };
    for group in left_behind(&prefix(state_dir), Some(&only)) {
        // One that is gone, or was not frozen, needs nothing.
        cgroup::thaw(&group).ok();
    }
}

/// Removes groups in which something may still be dying.
fn remove_all(groups: &[PathBuf]) {
    for pause in PAUSES_MS {
        // Not `any`: each is to be tried.
        let left = groups.iter().filter(|group| cgroup::remove(group).is_err()).count();
        if left == 0 {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(pause));
    }
}

/// The groups of a record that bear our mark: a journal is a file, and may say anything.
fn left_behind(prefix: &str, enforcement: Option<&Enforcement>) -> Vec<PathBuf> {
    let limits = enforcement.map_or(&[][..], |enforcement| &enforcement.limits);
    let freezer = enforcement.and_then(|enforcement| enforcement.freezer.as_ref());
    let mut groups: Vec<_> = limits
        .iter()
        .filter_map(|limit| limit.cgroup.as_ref())
        .chain(freezer)
        .map(PathBuf::from)
        .filter(|path| {
            path.is_absolute()
                && path
                    .file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
        })
        .collect();
    groups.dedup();
    groups
}

#[cfg(test)]
mod tests {
    use minimal_proto::keeper::EnforcedLimit;

    use super::*;

    #[test]
    fn only_groups_with_our_mark_are_believed() {
        let limit = |cgroup: Option<&str>| EnforcedLimit {
            what: "ram".to_owned(),
            max: 1,
            by: "cgroup v1".to_owned(),
            cgroup: cgroup.map(str::to_owned),
        };
        let enforcement = Enforcement {
            namespaces: vec![],
            users: "range".to_owned(),
            uid_map: vec![],
            network: "none".to_owned(),
            workspace: Some("none".into()),
            no_new_privs: true,
            seccomp: true,
            capabilities: vec![],
            limits: vec![
                limit(Some("/c/memory/minimal.1-2.77")),
                limit(Some("/c/memory/minimal.1-3.77")),
                limit(Some("/home/someone")),
                limit(Some("minimal.1-2.77")),
                limit(Some("/")),
                limit(None),
            ],
            install: "none".to_owned(),
            freezer: None,
            missing: vec![],
        };
        let believed = left_behind("minimal.1-2.", Some(&enforcement));
        assert_eq!(believed, [Path::new("/c/memory/minimal.1-2.77")]);
        assert_eq!(left_behind("minimal.1-2.", None), [] as [PathBuf; 0]);
    }
}
