//! `min doctor`: what this host can and cannot isolate, each with what to do.

mod boxes;
mod checks;
mod kernel;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use minimal_proto::ErrorCode;
use minimal_proto::api::Isolation;
use serde::Serialize;
use serde_json::json;

use crate::args::Format;
use crate::build_id::build_id;
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use kernel::Kernel;
pub(crate) use kernel::with_cause;

/// How long the state directory may take to answer.
const DISK_LIMIT: Duration = Duration::from_secs(5);

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// Works, but a person should know.
    Warn,
    /// Something that is needed does not work.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// How it is.
    pub status: Status,
    /// What was found.
    pub message: String,
    /// What to do, where there is something to do.
    pub fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, message: message.into(), fix: None }
    }

    fn warn(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Warn, message: message.into(), fix: Some(fix.into()) }
    }

    fn fail(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: Status::Fail, message: message.into(), fix: Some(fix.into()) }
    }
}

/// Looks at the host.
pub(super) async fn run(context: &Context) -> Result<Exit, Failure> {
    // First, while this process has one thread.
    let probed = minimal_linux::probe::user_namespaces();
    let tried = probed.is_ok().then(boxes::Tried::now);
    let mut found = vec![
        checks::kernel(&rustix::system::uname().release().to_string_lossy()),
        checks::user_namespaces(probed, &Kernel::read()),
    ];
    // Without namespaces there is nothing to say of what is made in them.
    found.extend(tried.into_iter().flat_map(boxes::Tried::checks));
    match context.paths() {
        Ok(paths) => {
            let state = state_dir(paths.state_dir.clone()).await;
            let socket = checks::socket(&paths.socket());
            let can_start = state.status != Status::Fail && socket.is_none();
            found.push(state);
            found.extend(socket);
            found.push(daemon(context, can_start).await);
            let pid = daemon::running(paths).await.and_then(|daemon| daemon.pid);
            found.extend(pid.and_then(checks::daemon_limits));
        }
        Err(failure) => found.push(Check::fail(
            "state directory",
            failure.in_one_line(),
            failure.hint.unwrap_or_default(),
        )),
    }
    found.extend(checks::linger(&context.env));
    match context.printer.format() {
        Format::Table => context.printer.data(text(&found).as_bytes())?,
        Format::Json | Format::Jsonl => {
            context.printer.json(&json!({"schema": "min/v1/doctor", "checks": found}))?;
        }
    }
    let failed = found.iter().any(|check| check.status == Status::Fail);
    Ok(if failed { Exit::Fault(ErrorCode::Internal) } else { Exit::Done })
}

fn text(found: &[Check]) -> String {
    let mut text = String::new();
    for Check { name, status, message, fix } in found {
        let status = match status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        writeln!(text, "{status}  {name}: {message}").expect("a String takes all");
        if let Some(fix) = fix {
            writeln!(text, "      fix: {fix}").expect("a String takes all");
        }
    }
    text
}

/// On a thread of its own: a dead network mount would not let go of this one.
async fn state_dir(path: PathBuf) -> Check {
    let shown = path.display().to_string();
    let looking = tokio::task::spawn_blocking(move || checks::state_dir(&path));
    match tokio::time::timeout(DISK_LIMIT, looking).await {
        Ok(check) => check.expect("looking at a directory does not panic"),
        Err(_elapsed) => Check::fail(
            "state directory",
            format!("`{shown}` has not answered within {} s", DISK_LIMIT.as_secs()),
            "set MINIMAL_STATE_DIR to a directory on a local disk",
        ),
    }
}

/// `can_start`: what was looked at before is in no daemon's way.
async fn daemon(context: &Context, can_start: bool) -> Check {
    let name = "daemon";
    let client = match daemon::if_running(context).await {
        Ok(None) if can_start => {
            return Check::ok(name, "does not run; it starts when it is needed");
        }
        Ok(None) => return Check::fail(name, "does not run, and cannot start", "as said above"),
        Ok(Some(client)) => client,
        Err(failure) => {
            let fix = match (&failure.hint, can_start) {
                (Some(hint), _) => hint.clone(),
                (None, true) => "set MINIMAL_STATE_DIR to a directory of your own".to_owned(),
                (None, false) => "as said above".to_owned(),
            };
            return Check::fail(name, failure.in_one_line(), fix);
        }
    };
    let host = match client.host().await {
        Ok(host) => host,
        Err(error) => {
            let message = Failure::from(error).in_one_line();
            return Check::fail(name, message, "`min host stop`, and run this again");
        }
    };
    let (pid, version) = (host.version.pid, &host.version);
    if let Isolation::Unavailable { reason } = host.isolation {
        let message = format!("pid {pid} cannot isolate: {reason}");
        return Check::fail(name, message, "`min host stop` once the host allows it");
    }
    if version.build != build_id() {
        let message = format!("pid {pid} is of another build, {}", version.version);
        return Check::warn(name, message, "nothing: the next command replaces it");
    }
    Check::ok(name, format!("answers, pid {pid}, of this build"))
}
