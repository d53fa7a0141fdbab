//! A world of its own for one scenario.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::command::words;
use crate::guard::Guard;
use crate::{Account, Hooks, LIMIT, Min, Process, binary, cgroups, process, wait_until};

/// Begins the name of every scenario's directory. Short: a socket's path has 108 bytes.
const PREFIX: &str = "mt-";

/// A state directory, a home, an environment and an account of a scenario's own; when dropped, the
/// leak guard looks for what it left behind.
#[derive(Debug)]
pub struct TestEnv {
    account: Account,
    program: PathBuf,
    state_dir: PathBuf,
    hooks: Hooks,
    guard: Guard,
    // Last, so that it is removed after the guard has looked.
    root: TempDir,
}

impl TestEnv {
    /// A world of whoever runs the test.
    #[must_use]
    #[track_caller]
    pub fn new() -> Self {
        Self::for_account(Account::current())
    }

    /// A world of the ordinary user.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn as_user() -> Self {
        Self::for_account(crate::need::user().expect("the test asked for the need `user` first"))
    }

    /// A world of this account.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    #[track_caller]
    pub fn for_account(account: Account) -> Self {
        process::become_reaper();
        let program = binary::min();
        let root = tempfile::Builder::new().prefix(PREFIX).tempdir().unwrap();
        account.make_dir(root.path());
        for part in ["home", "tmp", "work"] {
            account.make_dir(&root.path().join(part));
        }
        let hooks = Hooks::new(root.path().join("hooks"), account.clone());
        let guard = Guard::new(root.path());
        Self { account, program, state_dir: root.path().join("s"), hooks, guard, root }
    }

    /// As whom it runs.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The state directory; made by the first command.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// Uses another state directory.
    pub fn set_state_dir(&mut self, path: impl Into<PathBuf>) {
        self.state_dir = path.into();
    }

    /// The directory of a box.
    #[must_use]
    pub fn box_dir(&self, id: &str) -> PathBuf {
        self.state_dir.join("boxes").join(id)
    }

    /// A directory for the scenario's own files; commands start in it.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The home directory of commands.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The scenario's whole directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// Writes a file of the account's below [`TestEnv::work`].
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
            self.account.make_dir(parent);
        }
        fs::write(&path, content).unwrap();
        self.account.own(&path);
        path
    }

    /// The same, executable.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn script(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.file(name, content);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// The executable under test.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The environment of commands.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<OsString, OsString> {
        let mut path =
            self.program.parent().expect("the program lies somewhere").to_owned().into_os_string();
        path.push(":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        [
            ("PATH", path),
            ("HOME", self.home().into_os_string()),
            ("TMPDIR", self.root.path().join("tmp").into_os_string()),
            ("LANG", "C.UTF-8".into()),
            ("MINIMAL_STATE_DIR", self.state_dir.clone().into_os_string()),
            ("MINIMAL_HOOKS", self.hooks.dir().to_owned().into_os_string()),
        ]
        .map(|(name, value)| (OsString::from(name), value))
        .into()
    }

    /// `min` with these arguments.
    #[must_use]
    pub fn min(&self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Min {
        self.command(&self.program, args)
    }

    /// `min run -- argv…`.
    #[must_use]
    pub fn run(&self, argv: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Min {
        let mut args = words(["run", "--"]);
        args.extend(words(argv));
        self.min(args)
    }

    /// `min run -- sh -c script`.
    #[must_use]
    pub fn run_sh(&self, script: &str) -> Min {
        self.run(["sh", "-c", script])
    }

    /// A script for the caller's side, with `min` on its `PATH`.
    #[must_use]
    pub fn bash(&self, script: &str) -> Min {
        self.command(Path::new("/bin/bash"), ["-c", script])
    }

    /// Any program in this world.
    #[must_use]
    pub fn command(
        &self,
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Min {
        let args = words(args);
        Min::new(program.to_owned(), args, self.variables(), self.work(), self.account.clone())
    }

    /// Starts a detached box and returns its id.
    ///
    /// # Panics
    /// If it does not start.
    #[must_use]
    #[track_caller]
    pub fn detached(&self, script: &str) -> String {
        let output = self.min(["run", "-d", "--", "sh", "-c", script]).run();
        output.assert_code(0);
        output.word().to_owned()
    }

    /// `min show -o json`.
    ///
    /// # Panics
    /// If there is no such box.
    #[must_use]
    #[track_caller]
    pub fn show(&self, address: &str) -> Value {
        let output = self.min(["show", "-o", "json", address]).run();
        output.assert_code(0);
        output.json()
    }

    /// The ending of a box; null while it runs.
    #[must_use]
    #[track_caller]
    pub fn ending(&self, address: &str) -> Value {
        self.show(address)["ending"].clone()
    }

    /// The events of a box.
    #[must_use]
    #[track_caller]
    pub fn events(&self, address: &str) -> Vec<Value> {
        let output = self.min(["events", "-o", "jsonl", address]).run();
        output.assert_code(0);
        output.json_lines()
    }

    /// What a box printed, byte for byte.
    #[must_use]
    #[track_caller]
    pub fn logs(&self, address: &str) -> Vec<u8> {
        let output = self.min(["logs", address]).run();
        output.assert_code(0);
        output.stdout
    }

    /// Every box there is, newest first.
    #[track_caller]
    pub fn boxes(&self) -> Vec<Value> {
        let output = self.min(["ls", "--all", "-o", "json"]).run();
        output.assert_code(0);
        output.json()["boxes"].as_array().expect("a list has boxes").clone()
    }

    /// The newest box.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn newest(&self) -> Value {
        self.boxes().first().expect("there is a box").clone()
    }

    /// Faults at named points.
    #[must_use]
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Every living process that this test started, directly or not.
    #[must_use]
    pub fn processes(&self) -> Vec<Process> {
        process::below()
    }

    /// Those whose command line, from the program's file name on, begins with this. Not a shell that
    /// has it as an argument: that would be found before it runs.
    #[must_use]
    pub fn find(&self, beginning: &str) -> Vec<Process> {
        let begins = |process: &Process| {
            let words = process.command.split_once(' ');
            let (program, rest) = words.unwrap_or((&process.command, ""));
            let name = program.rsplit('/').next().unwrap_or(program);
            format!("{name} {rest}").starts_with(beginning)
        };
        self.processes().into_iter().filter(begins).collect()
    }

    /// Waits until a process runs that [`TestEnv::find`] finds.
    ///
    /// # Panics
    /// If none does within the limit.
    #[track_caller]
    pub fn wait_for_process(&self, beginning: &str) -> Process {
        wait_until(&format!("a process `{beginning}` runs"), LIMIT, || {
            self.find(beginning).into_iter().next().ok_or_else(|| self.processes())
        })
    }

    /// Waits until no process is left that [`TestEnv::find`] finds.
    ///
    /// # Panics
    /// If one is after the limit.
    #[track_caller]
    pub fn wait_for_no_process(&self, beginning: &str) {
        wait_until(&format!("no process `{beginning}` is left"), LIMIT, || {
            let left = self.find(beginning);
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }

    /// The daemon, if one runs.
    #[must_use]
    pub fn daemon(&self) -> Option<Process> {
        self.daemons().into_iter().next()
    }

    /// Every daemon: more than one only while one takes over from another.
    #[must_use]
    pub fn daemons(&self) -> Vec<Process> {
        self.ours("minimald")
    }

    /// `kill -9` to the daemon; waits until it is gone.
    ///
    /// # Panics
    /// If there is none within the limit.
    #[track_caller]
    pub fn kill_daemon(&self) {
        wait_until("a daemon runs", LIMIT, || self.daemon().ok_or_else(|| self.processes())).kill();
    }

    /// The keeper of a box.
    ///
    /// # Panics
    /// If there is none within the limit.
    #[must_use]
    #[track_caller]
    pub fn keeper(&self, id: &str) -> Process {
        wait_until(&format!("{id} has a keeper"), LIMIT, || {
            let of_box = |process: &Process| process.command.contains(id);
            self.keepers().into_iter().find(of_box).ok_or_else(|| self.processes())
        })
    }

    /// All keepers.
    #[must_use]
    pub fn keepers(&self) -> Vec<Process> {
        self.ours("min-keeper")
    }

    fn ours(&self, title: &str) -> Vec<Process> {
        let named = |process: &Process| {
            let first = process.command.split(' ').next().unwrap_or_default();
            first.rsplit('/').next() == Some(title)
        };
        self.processes().into_iter().filter(named).collect()
    }

    /// Ends everything this scenario runs, by `kill -9`: for one that left the world in a state in
    /// which nothing can be asked to end.
    pub fn kill_all(&self) {
        self.guard.kill_all();
    }

    /// Ends everything through the product, the daemon with its boxes, and waits until it is gone.
    ///
    /// # Panics
    /// If something is left.
    #[track_caller]
    pub fn stop_all(&self) {
        if !self.processes().is_empty() {
            self.min(["host", "stop", "--boxes", "--force"]).run().assert_code(0);
        }
        wait_until("everything has stopped", LIMIT, || {
            let left = self.processes();
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}

impl Default for TestEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.guard.report(&self.state_dir);
            self.guard.kill_all();
            cgroups::sweep(&self.state_dir);
            return;
        }
        self.stop_all();
        self.guard.check();
        wait_until("no control group of the scenario is left", LIMIT, || {
            let left = cgroups::of(&self.state_dir);
            if left.is_empty() { Ok(()) } else { Err(left) }
        });
    }
}
