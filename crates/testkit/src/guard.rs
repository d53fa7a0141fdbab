//! The leak guard: what a scenario may not leave behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::process::below;
use crate::{LIMIT, wait_until};

/// Where things of ours outside the state directory would be found.
const OUTSIDE: [&str; 5] = ["/tmp", "/var/tmp", "/dev/shm", "/run", "/var/lib"];

/// How the world was before a scenario.
#[derive(Debug)]
pub(crate) struct Guard {
    root: PathBuf,
    mounts: BTreeSet<String>,
    outside: BTreeSet<PathBuf>,
}

impl Guard {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), mounts: mounts(root), outside: outside() }
    }

    /// Ends everything below the test by `kill -9`, until nothing is left.
    pub(crate) fn kill_all(&self) {
        wait_until("every process below the test is gone", LIMIT, || {
            let left = below();
            for process in &left {
                process.signal(rustix::process::Signal::KILL);
            }
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// Compares the world with how it was.
    pub(crate) fn check(&self) {
        wait_until("no process of the scenario is left", LIMIT, || {
            let left = below();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
        let new: Vec<_> = mounts(&self.root).difference(&self.mounts).cloned().collect();
        assert!(new.is_empty(), "the scenario left mounts behind: {new:#?}");
        let sockets = sockets(&self.root);
        assert!(sockets.is_empty(), "the scenario left sockets behind: {sockets:#?}");
        for part in ["home", "tmp"] {
            let left = names(&self.root.join(part));
            assert!(left.is_empty(), "the scenario left files in its {part} directory: {left:?}");
        }
        let new: Vec<_> = outside().difference(&self.outside).cloned().collect();
        assert!(new.is_empty(), "the scenario left files outside its state directory: {new:?}");
    }

    /// Prints what helps to understand a failure.
    pub(crate) fn report(&self, state_dir: &Path) {
        eprintln!("\n== the scenario failed; what runs below it:");
        for process in below() {
            eprintln!("{process:?}");
        }
        let mut logs = vec![state_dir.join("daemon.log")];
        let boxes = state_dir.join("boxes");
        for name in names(&boxes) {
            logs.extend([
                boxes.join(&name).join("journal.ndjson"),
                boxes.join(name).join("keeper.log"),
            ]);
        }
        for path in logs.iter().take(16) {
            eprintln!("== {}", path.display());
            match fs::read(path) {
                Ok(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).replace('\0', "");
                    let lines: Vec<_> = text.lines().collect();
                    for line in &lines[lines.len().saturating_sub(60)..] {
                        eprintln!("{line}");
                    }
                }
                Err(error) => eprintln!("({error})"),
            }
        }
        let hits = fs::read_to_string(self.root.join("hooks/hits")).unwrap_or_default();
        let hits: Vec<_> = hits.lines().collect();
        eprintln!("== the last points passed: {:?}", &hits[hits.len().saturating_sub(20)..]);
    }
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// The mount table, but for what others mount below temporary directories of their own.
fn mounts(root: &Path) -> BTreeSet<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let temporary = std::env::temp_dir();
    let of_others = |line: &&str| {
        let point = Path::new(line.split(' ').nth(4).unwrap_or_default());
        point.starts_with(&temporary) && !point.starts_with(root)
    };
    table.lines().filter(|line| !of_others(line)).map(str::to_owned).collect()
}

/// Bound sockets below the scenario's directory.
fn sockets(root: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/net/unix").unwrap();
    let root = root.to_string_lossy();
    table.lines().filter(|line| line.contains(&*root)).map(str::to_owned).collect()
}

/// Files and directories of ours in the places that everybody shares.
fn outside() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for place in OUTSIDE {
        for name in names(Path::new(place)) {
            let ours = name.contains("minimal") || name.starts_with("min-");
            if ours && !name.starts_with("minimal-test") {
                found.insert(Path::new(place).join(name));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// One test, since what is below this process is everybody's in it.
    #[test]
    fn what_escapes_by_forks_and_sessions_is_found_and_ended() {
        crate::process::become_reaper();
        let root = tempfile::tempdir().unwrap();
        let guard = Guard::new(root.path());
        let escape = "(setsid sh -c 'sleep 91234 & sleep 91235 & exit 0' >/dev/null 2>&1 &)";
        let mut command = Command::new("sh");
        assert!(command.args(["-c", escape]).status().unwrap().success());
        for marker in ["sleep 91234", "sleep 91235"] {
            wait_until("the escaped process is seen", LIMIT, || {
                let all = below();
                let seen = all.iter().any(|process| process.command == marker);
                if seen { Ok(()) } else { Err(all) }
            });
        }
        guard.kill_all();
        assert_eq!(below(), []);
        guard.check();
    }

    #[test]
    #[should_panic(expected = "left sockets behind")]
    fn a_bound_socket_is_found() {
        let root = tempfile::tempdir().unwrap();
        let guard = Guard::new(root.path());
        let _listener = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
        guard.check();
    }

    #[test]
    #[should_panic(expected = "files in its home directory")]
    fn a_file_in_the_home_is_found() {
        let root = tempfile::tempdir().unwrap();
        let guard = Guard::new(root.path());
        fs::create_dir(root.path().join("home")).unwrap();
        fs::write(root.path().join("home/.minrc"), "").unwrap();
        guard.check();
    }
}
