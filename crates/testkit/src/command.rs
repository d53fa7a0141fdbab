//! Running `min`, and anything else, in a scenario's world.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal};
use serde_json::Value;

use crate::process::wait_pidfd;
use crate::{Account, LIMIT, Process};

/// What a command gets as its standard input.
#[derive(Debug)]
enum Input {
    Null,
    Bytes(Vec<u8>),
    Piped,
    File(File),
}

/// A command to run.
#[derive(Debug)]
pub struct Min {
    program: PathBuf,
    args: Vec<OsString>,
    variables: BTreeMap<OsString, OsString>,
    directory: PathBuf,
    account: Account,
    input: Input,
    stdout: Option<File>,
    stderr: Option<File>,
    limit: Duration,
}

impl Min {
    pub(crate) fn new(
        program: PathBuf,
        args: Vec<OsString>,
        variables: BTreeMap<OsString, OsString>,
        directory: PathBuf,
        account: Account,
    ) -> Self {
        Self {
            program,
            args,
            variables,
            directory,
            account,
            input: Input::Null,
            stdout: None,
            stderr: None,
            limit: LIMIT * 2,
        }
    }

    /// Another program in place of this one, with the same arguments.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Runs it as another account than the scenario's.
    #[must_use]
    pub fn account(mut self, account: Account) -> Self {
        self.account = account;
        self
    }

    /// A further argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Takes a variable away.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.variables.remove(name.as_ref());
        self
    }

    /// Starts it in this directory.
    #[must_use]
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Gives it these bytes and then end of file.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Bytes(bytes.into());
        self
    }

    /// Gives it a pipe that the test writes: [`Running::write`], [`Running::close_stdin`].
    #[must_use]
    pub fn stdin_piped(mut self) -> Self {
        self.input = Input::Piped;
        self
    }

    /// Gives it an open file.
    #[must_use]
    pub fn stdin_file(mut self, file: File) -> Self {
        self.input = Input::File(file);
        self
    }

    /// Sends its standard output there; [`Output::stdout`] is then empty.
    #[must_use]
    pub fn stdout_file(mut self, file: File) -> Self {
        self.stdout = Some(file);
        self
    }

    /// Sends its standard error there; [`Output::stderr`] is then empty.
    #[must_use]
    pub fn stderr_file(mut self, file: File) -> Self {
        self.stderr = Some(file);
        self
    }

    /// When to give up on it: a failure, not a measurement.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started, or does not end within the limit.
    #[track_caller]
    pub fn run(self) -> Output {
        self.spawn().wait()
    }

    /// Starts it.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    #[track_caller]
    pub fn spawn(self) -> Running {
        let shown = std::iter::once(self.program.file_name().unwrap_or_default())
            .chain(self.args.iter().map(OsString::as_os_str))
            .map(|word| word.to_string_lossy().chars().take(200).collect::<String>())
            .collect::<Vec<_>>()
            .join(" ");
        let mut command = Command::new(&self.program);
        command.args(&self.args).env_clear().envs(&self.variables).current_dir(&self.directory);
        self.account.apply(&mut command);
        let (stdin, to_write) = match self.input {
            Input::Null => (Stdio::null(), None),
            Input::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
            Input::Piped => (Stdio::piped(), None),
            Input::File(file) => (file.into(), None),
        };
        command.stdin(stdin);
        command.stdout(self.stdout.map_or_else(Stdio::piped, Stdio::from));
        command.stderr(self.stderr.map_or_else(Stdio::piped, Stdio::from));
        let mut child = command.spawn().unwrap_or_else(|error| panic!("start `{shown}`: {error}"));
        let pid = Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let stdout = child.stdout.take().map(Collector::new);
        let stderr = child.stderr.take().map(Collector::new);
        let stdin = child.stdin.take();
        let mut running = Running {
            shown,
            child: Some(child),
            pidfd,
            stdin,
            writer: None,
            stdout,
            stderr,
            limit: self.limit,
        };
        if let Some(bytes) = to_write {
            let mut stdin = running.stdin.take().expect("bytes go through a pipe");
            // A reader that leaves early is for the test to judge by other means.
            running.writer = Some(std::thread::spawn(move || drop(stdin.write_all(&bytes))));
        }
        running
    }
}

