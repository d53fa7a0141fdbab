//! `GET /v1/boxes/{box}/attach`, and of execs.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use minimal_proto::stream::{MAX_BINARY, SUBPROTOCOL};
use minimal_proto::{BoxId, ErrorBody, ErrorCode, ExecId, TerminalSize};
use serde::Deserialize;
use uuid::Uuid;

use super::error::ApiError;
use super::execs::place;
use super::extract::{Address, Asked, ExecAddress};
use super::find;
use super::show::open_dir;
use crate::boxes::Line;
use crate::boxes::execs::ExecEntry;
use crate::host::Host;
use crate::index::Entry;
use crate::stream::{self, Attachment, LogDir, LogSource};

/// Bytes of a frame and the header of the WebSocket around it.
const WRITE_BUFFER: usize = 64 << 10;

/// Messages of clients are input, a few kilobytes as a rule; a quiet stream holds this much.
const READ_BUFFER: usize = 8 << 10;

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct AttachQuery {
    from: Option<u64>,
    #[serde(default)]
    input: bool,
    #[serde(default)]
    pin: bool,
    #[cfg_attr(test, param(value_type = Option<String>))]
    client: Option<Uuid>,
    cols: Option<u16>,
    rows: Option<u16>,
}

impl AttachQuery {
    /// The client's terminal, if it has said how large that is.
    fn size(&self) -> Option<TerminalSize> {
        let (cols, rows) = (self.cols?, self.rows?);
        Some(TerminalSize { cols, rows }.or_default())
    }
}

/// Joins a box's streams. What is refused is refused before the upgrade.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/attach", params(AttachQuery), responses((status = 101, description = "A WebSocket of the subprotocol min.v1."))))]
pub(super) async fn attach(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    Asked(query): Asked<AttachQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = checked(upgrade)?;
    let attachment = match find(&host, &address)? {
        Entry::Live(live) => {
            let dir = Arc::clone(&live.dir);
            growing(&host, (live.id, None), dir, &live.line, &query).await?
        }
        Entry::Ended(ended) => {
            let dir = Arc::new(open_dir(&host, ended.id).await?);
            let from = query.from.unwrap_or(0);
            let source = LogSource::sealed(dir, ended.log_end, Arc::new(ended.ending()), from);
            sealed(ended.id, None, source)
        }
        Entry::Broken(broken) => return Err(broken.as_ref().into()),
    };
    Ok(switch(host, upgrade, attachment))
}

/// Joins an exec's streams.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/execs/{exec}/attach", params(AttachQuery), responses((status = 101, description = "A WebSocket of the subprotocol min.v1."))))]
pub(super) async fn attach_exec(
    State(host): State<Arc<Host>>,
    ExecAddress(address, exec): ExecAddress,
    Asked(query): Asked<AttachQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let upgrade = checked(upgrade)?;
    let attachment = match place(&host, &address).await?.find(&exec).await? {
        ExecEntry::Live(exec) => {
            let (id, box_id) = (exec.file.id, exec.file.box_id);
            let dir = Arc::clone(&exec.dir);
            growing(&host, (box_id, Some(id)), dir, &exec.line, &query).await?
        }
        ExecEntry::Ended(exec) => {
            let ending = Arc::new(exec.end.ending);
            let source =
                LogSource::sealed(exec.dir, exec.log.bytes, ending, query.from.unwrap_or(0));
            sealed(exec.file.box_id, Some(exec.file.id), source)
        }
    };
    Ok(switch(host, upgrade, attachment))
}

fn checked(
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<WebSocketUpgrade, ApiError> {
    let upgrade = upgrade
        .map_err(|rejection| ApiError::new(ErrorCode::BadRequest, rejection.body_text()))?
        .protocols([SUBPROTOCOL]);
    if upgrade.selected_protocol().is_none() {
        let message = format!("the subprotocol {SUBPROTOCOL} has to be offered");
        return Err(ApiError::new(ErrorCode::BadRequest, message));
    }
    Ok(upgrade)
}

async fn growing(
    host: &Host,
    (id, exec): (BoxId, Option<ExecId>),
    dir: LogDir,
    line: &Arc<Line>,
    query: &AttachQuery,
) -> Result<Attachment, ErrorBody> {
    let AttachQuery { from, input, pin, client, .. } = *query;
    let writer = if input { line.seat_writer(client).await? } else { None };
    let pin = if pin { line.seat_pin(client, from.unwrap_or(0)).await? } else { None };
    let size = query.size().filter(|_| line.whose.tty);
    if let (Some(size), Some(_)) = (size, &writer) {
        // Whoever has the keyboard says how large the terminal is.
        line.resize(size).await;
    }
    let painted = match size.filter(|_| from.is_none()) {
        Some(size) => Some(stream::paint(host, &dir, line, size, writer.is_some()).await),
        None => None,
    };
    let from = painted.as_ref().map_or(from.unwrap_or(0), |painted| painted.from);
    let source = LogSource::growing(dir, line, from);
    let repaint = painted.map(|painted| painted.bytes);
    Ok(Attachment { id, exec, source, line: Some(Arc::clone(line)), writer, pin, repaint })
}

fn sealed(id: BoxId, exec: Option<ExecId>, source: LogSource) -> Attachment {
    Attachment { id, exec, source, line: None, writer: None, pin: None, repaint: None }
}

fn switch(host: Arc<Host>, upgrade: WebSocketUpgrade, attachment: Attachment) -> Response {
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_frame_size(MAX_BINARY)
        .max_message_size(MAX_BINARY)
        .on_upgrade(move |socket| stream::serve(host, socket, attachment))
}
