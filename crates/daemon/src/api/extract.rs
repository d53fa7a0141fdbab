//! Reading requests, so that every refusal is an error body.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use minimal_proto::ErrorCode;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// A JSON body, whatever its content type says.
#[derive(Debug)]
pub(crate) struct JsonBody<T>(pub(crate) T);

/// A JSON body that may be left out.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) T);

/// The query.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

/// The box's address in the path.
#[derive(Debug)]
pub(crate) struct Address(pub(crate) String);

/// The addresses of a box and of an exec in it, in the path.
#[derive(Debug)]
pub(crate) struct ExecAddress(pub(crate) String, pub(crate) String);

async fn read<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, ApiError> {
    Bytes::from_request(request, state)
        .await
        .map_err(|rejection| ApiError::new(ErrorCode::BadRequest, rejection.body_text()))
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::new(ErrorCode::BadRequest, format!("the body cannot be read: {error}"))
    })
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        parse(&read(request, state).await?).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = read(request, state).await?;
        if body.is_empty() { Ok(Self(T::default())) } else { parse(&body).map(Self) }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Query::try_from_uri(&parts.uri)
            .map(|Query(query)| Self(query))
            .map_err(|rejection| ApiError::new(ErrorCode::BadRequest, rejection.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Address {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Path::<String>::from_request_parts(parts, state)
            .await
            .map(|Path(address)| Self(address))
            .map_err(|rejection| ApiError::new(ErrorCode::BadRequest, rejection.body_text()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ExecAddress {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Path::<(String, String)>::from_request_parts(parts, state)
            .await
            .map(|Path((of_box, exec))| Self(of_box, exec))
            .map_err(|rejection| ApiError::new(ErrorCode::BadRequest, rejection.body_text()))
    }
}
