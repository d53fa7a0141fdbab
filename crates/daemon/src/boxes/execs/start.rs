//! Running a command in a box.

use std::sync::Arc;
use std::time::Duration;

use minimal_proto::api::CreateExec;
use minimal_proto::error::Chain;
use minimal_proto::exec::{ExecCommand, ExecMode};
use minimal_proto::keeper::{ExecStanding, ExecStart, FromKeeper, ToKeeper};
use minimal_proto::{ErrorBody, ErrorCode, ExecId, State};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::look::{ExecEntry, Place};
use super::{actor, too_late};
use crate::boxes::Live;
use crate::boxes::link::{Link, LinkError};
use crate::boxes::view::View;
use crate::hooks;

/// How long a keeper that answers may take to run a command. It bounds each step itself.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long a keeper that seems silent has in any case.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// How often a keeper that has not answered yet is looked after.
const LOOK: Duration = Duration::from_millis(500);

/// How long the ending of a start that failed may take to be brought to disk.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The longest argv and values together, in bytes: what the kernel takes (execve(2)).
const LONGEST: usize = 6 << 20;

/// What came of a request: an exec that runs or has failed to start.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) exec: ExecEntry,
    /// Whether an earlier request with the same key has made it.
    pub(crate) repeated: bool,
}

/// What tells a repeat of a request: its key, and what it asked for.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) key: String,
    pub(super) digest: String,
}

/// Runs a command in a box.
///
/// To be run in a task of its own: a client that leaves must not cut it short.
///
/// # Errors
/// Nothing was run; or (`exit_unknown`) it is not known.
pub(crate) async fn start(
    place: Place,
    request: CreateExec,
    key: Option<String>,
) -> Result<Started, ErrorBody> {
    check(&request)?;
    let mark = key.map(|key| Mark { key, digest: digest(&request.command) });
    let live = match &place {
        Place::Live(live) if !live.view.borrow().has_ended() => Arc::clone(live),
        Place::Live(live) => {
            live.ended().await?;
            return too_late::from_disk(&place, None, mark.as_ref()).await;
        }
        Place::Ended(..) => return too_late::from_disk(&place, None, mark.as_ref()).await,
    };
    is_running(&live)?;
    if !live.facts.exec_enabled {
        let message = format!("the spec of box `{}` says io.exec_enabled = false", live.name);
        return Err(live.line.whose.error(ErrorCode::Refused, message));
    }
    let (mut link, hello) = match actor::connect(&live).await {
        Ok(connected) => connected,
        Err(error @ LinkError::Silent) => return Err(unreachable(&live, &error)),
        Err(error) => {
            let otherwise = unreachable(&live, &error);
            return too_late::answer(&live, None, mark.as_ref(), otherwise).await;
        }
    };
    if hello.execs.is_none() {
        let message = format!(
            "the keeper of box `{}` is of an earlier build, which runs no execs",
            live.name
        );
        return Err(live
            .line
            .whose
            .error(ErrorCode::NotSupported, message)
            .with_hint("boxes that are started from now on take them"));
    }
    if request.command.mode == ExecMode::Tty && !hello.terminals {
        let message = format!(
            "the keeper of box `{}` is of an earlier build, which gives no terminals",
            live.name
        );
        return Err(live.line.whose.error(ErrorCode::NotSupported, message));
    }
    let CreateExec { command, values } = request;
    let (program, arguments) = (command.argv[0].to_lossy(), command.argv.len() - 1);
    let id = ExecId::from_uuid(Uuid::now_v7());
    let (idempotency_key, request_digest) =
        mark.as_ref().map(|mark| (mark.key.clone(), mark.digest.clone())).unzip();
    let start = ExecStart { exec: id, command, values, idempotency_key, request_digest };
    pass("daemon.exec.before_ask").await?;
    link.send(&ToKeeper::Exec(Box::new(start)));
    pass("daemon.exec.after_asked").await?;
    let standing = match standing(&live, &mut link).await {
        Ok(answer) => answer?,
        Err(error @ LinkError::Silent) => return Err(unreachable(&live, &error)),
        Err(error) => {
            let otherwise = unanswered(&live, &error);
            return too_late::answer(&live, Some(id), mark.as_ref(), otherwise).await;
        }
    };
    let repeated = standing.exec != id;
    let exec = match repeated {
        true => actor::adopt(&live, link, &standing).await?,
        false => actor::serve(&live, link, &standing).await?,
    };
    tracing::info!(box_id = %live.id, exec = %standing.exec, program, arguments, repeated, "exec");
    if standing.started_at.is_none() {
        match tokio::time::timeout(END_LIMIT, exec.line.ended()).await {
            Ok(ended) => drop(ended?),
            Err(_elapsed) => {
                let why = "it has not written down that a start failed";
                return Err(exec.line.whose.unresponsive(why));
            }
        }
    }
    pass("daemon.exec.after_started").await?;
    Ok(Started { exec: ExecEntry::Live(exec), repeated })
}

/// The keeper's answer. One that is silent is given up, and runs nothing once it wakes.
async fn standing(
    live: &Live,
    link: &mut Link,
) -> Result<Result<ExecStanding, ErrorBody>, LinkError> {
    let answered = async {
        loop {
            match link.next().await? {
                FromKeeper::Exec(standing) => return Ok(Ok(standing)),
                FromKeeper::Refused { error } => return Ok(Err(error)),
                // What it says before is about its box, which another connection hears too.
                _ => {}
            }
        }
    };
    unless_silent(live, answered).await
}

