//! Execs: run, list, show, wait, stop, signal.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
#[cfg(test)]
use minimal_proto::api::ExecList;
use minimal_proto::api::{CreateExec, ExecRecord, ExecWaitAnswer, SignalBox, StopBox};
use minimal_proto::{ErrorBody, ErrorCode, ExecId};
use serde::Deserialize;
use serde_json::{Value, json};

use super::create::idempotency_key;
use super::end::END_LIMIT;
use super::error::ApiError;
use super::extract::{Asked, ExecAddress, JsonBody, OptionalBody};
use super::show::{WaitQuery, open_dir};
use super::{blocking, extract, find};
use crate::boxes::execs::{self, ExecEntry, LiveExec, Place};
use crate::boxes::{Answer, Command};
use crate::host::Host;
use crate::index::Entry;

/// Execs on a page unless another number is asked for.
const PAGE: usize = 100;
/// Most execs on a page.
const MOST: usize = 10_000;

/// The box whose execs are asked for.
pub(super) async fn place(host: &Arc<Host>, address: &str) -> Result<Place, ApiError> {
    match find(host, address)? {
        Entry::Live(live) => Ok(Place::Live(live)),
        Entry::Ended(ended) => {
            let dir = Arc::new(open_dir(host, ended.id).await?);
            Ok(Place::Ended(ended, dir))
        }
        Entry::Broken(broken) => Err(broken.as_ref().into()),
    }
}

/// Runs a command in a box.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/execs", params(("idempotency-key" = Option<String>, Header, description = "Makes the request repeatable for as long as the exec lives, and a minute.")), request_body = CreateExec, responses((status = 201, body = ExecRecord, description = "A new exec, running or with a failed start."), (status = 200, body = ExecRecord, description = "The exec of an earlier request with the same key."))))]
pub(super) async fn create(
    State(host): State<Arc<Host>>,
    extract::Address(address): extract::Address,
    headers: HeaderMap,
    JsonBody(request): JsonBody<CreateExec>,
) -> Result<Response, ApiError> {
    let key = idempotency_key(&headers)?;
    let place = place(&host, &address).await?;
    // A task of its own: a client that leaves must not cut it short.
    let started = tokio::spawn(execs::start(place, request, key));
    let started = started.await.expect("running a command does not panic")?;
    let status = if started.repeated { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(entry_record(started.exec).await)).into_response())
}

async fn entry_record(exec: ExecEntry) -> ExecRecord {
    match exec {
        ExecEntry::Live(exec) => record(&exec).await,
        ExecEntry::Ended(exec) => exec.record(),
    }
}

