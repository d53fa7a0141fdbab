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
use minimal_store::{BoxDir, LogError, since_offset, tail_offset};
use serde::Deserialize;

use super::error::ApiError;
use super::extract::{Address, Asked};
use super::show::open_dir;
use super::{blocking, find};
use crate::host::Host;
use crate::index::Entry;
use crate::stream::{EventBody, Format, LogBody, LogSource};

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
    let (begin, format) = (query.begin()?, query.format()?);
    let (source, end) = match find(&host, &address)? {
        Entry::Live(live) => {
            let end = live.line.flow.borrow().log_end;
            let from = locate(Arc::clone(&live.dir), end, begin, query.stream).await?;
            (LogSource::growing(Arc::clone(&live.dir), &live.line, from), end)
        }
        Entry::Ended(ended) => {
            let dir = Arc::new(open_dir(&host, ended.id).await?);
            let end = ended.log_end;
            let from = locate(Arc::clone(&dir), end, begin, query.stream).await?;
            (LogSource::sealed(dir, end, Arc::new(ended.ending()), from), end)
        }
        Entry::Broken(broken) => return Err(broken.as_ref().into()),
    };
    let content_type = match format {
        Format::Raw => "application/octet-stream",
        Format::Framed => "application/vnd.min.log",
    };
    let until = (!query.follow).then_some(end);
    let body = LogBody { source, format, only: query.stream, until };
    Ok(([(CONTENT_TYPE, content_type)], Body::from_stream(body.pieces())).into_response())
}

async fn locate(
    dir: Arc<BoxDir>,
    end: u64,
    begin: Begin,
    stream: Option<Stream>,
) -> Result<u64, ApiError> {
    let located: Result<u64, LogError> = match begin {
        Begin::From(from) => Ok(from),
        Begin::Since(since) => blocking(move || since_offset(&dir, end, since)).await,
        Begin::Tail(lines) => blocking(move || tail_offset(&dir, end, lines, stream)).await,
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
