//! `GET /v1/boxes/{box}/attach`.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use minimal_proto::ErrorCode;
use minimal_proto::stream::{MAX_BINARY, SUBPROTOCOL};
use serde::Deserialize;
use uuid::Uuid;

use super::error::ApiError;
use super::extract::{Address, Asked};
use super::find;
use super::show::open_dir;
use crate::host::Host;
use crate::index::Entry;
use crate::stream::{self, Attachment, LogSource};

/// Bytes of a frame and the header of the WebSocket around it.
const WRITE_BUFFER: usize = 64 << 10;

/// Messages of clients are input, a few kilobytes as a rule; a quiet stream holds this much.
const READ_BUFFER: usize = 8 << 10;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct AttachQuery {
    #[serde(default)]
    from: u64,
    #[serde(default)]
    input: bool,
    #[serde(default)]
    pin: bool,
    #[cfg_attr(test, param(value_type = Option<String>))]
    client: Option<Uuid>,
}

/// Joins a box's streams. What is refused is refused before the upgrade.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/attach", params(AttachQuery), responses((status = 101, description = "A WebSocket of the subprotocol min.v1."))))]
pub(super) async fn attach(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    Asked(query): Asked<AttachQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = upgrade
        .map_err(|rejection| ApiError::new(ErrorCode::BadRequest, rejection.body_text()))?
        .protocols([SUBPROTOCOL]);
    if upgrade.selected_protocol().is_none() {
        let message = format!("the subprotocol {SUBPROTOCOL} has to be offered");
        return Err(ApiError::new(ErrorCode::BadRequest, message));
    }
    let AttachQuery { from, input, pin, client } = query;
    let attachment = match find(&host, &address)? {
        Entry::Live(live) => {
            let writer = if input { live.line.seat_writer(client).await? } else { None };
            let pin = if pin { live.line.seat_pin(client, from).await? } else { None };
            let source = LogSource::growing(Arc::clone(&live.dir), &live.line, from);
            let line = Some(Arc::clone(&live.line));
            Attachment { id: live.id, source, line, writer, pin }
        }
        Entry::Ended(ended) => {
            let dir = Arc::new(open_dir(&host, ended.id).await?);
            let id = ended.id;
            let source = LogSource::sealed(dir, ended.log_end, Arc::new(ended.ending()), from);
            Attachment { id, source, line: None, writer: None, pin: None }
        }
        Entry::Broken(broken) => return Err(broken.as_ref().into()),
    };
    Ok(upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_frame_size(MAX_BINARY)
        .max_message_size(MAX_BINARY)
        .on_upgrade(move |socket| stream::serve(host, socket, attachment)))
}
