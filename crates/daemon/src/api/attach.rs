//! `GET /v1/boxes/{box}/attach`, and of execs.

use std::sync::Arc;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::response::Response;
use minimal_proto::exec::ExecMode;
use minimal_proto::stream::{MAX_BINARY, SUBPROTOCOL};
use minimal_proto::{BoxId, Ending, ErrorBody, ErrorCode, ExecId, TerminalSize};
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
use crate::stream::{self, Attachment, LogDir, LogSource, Visitor};

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
            let life = live.view.borrow().record.log_begin;
            growing(&host, (live.id, None), (dir, life), &live.line, &query).await?
        }
        Entry::Ended(ended) => {
            let dir: LogDir = Arc::new(open_dir(&host, ended.id).await?);
            let log = Sealed {
                tty: ended.tty,
                life: ended.log_begin,
                end: ended.log_end,
                ending: Arc::new(ended.ending()),
            };
            sealed(&host, (ended.id, None), dir, log, &query).await
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
            growing(&host, (box_id, Some(id)), (dir, 0), &exec.line, &query).await?
        }
        ExecEntry::Ended(exec) => {
            let log = Sealed {
                tty: exec.file.command.mode == ExecMode::Tty,
                life: 0,
                end: exec.log.bytes,
                ending: Arc::new(exec.end.ending),
            };
            let whose = (exec.file.box_id, Some(exec.file.id));
            sealed(&host, whose, exec.dir, log, &query).await
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
    (dir, life): (LogDir, u64),
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
        Some(size) => {
            let visitor = Visitor { size, has_keyboard: writer.is_some() };
            Some(stream::paint(host, &dir, line, life, visitor).await)
        }
        None => None,
    };
    let from = painted.as_ref().map_or(from.unwrap_or(0), |painted| painted.from);
    let source = LogSource::growing(dir, line, from);
    let repaint = painted.map(|painted| painted.bytes);
    let (tty, line) = (line.whose.tty, Some(Arc::clone(line)));
    Ok(Attachment { id, exec, source, tty, line, writer, pin, repaint })
}

/// The log of something that has ended.
struct Sealed {
    /// Whether it is a terminal's.
    tty: bool,
    /// Where the output of its last life begins.
    life: u64,
    end: u64,
    ending: Arc<Ending>,
}

async fn sealed(
    host: &Host,
    (id, exec): (BoxId, Option<ExecId>),
    dir: LogDir,
    log: Sealed,
    query: &AttachQuery,
) -> Attachment {
    let Sealed { tty, life, end, ending } = log;
    let painted = match query.size().filter(|_| tty && query.from.is_none()) {
        Some(size) => stream::paint_last(host, &dir, (life, end), size).await,
        None => None,
    };
    let from = painted.as_ref().map_or(query.from.unwrap_or(0), |painted| painted.from);
    let source = LogSource::sealed(dir, end, ending, from);
    let repaint = painted.map(|painted| painted.bytes);
    Attachment { id, exec, source, tty, line: None, writer: None, pin: None, repaint }
}

fn switch(host: Arc<Host>, upgrade: WebSocketUpgrade, attachment: Attachment) -> Response {
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_frame_size(MAX_BINARY)
        .max_message_size(MAX_BINARY)
        .on_upgrade(move |socket| stream::serve(host, socket, attachment))
}
