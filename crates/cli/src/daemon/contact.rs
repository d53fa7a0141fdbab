//! The first contact of a command with the daemon.

use std::sync::Arc;
use std::time::Duration;

use minimal_proto::ErrorCode;
use minimal_proto::api::{API_VERSION, VersionInfo};
use minimal_sdk::{CallError, Client, ConnectError, SocketConnector};
use tokio::time::Instant;

use super::{Autospawn, silent};
use crate::build_id::build_id;
use crate::context::Context;
use crate::error::Failure;
use crate::state_paths::StatePaths;

/// How long another build's daemon may take to leave: it waits up to 5 s for boxes that are being
/// made.
const LEAVE_LIMIT: Duration = Duration::from_secs(20);

/// How often to look whether it has left.
const LOOK: Duration = Duration::from_millis(20);

/// How long a daemon that has the state directory may take to listen: it reads every box first, and
/// binds its socket again when somebody has deleted it.
const LISTEN_LIMIT: Duration = Duration::from_secs(5);

/// How often a daemon of another build is replaced. Only two builds that are used at the same
/// moment need more than once; they can talk to each other's daemon as well.
const TAKEOVERS: u32 = 3;

/// A client of a daemon of our own build, which is started if there is none.
///
/// # Errors
/// No daemon answers and none can be started.
pub async fn contact(context: &Context) -> Result<Client, Failure> {
    let paths = context.paths()?;
    let client = Client::new(Arc::new(Autospawn::new(paths, &context.env)));
    let ours = build_id();
    for takeover in 0..=TAKEOVERS {
        let foreign = match version(&client, paths).await? {
            Ok(version) if version.build == ours => return Ok(client),
            Ok(version) if takeover == TAKEOVERS && version.api == API_VERSION => {
                context.printer.detail("another build's daemon keeps coming back; using it");
                return Ok(client);
            }
            Ok(version) => format!("build {}, pid {}", version.build, version.pid),
            // A daemon whose answer we cannot read is of another build.
            Err(CallError::Malformed { .. }) => "another version".to_owned(),
            Err(error) => return Err(told(error, paths).await),
        };
        context.printer.detail(&format!("asking the daemon of {foreign} to step down"));
        match client.step_down().await {
            // Lost: it left before it had answered, or another client had asked it to.
            Ok(()) | Err(CallError::Lost { .. } | CallError::Api(_)) => {}
            Err(error) => return Err(error.into()),
        }
        wait_until_gone(context).await?;
    }
    Err(Failure::new(ErrorCode::Unreachable, "a daemon of another build keeps coming back"))
}

/// A client of the daemon that runs; `None` if none does. Starts nothing.
///
/// # Errors
/// Whoever listens cannot be asked.
pub async fn if_running(context: &Context) -> Result<Option<Client>, Failure> {
    let paths = context.paths()?;
    let client = Client::new(Arc::new(SocketConnector::new(paths.socket())));
    let deadline = Instant::now() + LISTEN_LIMIT;
    loop {
        match version(&client, paths).await? {
            Ok(_) | Err(CallError::Malformed { .. }) => return Ok(Some(client)),
            Err(CallError::Connect(ConnectError::Absent { .. })) => {}
            // It was there and went; another one did not come.
            Err(CallError::GaveUp { source, .. })
                if matches!(*source, CallError::Connect(ConnectError::Absent { .. })) => {}
            Err(error) => return Err(told(error, paths).await),
        }
        // Nobody listens. One that starts or leaves has the lock for a moment all the same.
        match silent::running(paths).await {
            None => return Ok(None),
            Some(daemon) if Instant::now() >= deadline => {
                return Err(silent::not_listening(paths, daemon.pid).into());
            }
            Some(_) => tokio::time::sleep(LOOK).await,
        }
    }
}

/// Asks which daemon answers, for as long as it is not known why none does.
async fn version(
    client: &Client,
    paths: &StatePaths,
) -> Result<Result<VersionInfo, CallError>, Failure> {
    tokio::select! {
        answer = client.version() => Ok(answer),
        pid = silent::stopped(paths) => Err(silent::is_stopped(pid)),
    }
}

/// A call that failed, in words: with the daemon's pid where it is the daemon that is silent.
async fn told(error: CallError, paths: &StatePaths) -> Failure {
    let is_silent =
        matches!(error, CallError::Silent { .. } | CallError::Connect(ConnectError::Silent { .. }));
    let failure = Failure::from(error);
    if is_silent { silent::with_pid(failure, paths).await } else { failure }
}

/// Waits until the daemon that was asked to leave is gone, or another one is in its place.
pub async fn wait_until_gone(context: &Context) -> Result<(), Failure> {
    let socket = context.paths()?.socket();
    let deadline = Instant::now() + LEAVE_LIMIT;
    while Instant::now() < deadline {
        match minimal_sdk::connect(&socket).await {
            Err(ConnectError::Absent { .. }) => return Ok(()),
            Err(error) => return Err(CallError::from(error).into()),
            Ok(_answers) => tokio::time::sleep(LOOK).await,
        }
    }
    Err(Failure::new(
        ErrorCode::Unreachable,
        format!("the daemon at `{}` was asked to leave and does not", socket.display()),
    ))
}
