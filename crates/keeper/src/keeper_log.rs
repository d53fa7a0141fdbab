//! `keeper.log`: JSON lines about what the keeper did and could not do. Never arguments or
//! environment values.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use minimal_proto::{BoxId, BoxName, Ending, Timestamp};
use minimal_store::BoxDir;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};

/// The log, opened at its first line: most boxes have one line to write.
#[derive(Debug)]
pub(crate) struct KeeperLog {
    id: BoxId,
    name: BoxName,
    file: Option<File>,
}

impl KeeperLog {
    pub(crate) fn new(id: BoxId, name: BoxName) -> Self {
        Self { id, name, file: None }
    }

    /// Says how the box ended.
    pub(crate) fn ended(&mut self, dir: &BoxDir, ending: &Ending) {
        let fields = json!({
            "reason": ending.reason(),
            "exit_code": ending.exit_code(),
            "signal": ending.signal(),
        });
        self.line(dir, "info", "the box ended", &fields);
    }

    /// Says that something went wrong.
    pub(crate) fn error(&mut self, dir: &BoxDir, message: &str, cause: &str) {
        self.line(dir, "error", message, &json!({ "cause": cause }));
    }

    fn line(&mut self, dir: &BoxDir, level: &str, message: &str, fields: &Value) {
        if self.file.is_none() {
            let flags = OFlags::CREATE
                | OFlags::APPEND
                | OFlags::WRONLY
                | OFlags::CLOEXEC
                | OFlags::NOFOLLOW;
            self.file = rustix::fs::openat(
                dir.dir_fd().as_fd(),
                "keeper.log",
                flags,
                Mode::from_raw_mode(0o600),
            )
            .ok()
            .map(File::from);
        }
        if let Some(file) = &mut self.file {
            let line = json!({
                "ts": Timestamp::now(), "level": level, "box": self.id, "name": self.name,
                "message": message, "fields": fields,
            });
            // A log that cannot be written is not worth a box.
            file.write_all(format!("{line}\n").as_bytes()).ok();
        }
    }
}
