//! The files of the project.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::cargo::{read, root};

/// The text files under version control (or about to be), by path.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Path from the top of the checkout, and content.
    pub(crate) files: BTreeMap<PathBuf, String>,
}

impl Sources {
    /// Reads them all.
    pub(crate) fn read() -> Result<Self> {
        let list = read(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(root()),
        )?;
        let mut files = BTreeMap::new();
        for name in String::from_utf8_lossy(&list).split('\0').filter(|name| !name.is_empty()) {
            // A file that is not text has no lines to look at, and one that was just removed no
            // content.
            if let Ok(text) = std::fs::read_to_string(root().join(name)) {
                files.insert(PathBuf::from(name), text);
            }
        }
        Ok(Self { files })
    }

    /// Those that are Rust.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&PathBuf, &String)> {
        self.files.iter().filter(|(path, _)| path.extension().is_some_and(|ext| ext == "rs"))
    }
}