async fn record(exec: &Arc<LiveExec>) -> ExecRecord {
    // The end first: what is written after it must not look dropped.
    let before = exec.record(None);
    if before.log.bytes == 0 {
        return before;
    }
    let dir = Arc::clone(&exec.dir);
    let files = blocking(move || minimal_store::figures(&dir)).await;
    ExecRecord { log: exec.log_figures(before.log.bytes, files.ok()), ..before }
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct ExecQuery {
    limit: Option<usize>,
    #[cfg_attr(test, param(value_type = Option<String>))]
    after: Option<ExecId>,
}

/// A page of a box's execs, newest first.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/execs", params(ExecQuery), responses((status = 200, body = ExecList, description = "A page, newest first."))))]
pub(super) async fn list(
    State(host): State<Arc<Host>>,
    extract::Address(address): extract::Address,
    Asked(query): Asked<ExecQuery>,
) -> Result<Response, ApiError> {
    let limit = query.limit.unwrap_or(PAGE);
    if !(1..=MOST).contains(&limit) {
        let message = format!("limit is {limit}; it can be 1 to {MOST}");
        return Err(ApiError::new(ErrorCode::BadRequest, message));
    }
    let place = place(&host, &address).await?;
    let page = execs::list(place, limit, query.after).await?;
    let records = page.records.join(",");
    let next = json!(page.next);
    let body = format!(r#"{{"schema":"min/v1/exec-list","execs":[{records}],"next":{next}}}"#);
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

/// The record of an exec.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/execs/{exec}", responses((status = 200, body = ExecRecord, description = "The record."))))]
pub(super) async fn show(
    State(host): State<Arc<Host>>,
    ExecAddress(address, exec): ExecAddress,
) -> Result<Json<ExecRecord>, ApiError> {
    Ok(Json(entry_record(place(&host, &address).await?.find(&exec).await?).await))
}

/// Waits for the ending of an exec.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/execs/{exec}/wait", params(WaitQuery), responses((status = 200, body = ExecWaitAnswer, description = "The ending."))))]
pub(super) async fn wait(
    State(host): State<Arc<Host>>,
    ExecAddress(address, exec): ExecAddress,
    Asked(query): Asked<WaitQuery>,
) -> Result<Json<ExecWaitAnswer>, ApiError> {
    let exec = match place(&host, &address).await?.find(&exec).await? {
        ExecEntry::Live(exec) => exec,
        ExecEntry::Ended(exec) => {
            let (id, box_id) = (exec.file.id, exec.file.box_id);
            return Ok(Json(ExecWaitAnswer { id, box_id, ending: exec.end.ending }));
        }
    };
    let ended = exec.line.ended();
    let ending = match query.timeout_ms {
        // Until the ending, or until the client leaves: it has said that it waits for as long.
        None => ended.await?,
        Some(limit) => {
            let limited = tokio::time::timeout(Duration::from_millis(limit), ended).await;
            limited.map_err(|_elapsed| {
                let message = format!("{} has not ended within {limit} ms", exec.line.whose);
                ApiError::from(exec.line.whose.error(ErrorCode::WaitTimeout, message))
            })??
        }
    };
    let (id, box_id) = (exec.file.id, exec.file.box_id);
    Ok(Json(ExecWaitAnswer { id, box_id, ending: (*ending).clone() }))
}

/// Refuses what nothing in a paused box could heed. The box as a whole goes on for what is to end it; for
/// one command of it the others are not to.
fn moves(place: &Place) -> Result<(), ErrorBody> {
    match place {
        Place::Live(live) if live.view.borrow().record.paused => {
            let message =
                format!("box `{}` is paused, and no signal reaches what stands still", live.name);
            let hint = "let the box go on first (unpause), or stop all of it";
            Err(live.line.whose.error(ErrorCode::WrongState, message).with_hint(hint))
        }
        Place::Live(_) | Place::Ended(..) => Ok(()),
    }
}

/// Ends an exec, and answers when it has ended. The box runs on.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/execs/{exec}/stop", request_body = Option<StopBox>, responses((status = 200, body = ExecRecord, description = "It has ended."))))]
pub(super) async fn stop(
    State(host): State<Arc<Host>>,
    ExecAddress(address, exec): ExecAddress,
    OptionalBody(StopBox { force, grace_ms }): OptionalBody<StopBox>,
) -> Result<Json<ExecRecord>, ApiError> {
    let place = place(&host, &address).await?;
    let exec = match place.find(&exec).await? {
        ExecEntry::Live(exec) => exec,
        ExecEntry::Ended(exec) => return Ok(Json(exec.record())),
    };
    moves(&place)?;
    match exec.line.ask(|reply| Command::Stop { force, grace_ms, reply }).await? {
        Answer::Given(answer) => answer?,
        Answer::Ended => {}
    }
    let grace = match grace_ms.or(exec.file.command.stop_grace_ms) {
        _ if force => 0,
        Some(grace) => grace,
        None => place.stop_grace_ms(),
    };
    let limit = Duration::from_millis(grace).saturating_add(END_LIMIT);
    match tokio::time::timeout(limit, exec.line.ended()).await {
        Ok(ended) => drop(ended?),
        Err(_elapsed) => {
            let why = "the exec has not ended after it was killed";
            return Err(exec.line.whose.unresponsive(why).into());
        }
    }
    Ok(Json(record(&exec).await))
}

/// Sends a signal to an exec's program.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/execs/{exec}/signal", request_body = SignalBox, responses((status = 200, description = "It was sent."))))]
pub(super) async fn signal(
    State(host): State<Arc<Host>>,
    ExecAddress(address, exec): ExecAddress,
    JsonBody(SignalBox { signal }): JsonBody<SignalBox>,
) -> Result<Json<Value>, ApiError> {
    let place = place(&host, &address).await?;
    let exec = match place.find(&exec).await? {
        ExecEntry::Live(exec) => exec,
        ExecEntry::Ended(exec) => {
            let message = format!("exec {} has ended", exec.file.id.short());
            return Err(ErrorBody::new(ErrorCode::WrongState, message)
                .with_detail("exec", exec.file.id.to_string())
                .into());
        }
    };
    moves(&place)?;
    match exec.line.ask(|reply| Command::Signal { signal, group: false, reply }).await? {
        Answer::Given(answer) => answer?,
        Answer::Ended => return Err(exec.line.whose.has_ended().into()),
    }
    Ok(Json(json!({})))
}
