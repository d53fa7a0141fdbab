//! The HTTP API (`docs/reference/wire.md`). Handlers are thin: they read a request, ask the index or
//! an actor, and write the answer. No handler waits without a limit, except for what the client asked
//! to wait for, and then until the client leaves.

mod attach;
mod create;
mod end;
mod error;
mod execs;
mod extract;
mod host;
mod list;
mod openapi;
mod resume;
mod show;
mod streams;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Uri;
use axum::routing::{get, post};
use minimal_proto::ErrorCode;

use crate::host::Host;
use crate::index::Entry;
use error::ApiError;

/// The longest body: a keeper takes no longer message.
const MAX_BODY: usize = minimal_proto::keeper::MAX_MESSAGE;

/// The API of this host.
pub(crate) fn router(host: Arc<Host>) -> Router {
    Router::new()
        .route("/v1/version", get(host::version))
        .route("/v1/healthz", get(host::healthz))
        .route("/v1/host", get(host::show))
        .route("/v1/step-down", post(host::step_down))
        .route("/metrics", get(host::metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/v1/boxes", get(list::list).post(create::create))
        .route("/v1/cancel", post(create::cancel))
        .route("/v1/boxes/{box}", get(show::show).delete(end::remove))
        .route("/v1/boxes/{box}/spec", get(show::spec))
        .route("/v1/boxes/{box}/events", get(streams::events))
        .route("/v1/boxes/{box}/wait", get(show::wait))
        .route("/v1/boxes/{box}/log", get(streams::log))
        .route("/v1/boxes/{box}/attach", get(attach::attach))
        .route("/v1/boxes/{box}/stop", post(end::stop))
        .route("/v1/boxes/{box}/signal", post(end::signal))
        .route("/v1/boxes/{box}/pause", post(end::pause))
        .route("/v1/boxes/{box}/unpause", post(end::unpause))
        .route("/v1/boxes/{box}/resume", post(resume::resume))
        .route("/v1/boxes/{box}/acknowledge", post(end::acknowledge))
        .route("/v1/boxes/{box}/execs", get(execs::list).post(execs::create))
        .route("/v1/boxes/{box}/execs/{exec}", get(execs::show))
        .route("/v1/boxes/{box}/execs/{exec}/wait", get(execs::wait))
        .route("/v1/boxes/{box}/execs/{exec}/log", get(streams::exec_log))
        .route("/v1/boxes/{box}/execs/{exec}/attach", get(attach::attach_exec))
        .route("/v1/boxes/{box}/execs/{exec}/stop", post(execs::stop))
        .route("/v1/boxes/{box}/execs/{exec}/signal", post(execs::signal))
        .fallback(no_path)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(host)
}

async fn no_path(uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("there is no `{}` here", uri.path()))
}

async fn no_method(method: axum::http::Method, uri: Uri) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, format!("`{}` does not take {method}", uri.path()))
}

/// Finds a box that can be read.
fn find(host: &Host, address: &str) -> Result<Entry, ApiError> {
    match host.index.resolve(address)? {
        Entry::Broken(broken) => Err(broken.as_ref().into()),
        entry @ (Entry::Live(_) | Entry::Ended(_)) => Ok(entry),
    }
}

/// Runs blocking work.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("blocking work does not panic")
}

#[cfg(test)]
mod tests;
