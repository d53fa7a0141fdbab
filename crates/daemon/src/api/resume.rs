//! `POST /v1/boxes/{box}/resume`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use minimal_proto::api::{BoxRecord, ResumeBox};

use super::error::ApiError;
use super::extract::{Address, OptionalBody};
use super::show;
use crate::boxes::resume;
use crate::host::Host;

/// Begins a further life of a box.
#[cfg_attr(test, utoipa::path(post, path = "/v1/boxes/{box}/resume", request_body = Option<ResumeBox>, responses((status = 200, body = BoxRecord, description = "It runs, or has had this life."))))]
pub(super) async fn resume(
    State(host): State<Arc<Host>>,
    Address(address): Address,
    OptionalBody(request): OptionalBody<ResumeBox>,
) -> Result<Json<BoxRecord>, ApiError> {
    let id = host.index.resolve(&address)?.id();
    // A task of its own: a client that leaves must not cut it short.
    let resuming = tokio::spawn(resume::resume(Arc::clone(&host), id, request));
    let entry = resuming.await.expect("resuming a box does not panic")?;
    Ok(Json(show::record(&host, &entry).await))
}
