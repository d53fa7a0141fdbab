//! `POST /v1/boxes`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use minimal_proto::ErrorCode;
#[cfg(test)]
use minimal_proto::api::BoxRecord;
use minimal_proto::api::{Cancelled, CreateBox, IDEMPOTENCY_KEY};

use super::error::ApiError;
use super::extract::JsonBody;
use super::show;
use crate::boxes::birth::{self, MAX_KEY, Outcome};
use crate::host::Host;

/// Makes a box.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes", params(("idempotency-key" = Option<String>, Header, description = "Makes the request repeatable.")), request_body = CreateBox, responses((status = 201, body = BoxRecord, description = "A new box, running or with a failed start."), (status = 200, body = BoxRecord, description = "The box of an earlier request with the same key."))))]
pub(super) async fn create(
    State(host): State<Arc<Host>>,
    headers: HeaderMap,
    JsonBody(request): JsonBody<CreateBox>,
) -> Result<Response, ApiError> {
    let key = idempotency_key(&headers)?;
    // A task of its own: a client that leaves must not cut it short.
    let birth = tokio::spawn(birth::create(Arc::clone(&host), request, key));
    match birth.await.expect("making a box does not panic")? {
        Outcome::Made(record) => Ok((StatusCode::CREATED, Json(*record)).into_response()),
        Outcome::Repeated(entry) => Ok(Json(show::record(&host, &entry).await).into_response()),
    }
}

/// Gives up making a box.
#[cfg_attr(test, utoipa::path(post, path = "/v1/cancel", params(("idempotency-key" = String, Header, description = "That of the request that makes the box.")), responses((status = 200, body = Cancelled, description = "Whether its start was given up."))))]
pub(super) async fn cancel(
    State(host): State<Arc<Host>>,
    headers: HeaderMap,
) -> Result<Json<Cancelled>, ApiError> {
    let cancelled = match idempotency_key(&headers)? {
        Some(key) => birth::cancel(&host, &key).await?,
        None => false,
    };
    Ok(Json(Cancelled { cancelled }))
}

pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match key.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= MAX_KEY => Ok(Some(key.to_owned())),
        Ok(_) | Err(_) => Err(ApiError::new(
            ErrorCode::BadRequest,
            format!("an {IDEMPOTENCY_KEY} is 1 to {MAX_KEY} characters of ASCII"),
        )),
    }
}
