//! Looking at one box, and waiting for its end.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
#[cfg(test)]
use minimal_proto::Spec;
use minimal_proto::api::{BoxRecord, LogFigures, WaitAnswer};
use minimal_proto::{BoxId, ErrorCode, Health};
use minimal_store::BoxDir;
use serde::Deserialize;

use super::error::ApiError;
use super::extract::{Address, Asked};
use super::{blocking, find};
use crate::boxes::{Live, wire};
use crate::host::Host;
use crate::index::Entry;

/// How long measuring what a box takes of the disk may hold up its record.
const MEASURE_LIMIT: Duration = Duration::from_millis(500);

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct ShowQuery {
    /// Whether to find out what the box takes of the disk, which takes as long as its files are many;
    /// without, `disk_bytes` is null. True unless it is said.
    #[serde(default = "measure_unless_said")]
    measure: bool,
}

fn measure_unless_said() -> bool {
    true
}

/// The record.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}", params(ShowQuery), responses((status = 200, body = BoxRecord, description = "The record."))))]
pub(super) async fn show(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    Asked(query): Asked<ShowQuery>,
) -> Result<Json<BoxRecord>, ApiError> {
    let entry = host.index.resolve(&address)?;
    if let Entry::Live(live) = &entry {
        // Not waited for: the next look knows.
        live.line.probe();
    }
    let id = entry.id();
    let measuring = {
        let host = Arc::clone(&host);
        tokio::time::timeout(MEASURE_LIMIT, blocking(move || measure(&host, id, query.measure)))
    };
    let (mut record, measured) = tokio::join!(record(&host, &entry), measuring);
    if let Ok(Measured { disk_bytes, log }) = measured {
        record.disk_bytes = disk_bytes;
        if let (Entry::Ended(_), Some(log)) = (&entry, log) {
            look_again(&mut record, log);
        }
    }
    Ok(Json(record))
}

/// The record without what has to be measured.
pub(super) async fn record(host: &Arc<Host>, entry: &Entry) -> BoxRecord {
    match entry {
        Entry::Live(live) => live_record(host, live).await,
        Entry::Ended(ended) => ended.record(),
        Entry::Broken(broken) => wire::broken(broken.id, &broken.reason, &host.name),
    }
}

/// The record of a box that has an actor.
pub(super) async fn live_record(host: &Host, live: &Arc<Live>) -> BoxRecord {
    // The end first: what is written after it must not look dropped.
    let bytes = live.line.flow.borrow().log_end;
    let view = live.view.borrow().clone();
    let dir = Arc::clone(&live.dir);
    let figures = blocking(move || minimal_store::figures(&dir)).await;
    // The files do not show what a full disk took after the last that was kept; the end does. A log
    // that cannot be looked at is told by whoever reads it.
    let kept = figures.map(|log| log.bytes - log.dropped_bytes);
    let dropped_bytes = kept.map_or(0, |kept| bytes.saturating_sub(kept));
    wire::live(live, &view, LogFigures { bytes, dropped_bytes }, &host.name)
}

/// What is on disk of a box, as far as that can be found out.
struct Measured {
    disk_bytes: Option<u64>,
    log: Option<LogFigures>,
}

fn measure(host: &Host, id: BoxId, disk: bool) -> Measured {
    match host.state.box_dir(id) {
        Ok(dir) => Measured {
            disk_bytes: if disk { dir.disk_bytes().ok() } else { None },
            log: minimal_store::figures(&dir).ok(),
        },
        Err(_) => Measured { disk_bytes: None, log: None },
    }
}

/// An ended box's record is from memory. Somebody may have deleted its log, or a part of it, since.
fn look_again(record: &mut BoxRecord, files: LogFigures) {
    let kept = files.bytes.saturating_sub(files.dropped_bytes);
    let dropped_bytes = record.log.bytes.saturating_sub(kept);
    if dropped_bytes > record.log.dropped_bytes {
        let lost = dropped_bytes - record.log.dropped_bytes;
        record.log.dropped_bytes = dropped_bytes;
        record.health = Health::Degraded;
        record.health_reason =
            Some(format!("{lost} bytes of its log were deleted or damaged after it had ended"));
    }
}

/// The spec, as it is stored.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/spec", responses((status = 200, body = Spec, description = "The spec."))))]
pub(super) async fn spec(
    State(host): State<Arc<Host>>,
    Address(address): Address,
) -> Result<Response, ApiError> {
    let id = host.index.resolve(&address)?.id();
    let read = blocking(move || host.state.box_dir(id).and_then(|dir| dir.read_spec())).await;
    Ok(Json(read.map_err(|error| ApiError::broken(&error))?).into_response())
}

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct WaitQuery {
    pub(super) timeout_ms: Option<u64>,
}

/// Waits for the ending.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/wait", params(WaitQuery), responses((status = 200, body = WaitAnswer, description = "The ending."))))]
pub(super) async fn wait(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    Asked(query): Asked<WaitQuery>,
) -> Result<Json<WaitAnswer>, ApiError> {
    let live = match find(&host, &address)? {
        Entry::Live(live) => live,
        Entry::Ended(ended) => {
            return Ok(Json(WaitAnswer { id: ended.id, ending: ended.ending() }));
        }
        Entry::Broken(broken) => return Err(broken.as_ref().into()),
    };
    let ended = live.ended();
    let ending = match query.timeout_ms {
        // Until the ending, or until the client leaves: it has said that it waits for as long.
        None => ended.await?,
        Some(limit) => {
            let limited = tokio::time::timeout(Duration::from_millis(limit), ended).await;
            limited.map_err(|_elapsed| {
                let message = format!("box `{}` has not ended within {limit} ms", live.name);
                ApiError::new(ErrorCode::WaitTimeout, message)
            })??
        }
    };
    Ok(Json(WaitAnswer { id: live.id, ending: (*ending).clone() }))
}

/// The directory of a box, opened.
pub(super) async fn open_dir(host: &Arc<Host>, id: BoxId) -> Result<BoxDir, ApiError> {
    let host = Arc::clone(host);
    let opened = blocking(move || host.state.box_dir(id)).await;
    opened.map_err(|error| match error {
        minimal_store::BoxDirError::Missing { .. } => {
            ApiError::new(ErrorCode::NotFound, format!("box {id} was removed"))
        }
        error => ApiError::broken(&error),
    })
}
