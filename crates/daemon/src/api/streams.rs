//! Journals and logs as bodies.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
#[cfg(test)]
use minimal_proto::Event;
use minimal_proto::stream::Stream;
use minimal_proto::{ErrorCode, Timestamp};
use minimal_store::{LogError, since_offset, tail_offset};
use serde::Deserialize;

use super::error::ApiError;
use super::execs::place;
use super::extract::{Address, Asked, ExecAddress};
use super::show::open_dir;
use super::{blocking, find};
use crate::boxes::execs::ExecEntry;
use crate::host::Host;
use crate::index::Entry;
use crate::stream::{EventBody, Format, LogBody, LogDir, LogSource};

#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct EventsQuery {
    #[serde(default)]
    follow: bool,
}

/// The journal.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/events", params(EventsQuery), responses((status = 200, body = Event, content_type = "application/x-ndjson", description = "One event a line."))))]
pub(super) async fn events(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    Asked(query): Asked<EventsQuery>,
) -> Result<Response, ApiError> {
    let body = match find(&host, &address)? {
        Entry::Live(live) => {
            EventBody::new(Arc::clone(&live.dir), query.follow.then(|| live.view.clone()))
        }
        Entry::Ended(ended) => EventBody::new(Arc::new(open_dir(&host, ended.id).await?), None),
        Entry::Broken(broken) => return Err(broken.as_ref().into()),
    };
    let body = Body::from_stream(body.pieces());
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct LogQuery {
    from: Option<u64>,
    since: Option<Timestamp>,
    tail: Option<u64>,
    stream: Option<Stream>,
    #[serde(default)]
    follow: bool,
    format: Option<String>,
}

/// Where in a log to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    From(u64),
    Since(Timestamp),
    Tail(u64),
}

impl LogQuery {
    fn asked(&self) -> Result<AskedLog, ApiError> {
        let (begin, format) = (self.begin()?, self.format()?);
        Ok(AskedLog { begin, format, only: self.stream, follow: self.follow })
    }

    fn begin(&self) -> Result<Begin, ApiError> {
        match (self.from, self.since, self.tail) {
            (from, None, None) => Ok(Begin::From(from.unwrap_or(0))),
            (None, Some(since), None) => Ok(Begin::Since(since)),
            (None, None, Some(lines)) => Ok(Begin::Tail(lines)),
            _ => Err(ApiError::new(
                ErrorCode::BadRequest,
                "give one of from, since and tail, not several",
            )),
        }
    }

    fn format(&self) -> Result<Format, ApiError> {
        match self.format.as_deref() {
            None | Some("raw") => Ok(Format::Raw),
            Some("framed") => Ok(Format::Framed),
            Some(other) => Err(ApiError::new(
                ErrorCode::BadRequest,
                format!("`{other}` is not a format of a log: raw or framed"),
            )),
        }
    }
}

/// The log.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/log", params(LogQuery), responses((status = 200, body = String, content_type = "application/octet-stream", description = "Output, raw or framed."))))]
pub(super) async fn log(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    Asked(query): Asked<LogQuery>,
) -> Result<Response, ApiError> {
    let asked = query.asked()?;
    match find(&host, &address)? {
        Entry::Live(live) => {
            let dir: LogDir = Arc::clone(&live.dir) as LogDir;
            let end = live.line.flow.borrow().log_end;
            let from = locate(&dir, end, &asked).await?;
            Ok(asked.body(LogSource::growing(dir, &live.line, from), end))
        }
        Entry::Ended(ended) => {
            let dir: LogDir = Arc::new(open_dir(&host, ended.id).await?);
            let end = ended.log_end;
            let from = locate(&dir, end, &asked).await?;
            Ok(asked.body(LogSource::sealed(dir, end, Arc::new(ended.ending()), from), end))
        }
        Entry::Broken(broken) => Err(broken.as_ref().into()),
    }
}

/// The log of an exec.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes/{box}/execs/{exec}/log", params(LogQuery), responses((status = 200, body = String, content_type = "application/octet-stream", description = "Output, raw or framed."))))]
pub(super) async fn exec_log(
    State(host): State<Arc<Host>>,
    ExecAddress(address, exec): ExecAddress,
    Asked(query): Asked<LogQuery>,
) -> Result<Response, ApiError> {
    let asked = query.asked()?;
    match place(&host, &address).await?.find(&exec).await? {
        ExecEntry::Live(exec) => {
            let dir: LogDir = Arc::clone(&exec.dir) as LogDir;
            let end = exec.line.flow.borrow().log_end;
            let from = locate(&dir, end, &asked).await?;
            Ok(asked.body(LogSource::growing(dir, &exec.line, from), end))
        }
        ExecEntry::Ended(exec) => {
            let (dir, end): (LogDir, _) = (exec.dir, exec.log.bytes);
            let from = locate(&dir, end, &asked).await?;
            let ending = Arc::new(exec.end.ending);
            Ok(asked.body(LogSource::sealed(dir, end, ending, from), end))
        }
    }
}

/// A query that has been understood.
#[derive(Clone, Copy, Debug)]
struct AskedLog {
    begin: Begin,
    format: Format,
    only: Option<Stream>,
    follow: bool,
}

impl AskedLog {
    /// The answer, of a log that ends at `end` now.
    fn body(self, source: LogSource, end: u64) -> Response {
        let content_type = match self.format {
            Format::Raw => "application/octet-stream",
            Format::Framed => "application/vnd.min.log",
        };
        let until = (!self.follow).then_some(end);
        let body = LogBody { source, format: self.format, only: self.only, until };
        ([(CONTENT_TYPE, content_type)], Body::from_stream(body.pieces())).into_response()
    }
}

async fn locate(dir: &LogDir, end: u64, asked: &AskedLog) -> Result<u64, ApiError> {
    let (dir, only) = (Arc::clone(dir), asked.only);
    let located: Result<u64, LogError> = match asked.begin {
        Begin::From(from) => Ok(from),
        Begin::Since(since) => blocking(move || since_offset(&dir, end, since)).await,
        Begin::Tail(lines) => blocking(move || tail_offset(&dir, end, lines, only)).await,
    };
    located.map_err(|error| ApiError::broken(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_begins_in_one_way() {
        assert_eq!(LogQuery::default().begin().unwrap(), Begin::From(0));
        let tail = LogQuery { tail: Some(3), ..LogQuery::default() };
        assert_eq!(tail.begin().unwrap(), Begin::Tail(3));
        let both = LogQuery { from: Some(0), ..tail };
        assert_eq!(both.begin().unwrap_err().0.code, ErrorCode::BadRequest);
        let wrong = LogQuery { format: Some("json".into()), ..LogQuery::default() };
        assert!(wrong.format().is_err());
    }
}
