//! A gate in a box's way: a FIFO in the scenario's project, which the box reads and the test opens.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::PathBuf;

use minimal_testkit::{LIMIT, TestEnv, wait_until};
use rustix::fs::{CWD, FileType, Mode, OFlags};

/// A closed gate. A box with `--workspace bind` waits at it with [`Gate::wait`].
#[derive(Debug)]
pub struct Gate {
    path: PathBuf,
    name: String,
}

impl Gate {
    /// Builds a gate in the scenario's project.
    ///
    /// # Panics
    /// If the FIFO cannot be made.
    #[must_use]
    pub fn new(env: &TestEnv, name: &str) -> Self {
        let path = env.work().join(name);
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .expect("the scenario's directory takes a FIFO");
        env.account().own(&path);
        // Whatever uid the box has on the host may read it.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))
            .expect("its owner may open it up");
        Self { path, name: name.to_owned() }
    }

    /// The shell command with which a box waits.
    #[must_use]
    pub fn wait(&self) -> String {
        format!("read _ < /workbench/{}", self.name)
    }

    /// Waits until the box is at the gate, and opens it.
    ///
    /// # Panics
    /// If it never comes.
    #[track_caller]
    pub fn open(self) {
        let writer = wait_until("the box waits at the gate", LIMIT, || {
            OpenOptions::new()
                .write(true)
                .custom_flags(i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0))
                .open(&self.path)
        });
        drop(writer);
    }
}