/// A command that runs. Killed when dropped without [`Running::wait`].
#[derive(Debug)]
pub struct Running {
    shown: String,
    child: Option<Child>,
    pidfd: OwnedFd,
    stdin: Option<ChildStdin>,
    writer: Option<JoinHandle<()>>,
    stdout: Option<Collector>,
    stderr: Option<Collector>,
    limit: Duration,
}

impl Running {
    /// Its process.
    ///
    /// # Panics
    /// If it has been waited for.
    #[must_use]
    pub fn process(&self) -> Process {
        let pid = i32::try_from(self.child.as_ref().expect("it is waited for once").id()).unwrap();
        Process::read(pid).expect("a child stays readable until it is waited for")
    }

    /// Signals it.
    ///
    /// # Panics
    /// If the kernel refuses.
    pub fn signal(&self, signal: Signal) {
        rustix::process::pidfd_send_signal(&self.pidfd, signal).unwrap();
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        wait_pidfd(&self.pidfd, Duration::ZERO)
    }

    /// Writes to its standard input.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("started with stdin_piped, and not closed");
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Ends its standard input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    /// Waits until its standard output so far satisfies `enough`, and returns it.
    ///
    /// # Panics
    /// If it does not within the limit.
    #[track_caller]
    pub fn stdout_until(&self, what: &str, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let collector = self.stdout.as_ref().expect("its standard output is collected");
        collector.until(self.limit, enough).unwrap_or_else(|so_far| {
            panic!("`{}` never printed {what}; it printed:\n{}", self.shown, self.report(&so_far))
        })
    }

    /// Waits until its standard output holds `text`.
    ///
    /// # Panics
    /// If it does not within the limit.
    #[track_caller]
    pub fn wait_for_stdout(&self, text: &str) {
        self.stdout_until(&format!("{text:?}"), |so_far| contains(so_far, text.as_bytes()));
    }

    /// Waits until its standard error holds `text`.
    ///
    /// # Panics
    /// If it does not within the limit.
    #[track_caller]
    pub fn wait_for_stderr(&self, text: &str) {
        let collector = self.stderr.as_ref().expect("its standard error is collected");
        if let Err(so_far) = collector.until(self.limit, |so_far| contains(so_far, text.as_bytes()))
        {
            panic!(
                "`{}` never said {text:?}; it said:\n{}",
                self.shown,
                String::from_utf8_lossy(&so_far),
            );
        }
    }

    /// What it has printed so far.
    #[must_use]
    pub fn stdout_so_far(&self) -> Vec<u8> {
        self.stdout.as_ref().map(Collector::so_far).unwrap_or_default()
    }

    /// Waits until it has ended.
    ///
    /// # Panics
    /// If it has not within the limit.
    #[track_caller]
    pub fn wait(mut self) -> Output {
        self.stdin = None;
        if !wait_pidfd(&self.pidfd, self.limit) {
            let so_far = self.stdout_so_far();
            panic!(
                "`{}` did not end within {:?}:\n{}",
                self.shown,
                self.limit,
                self.report(&so_far)
            );
        }
        let status = self.child.take().expect("it is waited for once").wait().unwrap();
        if let Some(writer) = self.writer.take() {
            drop(writer.join());
        }
        let finish = |collector: Option<Collector>, which| match collector {
            Some(collector) => collector.finish(self.limit).unwrap_or_else(|so_far| {
                panic!(
                    "`{}` has ended, but something still holds its standard {which}: {}",
                    self.shown,
                    String::from_utf8_lossy(&so_far),
                )
            }),
            None => Vec::new(),
        };
        let stdout = finish(self.stdout.take(), "output");
        let stderr = finish(self.stderr.take(), "error");
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Output { shown: self.shown.clone(), status, stdout, stderr }
    }

