//! The daemon and its machine.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use minimal_proto::ByteString;
use minimal_proto::api::{HostInfo, VersionInfo};
use serde_json::{Value, json};

use super::blocking;
use crate::boxes::wire::PROVIDER;
use crate::host::Host;

/// Which daemon this is.
#[cfg_attr(test, utoipa::path(get, path = "/v1/version", responses((status = 200, body = VersionInfo, description = "The build."))))]
pub(super) async fn version(State(host): State<Arc<Host>>) -> Json<VersionInfo> {
    Json(host.version.clone())
}

/// That it answers.
#[cfg_attr(test, utoipa::path(get, path = "/v1/healthz", responses((status = 200, description = "It lives."))))]
pub(super) async fn healthz() -> Json<Value> {
    Json(json!({"ok": true}))
}

/// Figures, and whether boxes can be isolated.
#[cfg_attr(test, utoipa::path(get, path = "/v1/host", responses((status = 200, body = HostInfo, description = "Figures."))))]
pub(super) async fn show(State(host): State<Arc<Host>>) -> Json<HostInfo> {
    // Waits while a nursery is being started.
    let isolation = {
        let host = Arc::clone(&host);
        blocking(move || host.launcher.isolation()).await
    };
    Json(HostInfo {
        host: host.name.clone(),
        provider: PROVIDER.to_owned(),
        version: host.version.clone(),
        state_dir: ByteString::from(host.state.path().as_os_str().as_bytes().to_vec()),
        started_at: host.started_at,
        boxes: host.index.counts(),
        isolation,
    })
}

/// Hands over to another build.
#[cfg_attr(test, utoipa::path(post, path = "/v1/step-down", responses((status = 200, description = "It leaves."))))]
pub(super) async fn step_down(State(host): State<Arc<Host>>) -> Json<Value> {
    tracing::info!("asked to step down");
    host.leave();
    Json(json!({}))
}

/// Figures for Prometheus.
#[cfg_attr(test, utoipa::path(get, path = "/metrics", responses((status = 200, body = String, content_type = "text/plain", description = "Figures."))))]
pub(super) async fn metrics(State(host): State<Arc<Host>>) -> Response {
    let mut text = String::from("# TYPE minimal_boxes gauge\n");
    for (state, count) in host.index.counts() {
        writeln!(text, "minimal_boxes{{state=\"{state}\"}} {count}").expect("a string takes text");
    }
    for (name, figure) in [
        ("minimal_keepers", host.live_boxes()),
        ("minimal_streams", host.streams.load(Ordering::Relaxed)),
    ] {
        writeln!(text, "# TYPE {name} gauge\n{name} {figure}").expect("a string takes text");
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
}
