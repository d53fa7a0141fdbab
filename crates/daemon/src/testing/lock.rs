//! Another process that holds a box's locks: a process does not see its own (fcntl(2)).

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use minimal_store::{BoxDir, LifeLock};

const VARIABLE: &str = "HOLD_LOCKS_OF";
const TEST: &str = "testing::lock::body_of_the_lock_holder";

/// A process that holds the keeper's lock until it is dropped.
pub(crate) struct LockHolder(Child);

impl LockHolder {
    pub(crate) fn of(box_path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture", "--quiet"])
            .env(VARIABLE, box_path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // Whatever the test harness prints first.
        let mut said = Vec::new();
        let mut byte = [0];
        while !said.ends_with(b"held") {
            child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
            said.push(byte[0]);
        }
        Self(child)
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Not a test, but what runs in the other process.
#[test]
fn body_of_the_lock_holder() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let dir = BoxDir::open(Path::new(&path)).unwrap();
    let lock = LifeLock::open(&dir).unwrap();
    assert!(lock.try_keeper().unwrap());
    std::io::stdout().write_all(b"held").unwrap();
    std::io::stdout().flush().unwrap();
    // Until it is killed, or the test that started it is gone.
    drop(std::io::stdin().read(&mut [0]));
    drop(lock);
}
