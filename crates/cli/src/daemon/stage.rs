//! The process that becomes the daemon: it leaves the world of whoever started it.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use minimal_daemon::Config;
use minimal_proto::{ErrorBody, ErrorCode, Readiness, Signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::build_id::build_id;
use crate::env::Env;
use crate::state_paths::StatePaths;

/// The name by which the executable knows that it is the daemon (`argv[0]`).
pub const ARGV0: &str = "minimald";
/// The same, where `argv[0]` cannot be chosen: the first argument.
pub const SUBCOMMAND: &str = "__minimald";
/// Detach, and tell on standard output what became of the start.
pub(super) const TELL: &str = "--tell";

/// What the daemon is told of its place.
pub(super) fn arguments(paths: &StatePaths) -> Vec<OsString> {
    let mut words = vec!["--state-dir".into(), paths.state_dir.clone().into()];
    if let Some(socket) = &paths.socket {
        words.extend(["--socket".into(), socket.clone().into()]);
    }
    words
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    state_dir: Option<PathBuf>,
    socket: Option<PathBuf>,
    tell: bool,
}

impl Options {
    fn parse(arguments: &[OsString]) -> Option<Self> {
        let mut options = Self::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.to_str()? {
                "--state-dir" => options.state_dir = Some(words.next()?.into()),
                "--socket" => options.socket = Some(words.next()?.into()),
                TELL => options.tell = true,
                _ => return None,
            }
        }
        Some(options)
    }
}

/// The body of the process called [`ARGV0`].
///
/// Without arguments, as a service manager would start it: in the foreground, in the usual place.
#[must_use]
pub fn main(arguments: &[OsString]) -> ExitCode {
    let Some(options) = Options::parse(arguments) else { return ExitCode::from(2) };
    let paths = match options.state_dir {
        Some(state_dir) => StatePaths { state_dir, socket: options.socket },
        None => match StatePaths::find(&Env::read()) {
            Ok(paths) => paths,
            Err(_) => return ExitCode::from(2),
        },
    };
    let ready = if options.tell {
        match leave() {
            Ok(ready) => Some(ready),
            Err(()) => return ExitCode::FAILURE,
        }
    } else {
        prepare();
        None
    };
    let config = Config {
        state_dir: paths.state_dir,
        socket: paths.socket,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: build_id(),
        ready,
    };
    match minimal_daemon::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_told) => ExitCode::FAILURE,
    }
}

/// Leaves the starter's session, directory and descriptors. What is given back is the pipe to it.
fn leave() -> Result<OwnedFd, ()> {
    let tell = std::io::stdout().as_fd().try_clone_to_owned().map_err(drop)?;
    let attempt = || -> std::io::Result<()> {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        for number in 0..=2 {
            minimal_linux::fds::set_standard(null.as_fd(), number)?;
        }
        drop(null);
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let keep = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd(), tell.as_fd()];
        minimal_linux::fds::close_all_except(&keep)?;
        prepare();
        std::env::set_current_dir(Path::new("/"))?;
        minimal_linux::daemonize::detach()
    };
    attempt().map_err(|error| {
        let message = format!("start the daemon: leave the starter's session: {error}");
        let failed = Readiness::Failed(ErrorBody::new(ErrorCode::Unreachable, message));
        rustix::io::write(&tell, failed.to_line().as_bytes()).ok();
    })?;
    Ok(tell)
}

/// Undoes what the starter may have set for itself, where the kernel lets us.
fn prepare() {
    minimal_linux::signals::reset();
    // A peer that is gone is an error of the write, not our end.
    minimal_linux::signals::ignore(Signal::PIPE);
    // And so is a file that grows past our starter's limit.
    minimal_linux::signals::ignore(Signal::XFSZ);
    rustix::thread::set_name(c"minimald").ok();
    // Raising the priority takes privilege; without it the starter's stays.
    rustix::process::setpriority_process(None, 0).ok();
    for resource in [
        Resource::As,
        Resource::Cpu,
        Resource::Data,
        Resource::Fsize,
        Resource::Nofile,
        Resource::Nproc,
        Resource::Rss,
    ] {
        let hard = getrlimit(resource).maximum;
        // A soft limit at the hard one is always allowed.
        setrlimit(resource, Rlimit { current: hard, maximum: hard }).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_they_are_written() {
        let paths = StatePaths { state_dir: "/s".into(), socket: Some("/x".into()) };
        let mut words = arguments(&paths);
        words.push(TELL.into());
        let options = Options::parse(&words).unwrap();
        assert_eq!(options.state_dir, Some("/s".into()));
        assert_eq!(options.socket, Some("/x".into()));
        assert!(options.tell);
        assert_eq!(Options::parse(&["--nosuch".into()]), None);
        assert_eq!(Options::parse(&["--socket".into()]), None);
    }
}
