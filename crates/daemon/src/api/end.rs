//! Bringing boxes to their end: stop, signal, acknowledge, remove.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use minimal_proto::api::{BoxRecord, SignalBox, StopBox};
use minimal_proto::{BoxId, ErrorBody, ErrorCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::extract::{Address, Asked, JsonBody, OptionalBody};
use super::{find, show};
use crate::boxes::{Answer, Command, Fate, Live, broken};
use crate::hooks;
use crate::host::Host;
use crate::index::Entry;

/// How long after the last KILL a box may take to end: it has to be found empty, its output read
/// and the ending brought to disk.
pub(super) const END_LIMIT: Duration = Duration::from_secs(30);

/// How long an actor may take to leave an ended box to the index.
pub(super) const HAND_OVER_LIMIT: Duration = Duration::from_secs(10);

/// How often it is looked whether a keeper is gone that has no actor.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Ends a box and answers when it has ended.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/stop", request_body = Option<StopBox>, responses((status = 200, body = BoxRecord, description = "It has ended."))))]
pub(super) async fn stop(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    OptionalBody(request): OptionalBody<StopBox>,
) -> Result<Json<BoxRecord>, ApiError> {
    let entry = host.index.resolve(&address)?;
    match &entry {
        Entry::Live(live) => stop_live(live, request).await?,
        Entry::Ended(_) => {}
        Entry::Broken(broken) => {
            if !broken::end(&host, broken.id, request).await? {
                return Err(broken.as_ref().into());
            }
        }
    }
    Ok(Json(show::record(&host, &entry).await))
}

async fn stop_live(live: &Arc<Live>, StopBox { force, grace_ms }: StopBox) -> Result<(), ApiError> {
    hooks::pass("daemon.stop.before_ask").await.map_err(|error| ApiError::internal(&error))?;
    match live.line.ask(|reply| Command::Stop { force, grace_ms, reply }).await? {
        Answer::Given(answer) => answer?,
        Answer::Ended => {}
    }
    let grace = if force { 0 } else { grace_ms.unwrap_or(live.facts.stop_grace_ms) };
    let limit = Duration::from_millis(grace).saturating_add(END_LIMIT);
    match tokio::time::timeout(limit, live.over()).await {
        Ok(over) => Ok(over?),
        Err(_) => {
            Err(live.line.whose.unresponsive("the box has not ended after it was killed").into())
        }
    }
}

/// Sends a signal to a box's entrypoint.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/signal", request_body = SignalBox, responses((status = 200, description = "It was sent."))))]
pub(super) async fn signal(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    JsonBody(SignalBox { signal }): JsonBody<SignalBox>,
) -> Result<Json<Value>, ApiError> {
    let entry = find(&host, &address)?;
    let has_ended = || {
        let name = entry.name().map_or(address.as_str(), minimal_proto::BoxName::as_str);
        ErrorBody::new(ErrorCode::WrongState, format!("box `{name}` has ended"))
            .with_detail("box", entry.id().to_string())
    };
    let Entry::Live(live) = &entry else { return Err(has_ended().into()) };
    match live.line.ask(|reply| Command::Signal { signal, group: false, reply }).await? {
        Answer::Given(answer) => answer?,
        Answer::Ended => return Err(has_ended().into()),
    }
    Ok(Json(json!({})))
}

/// Has a box stand still.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/pause", responses((status = 200, body = BoxRecord, description = "It stands still."))))]
pub(super) async fn pause(
    State(host): State<Arc<Host>>,
    Address(address): Address,
) -> Result<Json<BoxRecord>, ApiError> {
    set_pause(&host, &address, true).await
}

/// Has it go on.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/unpause", responses((status = 200, body = BoxRecord, description = "It goes on."))))]
pub(super) async fn unpause(
    State(host): State<Arc<Host>>,
    Address(address): Address,
) -> Result<Json<BoxRecord>, ApiError> {
    set_pause(&host, &address, false).await
}

async fn set_pause(
    host: &Arc<Host>,
    address: &str,
    still: bool,
) -> Result<Json<BoxRecord>, ApiError> {
    let entry = find(host, address)?;
    let has_ended = || {
        let name = entry.name().map_or(address, minimal_proto::BoxName::as_str);
        ErrorBody::new(ErrorCode::WrongState, format!("box `{name}` has ended"))
            .with_detail("box", entry.id().to_string())
    };
    let Entry::Live(live) = &entry else { return Err(has_ended().into()) };
    match live.line.ask(|reply| Command::Pause { still, reply }).await? {
        Answer::Given(answer) => answer?,
        Answer::Ended => return Err(has_ended().into()),
    }
    Ok(Json(show::record(host, &entry).await))
}

/// The creator knows the ending: a box made to be removed is.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/acknowledge", responses((status = 200, description = "Noted."))))]
pub(super) async fn acknowledge(
    State(host): State<Arc<Host>>,
    Address(address): Address,
) -> Result<Json<Value>, ApiError> {
    let mut entry = find(&host, &address)?;
    if let Entry::Live(live) = &entry {
        if live.view.borrow().fate != Fate::Sealed {
            let message = format!("box `{}` has not ended", live.name);
            return Err(ApiError::new(ErrorCode::WrongState, message));
        }
        entry = handed_over(&host, live).await?;
    }
    if let Entry::Ended(ended) = &entry
        && ended.reap_at.is_some()
    {
        host.reap(ended.id).await?;
    }
    Ok(Json(json!({})))
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct RemoveQuery {
    #[serde(default)]
    force: bool,
}

/// Deletes a box.
#[cfg_attr(test, utoipa::path(delete, path = "/v1/boxes/{box}", params(RemoveQuery), responses((status = 200, description = "It is gone."))))]
pub(super) async fn remove(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    Asked(query): Asked<RemoveQuery>,
) -> Result<Json<Value>, ApiError> {
    let entry = host.index.resolve(&address)?;
    if let Entry::Live(live) = &entry {
        if live.view.borrow().fate != Fate::Sealed {
            if !query.force {
                return Err(ErrorBody::new(
                    ErrorCode::NeedsForce,
                    format!("box `{}` runs", live.name),
                )
                .with_hint("stop it first, or remove it with force, which kills it")
                .with_detail("box", live.id.to_string())
                .into());
            }
            stop_live(live, StopBox { force: true, grace_ms: None }).await?;
        }
        handed_over(&host, live).await?;
    }
    if let (Entry::Broken(broken), true) = (&entry, query.force) {
        broken::end(&host, broken.id, StopBox { force: true, grace_ms: None }).await?;
        gone(&host, broken.id).await;
    }
    host.reap(entry.id()).await?;
    Ok(Json(json!({})))
}

/// Waits until the keeper of a box that has ended is gone, or until it has had its time: deleting says
/// then that it lives.
async fn gone(host: &Arc<Host>, id: BoxId) {
    let until = tokio::time::Instant::now() + HAND_OVER_LIMIT;
    while tokio::time::Instant::now() < until {
        let looking = Arc::clone(host);
        if super::blocking(move || !broken::is_kept(&looking, id)).await {
            return;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// What the index has once the actor of an ended box is gone.
async fn handed_over(host: &Host, live: &Arc<Live>) -> Result<Entry, ApiError> {
    match tokio::time::timeout(HAND_OVER_LIMIT, live.gone()).await {
        Ok(()) => Ok(host.index.get(live.id).unwrap_or_else(|| Entry::Live(Arc::clone(live)))),
        Err(_) => Err(live.line.whose.unresponsive("its end is still being written down").into()),
    }
}
