//! Daemons that are there and cannot be reached: who they are, and what to do.

use std::time::Duration;

use minimal_proto::{ErrorBody, ErrorCode};

use crate::error::Failure;
use crate::state_paths::StatePaths;

/// How long the state directory may take to say whose it is.
const DISK_LIMIT: Duration = Duration::from_secs(2);

/// The pid of the daemon that has the state directory, for people: 0 if it cannot be seen. `None` if
/// none has, or the directory does not answer.
pub async fn daemon_pid(paths: &StatePaths) -> Option<i32> {
    let path = paths.state_dir.clone();
    // On a thread of its own: a dead network mount would not let go of this one.
    let asking =
        tokio::task::spawn_blocking(move || minimal_store::daemon_pid(&path).ok().flatten());
    tokio::time::timeout(DISK_LIMIT, asking).await.ok()?.ok()?
}

/// A daemon has the state directory and does not listen at our socket. `pid` is 0 if it is unknown.
pub(super) fn not_listening(paths: &StatePaths, pid: i32) -> ErrorBody {
    let message = format!(
        "a daemon{} has the state directory `{}`, but does not listen at `{}`",
        in_words(pid),
        paths.state_dir.display(),
        paths.socket().display()
    );
    let hint = match pid {
        0 => "it may have been started with another MINIMAL_SOCKET: use that, or end it".to_owned(),
        pid => format!(
            "it may have been started with another MINIMAL_SOCKET: use that, or end it with \
             `kill {pid}`; boxes run on"
        ),
    };
    ErrorBody::new(ErrorCode::Unreachable, message).with_hint(hint).with_detail("pid", pid)
}

/// How often it is looked whether a silent daemon was stopped, and how often it has to look so.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS: u32 = 4;

/// Completes once the daemon has been stopped by a signal for a while, with its pid.
pub(super) async fn stopped(paths: &StatePaths) -> i32 {
    let mut looks = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        let pid = daemon_pid(paths).await.unwrap_or(0);
        looks = if pid != 0 && is_in_stop(pid) { looks + 1 } else { 0 };
        if looks >= LOOKS {
            return pid;
        }
    }
}

/// The daemon was stopped by a signal, and answers nothing.
pub(super) fn is_stopped(pid: i32) -> Failure {
    let message = format!("the daemon (pid {pid}) was stopped by a signal, and does not answer");
    Failure::new(ErrorCode::Unreachable, message)
        .detail("pid", pid)
        .hint(format!("`kill -CONT {pid}` lets it go on"))
}

/// Adds to a daemon's silence who it is, as far as its lock shows.
pub(super) async fn with_pid(failure: Failure, paths: &StatePaths) -> Failure {
    match daemon_pid(paths).await {
        Some(pid) if pid != 0 => failure
            .while_trying(format!("the daemon (pid {pid}) does not answer"))
            .detail("pid", pid)
            .hint(format!("end it with `kill -9 {pid}`; boxes run on")),
        Some(_) | None => failure,
    }
}

/// Whether a process was stopped by a signal (proc_pid_stat(5)).
fn is_in_stop(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

fn in_words(pid: i32) -> String {
    if pid == 0 { String::new() } else { format!(" (pid {pid})") }
}
