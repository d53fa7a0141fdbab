//! `GET /v1/boxes`.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
#[cfg(test)]
use minimal_proto::api::BoxList;
use minimal_proto::api::BriefRecord;
use minimal_proto::{BoxId, BoxName, ByteString, ErrorCode, State as BoxState};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::extract::Asked;
use super::show::live_record;
use crate::boxes::wire;
use crate::host::Host;
use crate::index::{Entry, Filter};

/// Boxes on a page unless another number is asked for.
const PAGE: usize = 100;
/// Most boxes on a page: some 15 MB of JSON.
const MOST: usize = 10_000;

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(test, derive(utoipa::IntoParams), into_params(parameter_in = Query))]
pub(super) struct ListQuery {
    state: Option<String>,
    #[serde(rename = "type")]
    box_type: Option<String>,
    project: Option<String>,
    parent: Option<BoxId>,
    #[serde(default)]
    broken: bool,
    /// Of each box only what a listing shows.
    #[serde(default)]
    brief: bool,
    limit: Option<usize>,
    after: Option<BoxId>,
}

impl ListQuery {
    fn filter(&self) -> Result<Filter, ApiError> {
        if let Some(project) = self.project.as_ref().filter(|project| !project.starts_with('/')) {
            let message = format!("the project `{project}` is not an absolute path");
            return Err(ApiError::new(ErrorCode::BadRequest, message));
        }
        Ok(Filter {
            states: self
                .state
                .as_deref()
                .map(|text| words::<BoxState>("state", text))
                .transpose()?,
            types: self
                .box_type
                .as_deref()
                .map(|text| words::<BoxName>("type", text))
                .transpose()?,
            project: self.project.clone().map(Into::into),
            parent: self.parent,
            broken: self.broken,
        })
    }

    fn limit(&self) -> Result<usize, ApiError> {
        match self.limit {
            None => Ok(PAGE),
            Some(limit @ 1..=MOST) => Ok(limit),
            Some(limit) => Err(ApiError::new(
                ErrorCode::BadRequest,
                format!("limit is {limit}; it can be 1 to {MOST}"),
            )),
        }
    }
}

/// The project that a query asks for, byte by byte: a path is no text.
fn project(query: &str) -> Option<ByteString> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("project="))?;
    // A plus is a space in a query (URL standard, application/x-www-form-urlencoded).
    let value = value.replace('+', " ");
    Some(percent_encoding::percent_decode_str(&value).collect::<Vec<u8>>().into())
}

/// A comma-separated list of words that have a JSON form.
fn words<T: DeserializeOwned>(key: &str, text: &str) -> Result<Vec<T>, ApiError> {
    let word = |word: &str| {
        serde_json::from_value(word.into()).map_err(|_unknown| {
            ApiError::new(ErrorCode::BadRequest, format!("`{word}` is not a {key} of a box"))
        })
    };
    text.split(',').map(word).collect()
}

/// A page of boxes, newest first. From memory, but for the logs of boxes that run.
#[cfg_attr(test, utoipa::path(get, path = "/v1/boxes", params(ListQuery), responses((status = 200, body = BoxList, description = "A page, newest first."))))]
pub(super) async fn list(
    State(host): State<Arc<Host>>,
    Asked(query): Asked<ListQuery>,
    RawQuery(raw): RawQuery,
) -> Result<Response, ApiError> {
    let filter = Filter { project: raw.as_deref().and_then(project), ..query.filter()? };
    let (page, more) = host.index.page(&filter, query.limit()?, query.after);
    let next = page.last().filter(|_| more).map(Entry::id);
    let mut body = String::from(r#"{"schema":"min/v1/box-list","boxes":["#);
    for (index, entry) in page.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        let record = match entry {
            Entry::Ended(ended) => {
                body.push_str(if query.brief { ended.brief() } else { ended.json() });
                continue;
            }
            Entry::Live(live) => {
                live.line.probe();
                live_record(&host, live).await
            }
            Entry::Broken(broken) => wire::broken(broken.id, &broken.reason, &host.name),
        };
        match query.brief {
            true => body.push_str(&json(&BriefRecord::from(record))),
            false => body.push_str(&json(&record)),
        }
    }
    body.push_str(r#"],"next":"#);
    body.push_str(&json(&next));
    body.push('}');
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("records have string keys only")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_a_path_of_any_bytes() {
        let asked = project("limit=3&project=%2Fa+b%2F%ff%2B").unwrap();
        assert_eq!(asked, ByteString::from(b"/a b/\xff+".to_vec()));
        assert_eq!(project("limit=3"), None);
    }

    #[test]
    fn a_query_becomes_a_filter_or_says_what_is_wrong() {
        let query = ListQuery { state: Some("running,exited".into()), ..ListQuery::default() };
        let filter = query.filter().unwrap();
        assert_eq!(filter.states, Some(vec![BoxState::Running, BoxState::Exited]));
        for wrong in [
            ListQuery { state: Some("runing".into()), ..ListQuery::default() },
            ListQuery { box_type: Some("".into()), ..ListQuery::default() },
            ListQuery { project: Some("relative".into()), ..ListQuery::default() },
        ] {
            assert_eq!(wrong.filter().unwrap_err().0.code, ErrorCode::BadRequest);
        }
        for wrong in [0, MOST + 1] {
            assert!(ListQuery { limit: Some(wrong), ..ListQuery::default() }.limit().is_err());
        }
    }
}