/// Waits for something of a keeper, for as long as the box's own connection shows that it is there: one
/// with hundreds of commands to run may take its time, and one that is stopped is noticed within 3 s.
///
/// # Errors
/// It is silent.
pub(super) async fn unless_silent<T>(
    live: &Live,
    answer: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let begun = tokio::time::Instant::now();
    let mut looks = tokio::time::interval(LOOK);
    let mut view = live.view.clone();
    // When a keeper that seems silent is taken to be; looked at by the other arm until then.
    let mut patience = None;
    let mut actor_lives = true;
    tokio::pin!(answer);
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            faulty = view.wait_for(|view| view.fault.is_some()), if patience.is_none() && actor_lives => {
                match faulty {
                    // It may have been silent before, and be just about to answer.
                    Ok(_) => patience = Some(begun + PATIENCE),
                    // The box has ended: its keeper closes the connection, or answers.
                    Err(_closed) => actor_lives = false,
                }
            }
            () = tokio::time::sleep_until(patience.unwrap_or(begun + START_LIMIT)) => {
                if patience.is_none() || live.view.borrow().fault.is_some() {
                    return Err(LinkError::Silent);
                }
                patience = None;
            }
            _ = looks.tick() => live.line.probe(),
        }
    }
}

async fn pass(point: &'static str) -> Result<(), ErrorBody> {
    hooks::pass(point).await.map_err(|error| {
        ErrorBody::new(ErrorCode::Internal, format!("pass a fault point: {error}"))
    })
}

/// Refuses what no keeper could run.
fn check(request: &CreateExec) -> Result<(), ErrorBody> {
    let CreateExec { command, values } = request;
    let wrong = |why: &str| ErrorBody::new(ErrorCode::BadRequest, why.to_owned());
    if command.argv.first().is_none_or(|program| program.as_bytes().is_empty()) {
        return Err(wrong("the exec has no program"));
    }
    if command.argv.iter().chain(values.values()).any(|text| text.as_bytes().contains(&0)) {
        return Err(wrong("an argument or a value of the exec holds a NUL byte"));
    }
    if command.cwd.as_ref().is_some_and(|cwd| cwd.as_bytes().contains(&0)) {
        return Err(wrong("the directory that the exec is to start in holds a NUL byte"));
    }
    if command.user.as_ref().is_some_and(|user| user.is_empty() || user.contains('\0')) {
        return Err(wrong("the user of the exec has no name, or one with a NUL byte"));
    }
    let length = |name: usize, text: &[u8]| name + text.len() + 2;
    let arguments = command.argv.iter().map(|text| length(0, text.as_bytes()));
    let variables = values.iter().map(|(name, value)| length(name.len(), value.as_bytes()));
    if arguments.chain(variables).sum::<usize>() > LONGEST {
        return Err(wrong("arguments and variables of the exec are longer than 6 MiB together"));
    }
    let name_is_wrong = |name: &String| name.is_empty() || name.contains(['=', '\0']);
    if command.variables.iter().any(name_is_wrong) {
        return Err(wrong("a variable's name is empty, or holds `=` or a NUL byte"));
    }
    let named: std::collections::BTreeSet<_> = command.variables.iter().collect();
    if named.len() != command.variables.len() || !named.into_iter().eq(values.keys()) {
        return Err(wrong("there must be one value for each variable that is named, and no other"));
    }
    match command.timeout_ms {
        Some(0) => Err(wrong("a timeout of nothing is no timeout")),
        Some(_) | None => Ok(()),
    }
}

/// Refuses an exec in a box that does not run.
fn is_running(live: &Live) -> Result<(), ErrorBody> {
    let state = live.view.borrow().record.state;
    if state == State::Running {
        return Ok(());
    }
    Err(live.line.whose.error(ErrorCode::WrongState, not_running(live.name.as_str(), state)))
}

/// That nothing can be run in a box, because of the state it is in.
pub(super) fn not_running(name: &str, state: State) -> String {
    format!("nothing can be run in box `{name}`: it is {state}, and not running")
}

/// Why the keeper of a box could not be asked.
pub(super) fn unreachable(live: &Live, error: &LinkError) -> ErrorBody {
    let whose = &live.line.whose;
    let state = live.view.borrow().record.state;
    if live.view.borrow().has_ended() {
        return whose.error(ErrorCode::WrongState, not_running(live.name.as_str(), state));
    }
    let fault = live.view.borrow().fault.clone();
    match (error, fault) {
        (_, Some(fault)) => whose.unresponsive(&fault),
        (LinkError::Silent, None) => whose.unresponsive("it is silent; nothing was run"),
        (error, None) => whose.unresponsive(&Chain(error).to_string()),
    }
}

impl View {
    /// Whether nothing can be run any more, whatever a keeper says.
    pub(crate) fn has_ended(&self) -> bool {
        self.is_last() || self.record.state.is_ended()
    }
}

/// The keeper was asked, and has died or closed the connection without an answer.
fn unanswered(live: &Live, error: &LinkError) -> ErrorBody {
    let whose = &live.line.whose;
    let message = format!(
        "the keeper of box `{}` has not answered whether the command was run: {}",
        live.name,
        Chain(error)
    );
    whose.error(ErrorCode::ExitUnknown, message)
}

/// What tells a repeat from another request: everything but the values, which are not stored.
fn digest(command: &ExecCommand) -> String {
    let body = serde_json::to_vec(command).expect("a command has string keys only");
    Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}
