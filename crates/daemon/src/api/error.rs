//! Errors as answers.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use minimal_proto::address::AddressError;
use minimal_proto::error::Chain;
use minimal_proto::{ErrorBody, ErrorCode};

use crate::index::Broken;

/// What every handler fails with.
#[derive(Debug)]
pub(crate) struct ApiError(pub(crate) ErrorBody);

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(ErrorBody::new(code, message))
    }

    /// A fault of ours, with its causes.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(ErrorCode::Internal, Chain(error).to_string())
    }

    /// A box's file cannot be read.
    pub(crate) fn broken(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(ErrorCode::Broken, Chain(error).to_string())
    }
}

impl From<ErrorBody> for ApiError {
    fn from(body: ErrorBody) -> Self {
        Self(body)
    }
}

impl From<AddressError> for ApiError {
    fn from(error: AddressError) -> Self {
        let message = error.to_string();
        Self(match error {
            AddressError::NotFound(_) => ErrorBody::new(ErrorCode::NotFound, message),
            AddressError::Ambiguous { candidates, .. } => {
                let ids: Vec<_> = candidates.iter().map(ToString::to_string).collect();
                ErrorBody::new(ErrorCode::Ambiguous, message)
                    .with_hint("give more of the id, or all of it")
                    .with_detail("candidates", ids)
            }
        })
    }
}

impl From<&Broken> for ApiError {
    fn from(broken: &Broken) -> Self {
        let message = format!("box {} cannot be read: {}", broken.id, broken.reason);
        Self::new(ErrorCode::Broken, message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.http_status());
        let status = status.expect("the table holds statuses from 400 to 599");
        if status.is_server_error() {
            tracing::warn!(code = %self.0.code, error = self.0.message, "a request failed");
        }
        (status, Json(self.0)).into_response()
    }
}
