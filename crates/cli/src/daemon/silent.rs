//! Daemons that are there and cannot be reached: who they are, and what to do.

use std::time::Duration;

use minimal_linux::record_lock::Holder;
use minimal_proto::{ErrorBody, ErrorCode};

use crate::error::Failure;
use crate::state_paths::StatePaths;

/// How long the state directory may take to say whose it is.
const DISK_LIMIT: Duration = Duration::from_secs(2);

/// Who is the daemon that has the state directory, for people. `None` if none is, or the directory
/// does not answer.
pub async fn running(paths: &StatePaths) -> Option<Holder> {
    let path = paths.state_dir.clone();
    // On a thread of its own: a dead network mount would not let go of this one.
    let asking = tokio::task::spawn_blocking(move || minimal_store::daemon(&path).ok().flatten());
    tokio::time::timeout(DISK_LIMIT, asking).await.ok()?.ok()?
}

/// A daemon has the state directory and does not listen at our socket.
pub(super) fn not_listening(paths: &StatePaths, pid: Option<i32>) -> ErrorBody {
    let message = format!(
        "a daemon{} has the state directory `{}`, but does not listen at `{}`",
        pid.map_or_else(String::new, |pid| format!(" (pid {pid})")),
        paths.state_dir.display(),
        paths.socket().display()
    );
    let hint = match pid {
        None => {
            "it may have been started with another MINIMAL_SOCKET: use that, or end it".to_owned()
        }
        Some(pid) => format!(
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
        let pid = running(paths).await.and_then(|daemon| daemon.pid);
        let Some(pid) = pid.filter(|pid| is_in_stop(*pid)) else {
            looks = 0;
            continue;
        };
        looks += 1;
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
    match running(paths).await {
        Some(Holder { pid: Some(pid) }) => failure
            .while_trying(format!("the daemon (pid {pid}) does not answer"))
            .detail("pid", pid)
            .hint(format!("end it with `kill -9 {pid}`; boxes run on")),
        Some(Holder { pid: None }) | None => failure,
    }
}

/// Whether a process was stopped by a signal (proc_pid_stat(5)).
fn is_in_stop(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}
