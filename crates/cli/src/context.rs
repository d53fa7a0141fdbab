//! What every command is given.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use crate::args::Global;
use crate::env::Env;
use crate::error::Failure;
use crate::output::Printer;
use crate::state_paths::{StatePaths, home_of};

/// What every command is given.
#[derive(Debug)]
pub struct Context {
    /// The caller's environment.
    pub env: Env,
    /// Where everything is printed.
    pub printer: Printer,
    paths: OnceCell<StatePaths>,
}

impl Context {
    /// For these options.
    #[must_use]
    pub fn new(global: &Global, env: Env) -> Self {
        let printer = Printer::new(global, &env);
        Self { env, printer, paths: OnceCell::new() }
    }

    /// Where the state is.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn paths(&self) -> Result<&StatePaths, Failure> {
        if let Some(paths) = self.paths.get() {
            return Ok(paths);
        }
        let paths = StatePaths::find(&self.env)?;
        Ok(self.paths.get_or_init(|| paths))
    }

    /// Where the caller's settings are, each program's in a directory of its own.
    #[must_use]
    pub fn settings_dir(&self) -> Option<PathBuf> {
        // A relative one is invalid and to be ignored (XDG Base Directory Specification).
        let named = self.env.path("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
        named.or_else(|| self.home().map(|home| home.join(".config")))
    }

    /// The caller's home directory.
    #[must_use]
    pub fn home(&self) -> Option<PathBuf> {
        let uid = rustix::process::geteuid().as_raw();
        self.env
            .path("HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| home_of(uid, Path::new("/etc/passwd")))
    }
}
