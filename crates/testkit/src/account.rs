//! As whom a scenario runs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// The ordinary user that root runs scenarios as.
const ORDINARY: &str = "minimal-test";

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
}

impl Account {
    /// Whoever runs the tests.
    #[must_use]
    pub fn current() -> Self {
        Self { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() }
    }

    /// Whether it is root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// The system user `minimal-test`, made if it is missing. For root only.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn ordinary() -> Result<Self, String> {
        // Tests are processes beside each other: one of them makes the user.
        let lock = File::create(std::env::temp_dir().join("minimal-test-user.lock"))
            .map_err(|error| format!("the lock for making a user: {error}"))?;
        lock.lock().map_err(|error| format!("locking: {error}"))?;
        if let Some(account) = Self::look_up(ORDINARY) {
            return Ok(account);
        }
        let made = Command::new("useradd")
            .args(["--system", "--user-group", "--no-create-home", "--shell", "/bin/sh", ORDINARY])
            .output()
            .map_err(|error| format!("useradd cannot be run: {error}"))?;
        Self::look_up(ORDINARY)
            .ok_or_else(|| format!("useradd: {}", String::from_utf8_lossy(&made.stderr).trim()))
    }

    fn look_up(name: &str) -> Option<Self> {
        let passwd = fs::read_to_string("/etc/passwd").ok()?;
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(Self { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    }

    /// Has a command run as this account, without supplementary groups.
    pub fn apply(&self, command: &mut Command) {
        if *self != Self::current() {
            // As root, `uid` also clears the supplementary groups.
            command.uid(self.uid).gid(self.gid);
        }
    }

    /// Makes a directory of mode 0700 that this account owns.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn make_dir(&self, path: &Path) {
        fs::create_dir_all(path).unwrap();
        self.own(path);
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }

    /// Makes this account the owner of a file or directory.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn own(&self, path: &Path) {
        if *self != Self::current() {
            std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid)).unwrap();
        }
    }
}
