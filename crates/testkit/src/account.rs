//! As whom a scenario runs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// The ordinary user that root runs scenarios as.
const ORDINARY: &str = "minimal-test";

/// The same, with subordinate ids.
const SUBORDINATE: &str = "minimal-test-sub";

/// How many subordinate ids a box takes.
const IDS: u32 = 65_536;

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

    /// The system user `minimal-test`, made if it is missing, without subordinate ids. For root only.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn ordinary() -> Result<Self, String> {
        let _one_at_a_time = lock()?;
        Self::make(ORDINARY)
    }

    /// The system user `minimal-test-sub`, made if it is missing, with subordinate ids. For root
    /// only.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn with_subordinate_ids() -> Result<Self, String> {
        let _one_at_a_time = lock()?;
        let account = Self::make(SUBORDINATE)?;
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (uids, gids) = (read("/etc/subuid"), read("/etc/subgid"));
        let has = |text: &str| text.lines().any(|line| line.split(':').next() == Some(SUBORDINATE));
        if has(&uids) && has(&gids) {
            return Ok(account);
        }
        // The first ids after all that are handed out.
        let first = [uids, gids]
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| {
                let mut fields = line.split(':').skip(1);
                let first: u32 = fields.next()?.parse().ok()?;
                Some(first.saturating_add(fields.next()?.parse().ok()?))
            })
            .max()
            .unwrap_or_default()
            .max(100_000);
        let range = format!("{first}-{}", first.saturating_add(IDS - 1));
        let made = Command::new("usermod")
            .args(["--add-subuids", &range, "--add-subgids", &range, SUBORDINATE])
            .output()
            .map_err(|error| format!("usermod cannot be run: {error}"))?;
        if made.status.success() {
            Ok(account)
        } else {
            Err(format!("usermod: {}", String::from_utf8_lossy(&made.stderr).trim()))
        }
    }

    fn make(name: &str) -> Result<Self, String> {
        if let Some(account) = Self::look_up(name) {
            return Ok(account);
        }
        let made = Command::new("useradd")
            .args(["--system", "--user-group", "--no-create-home", "--shell", "/bin/sh", name])
            .output()
            .map_err(|error| format!("useradd cannot be run: {error}"))?;
        Self::look_up(name)
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

/// Tests are processes beside each other: one of them makes a user.
fn lock() -> Result<File, String> {
    let lock = File::create(std::env::temp_dir().join("minimal-test-user.lock"))
        .map_err(|error| format!("the lock for making a user: {error}"))?;
    lock.lock().map_err(|error| format!("locking: {error}"))?;
    Ok(lock)
}