    fn report(&self, stdout: &[u8]) -> String {
        let stderr = self.stderr.as_ref().map(Collector::so_far).unwrap_or_default();
        format!("stdout: {}\nstderr: {}", shorten(stdout), shorten(&stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// What a command that has ended did.
#[derive(Debug)]
pub struct Output {
    shown: String,
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it said.
    pub stderr: String,
}

impl Output {
    /// Its exit code; `None` if a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// What it printed, as text.
    ///
    /// # Panics
    /// If it is not UTF-8.
    #[must_use]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// What it printed, without white space at the ends.
    #[must_use]
    pub fn word(&self) -> &str {
        self.text().trim()
    }

    /// What it printed, as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON: {error}\n{self}"))
    }

    /// What it printed, as one JSON value a line.
    ///
    /// # Panics
    /// If a line is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let line = |line: &str| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{line:?} is not JSON: {error}\n{self}"))
        };
        self.text().lines().map(line).collect()
    }

    /// The error object on its standard error, as `-o json` gives it.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn error(&self) -> Value {
        let line = self.stderr.lines().rev().find(|line| line.starts_with('{'));
        line.and_then(|line| serde_json::from_str(line).ok())
            .unwrap_or_else(|| panic!("there is no error object on stderr\n{self}"))
    }

    /// Checks its exit code.
    ///
    /// # Panics
    /// If it is another.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code(), Some(code), "{self}");
        self
    }

    /// Checks that it printed exactly this.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    pub fn assert_stdout(&self, expected: impl AsRef<[u8]>) -> &Self {
        assert!(
            self.stdout == expected.as_ref(),
            "expected {}\n{self}",
            shorten(expected.as_ref())
        );
        self
    }

    /// Checks that its standard error holds this.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_stderr_has(&self, part: &str) -> &Self {
        assert!(self.stderr.contains(part), "stderr does not hold {part:?}\n{self}");
        self
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "`{}`: {}\nstdout: {}\nstderr: {}",
            self.shown,
            self.status,
            shorten(&self.stdout),
            shorten(self.stderr.as_bytes()),
        )
    }
}

/// The start and end of long bytes, for a message.
fn shorten(bytes: &[u8]) -> String {
    const EACH: usize = 1500;
    if bytes.len() <= 2 * EACH {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let (start, end) = (&bytes[..EACH], &bytes[bytes.len() - EACH..]);
    format!(
        "{}\n[… {} bytes …]\n{}",
        String::from_utf8_lossy(start),
        bytes.len() - 2 * EACH,
        String::from_utf8_lossy(end),
    )
}

/// Whether `text` occurs in `bytes`.
#[must_use]
pub fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len().max(1)).any(|window| window == text)
}

/// Reads a pipe into memory, so that nobody blocks on the test, and tells when there is more.
#[derive(Debug)]
struct Collector {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Collected>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Collected {
    bytes: Vec<u8>,
    ended: bool,
}

impl Collector {
    fn new(mut from: impl Read + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            loop {
                let read = from.read(&mut buffer).unwrap_or(0);
                let mut state = writer.state.lock().unwrap();
                state.bytes.extend_from_slice(&buffer[..read]);
                state.ended = read == 0;
                writer.changed.notify_all();
                if read == 0 {
                    return;
                }
            }
        });
        Self { shared }
    }

    fn so_far(&self) -> Vec<u8> {
        self.shared.state.lock().unwrap().bytes.clone()
    }

    /// The bytes once they are enough; else, at the end or the limit, those there are.
    fn until(&self, limit: Duration, enough: impl Fn(&[u8]) -> bool) -> Result<Vec<u8>, Vec<u8>> {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.state.lock().unwrap();
        loop {
            if enough(&state.bytes) {
                return Ok(state.bytes.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.ended || left.is_zero() {
                return Err(state.bytes.clone());
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    /// All bytes once the pipe has ended; else, at the limit, those there are.
    fn finish(&self, limit: Duration) -> Result<Vec<u8>, Vec<u8>> {
        let state = self.shared.state.lock().unwrap();
        let (mut state, _) =
            self.shared.changed.wait_timeout_while(state, limit, |state| !state.ended).unwrap();
        let bytes = std::mem::take(&mut state.bytes);
        if state.ended { Ok(bytes) } else { Err(bytes) }
    }
}

/// Where a command line's words come from.
pub(crate) fn words(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Vec<OsString> {
    args.into_iter().map(|arg| arg.as_ref().to_owned()).collect()
}

/// Reads a file that a command wrote, as JSON.
///
/// # Panics
/// If it is not there or not JSON.
#[must_use]
#[track_caller]
pub fn json_file(path: &Path) -> Value {
    let text =
        std::fs::read(path).unwrap_or_else(|error| panic!("read {}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| {
        panic!("{} is not JSON: {error}: {}", path.display(), String::from_utf8_lossy(&text))
    })
}
