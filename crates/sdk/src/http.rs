//! Requests and answers over connections of a [`Connector`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use minimal_proto::{ErrorBody, ErrorCode};
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::backoff::Backoff;
use crate::query::Target;
use crate::{CallError, Connector, RetryPolicy};

/// How long a daemon may take to answer what it answers from memory. A daemon that lives answers
/// in milliseconds; one that is stopped never does, and the person should hear so.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// How long a call that can be repeated outlives losses of the daemon.
const PLAIN_RETRY: Duration = Duration::from_secs(10);

/// Whether a request may be sent again without knowing what became of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing, or nothing more the second time.
    Safe,
    /// Twice is not once.
    Never,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: Method,
    target: Target,
    body: Bytes,
    headers: Vec<(HeaderName, HeaderValue)>,
    repeat: Repeat,
    limit: Option<Duration>,
}

impl Call {
    pub(crate) fn new(method: Method, target: Target) -> Self {
        Self {
            method,
            target,
            body: Bytes::new(),
            headers: Vec::new(),
            repeat: Repeat::Safe,
            limit: Some(ANSWER_LIMIT),
        }
    }

    pub(crate) fn get(target: Target) -> Self {
        Self::new(Method::GET, target)
    }

    pub(crate) fn post(target: Target) -> Self {
        Self::new(Method::POST, target)
    }

    pub(crate) fn body<T: serde::Serialize>(mut self, value: &T) -> Self {
        self.body = serde_json::to_vec(value).expect("bodies of the API have text keys").into();
        self.headers.push((header::CONTENT_TYPE, HeaderValue::from_static("application/json")));
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn never_repeated(mut self) -> Self {
        self.repeat = Repeat::Never;
        self
    }

    /// The answer may take for ever: it waits for a box.
    pub(crate) fn unlimited(mut self) -> Self {
        self.limit = None;
        self
    }

    /// The request in words.
    pub(crate) fn what(&self) -> String {
        let path = self.target.as_str();
        format!("{} {}", self.method, path.split('?').next().unwrap_or(path))
    }

    fn to_request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.as_str().parse().expect("a target is percent-encoded");
        let headers = request.headers_mut();
        // HTTP/1.1 asks for a host; a Unix socket has none.
        headers.insert(header::HOST, HeaderValue::from_static("minimald"));
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        request
    }
}

type Sender = SendRequest<Full<Bytes>>;

/// Sends requests, and keeps one connection for the next.
#[derive(Debug)]
pub(crate) struct Http {
    connector: Arc<dyn Connector>,
    idle: Mutex<Option<Sender>>,
    contacted: AtomicBool,
}

impl Http {
    pub(crate) fn new(connector: Arc<dyn Connector>) -> Self {
        Self { connector, idle: Mutex::new(None), contacted: AtomicBool::new(false) }
    }

    /// Whether a daemon was ever there: then one that is gone will come back.
    fn was_in_contact(&self) -> bool {
        self.contacted.load(Ordering::Relaxed)
    }

    /// Gives up the kept connection.
    pub(crate) async fn forget(&self) {
        *self.idle.lock().await = None;
    }

    /// Sends the request and gives the head of the answer. `stood`: since when there has been a
    /// connection for it; none that there was before counts, nor the time it took to find one.
    async fn open(
        &self,
        call: &Call,
        stood: &mut Option<Instant>,
    ) -> Result<(Response<Incoming>, Sender), CallError> {
        if call.repeat == Repeat::Safe {
            let kept = self.idle.lock().await.take();
            if let Some(mut sender) = kept
                && sender.ready().await.is_ok()
            {
                *stood = Some(Instant::now());
                match Self::ask(&mut sender, call).await {
                    Ok(answer) => return Ok((answer, sender)),
                    // It may have died since it was used last: a new one decides.
                    Err(CallError::Lost { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        *stood = None;
        let stream = self.connector.connect().await?;
        *stood = Some(Instant::now());
        // Whoever takes a connection is there, also if it dies before it has said anything.
        self.contacted.store(true, Ordering::Relaxed);
        let lost = |source| CallError::Lost { what: call.what(), source };
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(lost)?;
        // It ends with the connection; what went wrong is told by the request's own error.
        drop(tokio::spawn(connection.with_upgrades()));
        let answer = Self::ask(&mut sender, call).await?;
        Ok((answer, sender))
    }

    async fn ask(sender: &mut Sender, call: &Call) -> Result<Response<Incoming>, CallError> {
        bounded(call, sender.send_request(call.to_request())).await
    }

    async fn collect(
        &self,
        call: &Call,
        stood: &mut Option<Instant>,
    ) -> Result<(StatusCode, Bytes), CallError> {
        let (answer, sender) = self.open(call, stood).await?;
        let status = answer.status();
        let body = bounded(call, answer.into_body().collect()).await?.to_bytes();
        *self.idle.lock().await = Some(sender);
        Ok((status, body))
    }

    /// Asks once and reads the answer as `T`.
    pub(crate) async fn once<T: DeserializeOwned>(&self, call: &Call) -> Result<T, CallError> {
        self.attempt(call, &mut None).await
    }

    /// The same, and `stood` tells since when there has been a connection for it.
    pub(crate) async fn attempt<T: DeserializeOwned>(
        &self,
        call: &Call,
        stood: &mut Option<Instant>,
    ) -> Result<T, CallError> {
        let (status, body) = self.collect(call, stood).await?;
        if !status.is_success() {
            return Err(api_error(call, status, &body));
        }
        serde_json::from_slice(&body)
            .map_err(|source| CallError::Malformed { what: call.what(), source })
    }

    /// Asks, and asks again where the daemon is lost on the way.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T, CallError> {
        let policy = RetryPolicy { total: PLAIN_RETRY, ..RetryPolicy::default() };
        self.json_within(call, policy).await
    }

    /// As [`Self::json`], for as long as `policy` allows.
    pub(crate) async fn json_within<T: DeserializeOwned>(
        &self,
        call: &Call,
        policy: RetryPolicy,
    ) -> Result<T, CallError> {
        let mut backoff = Backoff::new(policy);
        loop {
            let mut stood = None;
            match self.attempt(call, &mut stood).await {
                Ok(answer) => return Ok(answer),
                Err(error) => self.recover(&mut backoff, stood, call.repeat, error).await?,
            }
        }
    }

    /// Waits before something is asked again that was lost; gives the error back if it will not
    /// be. `stood`: since when there was the connection that is lost, if there was one.
    pub(crate) async fn recover(
        &self,
        backoff: &mut Backoff,
        stood: Option<Instant>,
        repeat: Repeat,
        error: CallError,
    ) -> Result<(), CallError> {
        if repeat == Repeat::Never || !self.may_pass(&error) {
            return Err(error);
        }
        if let Some(since) = stood {
            backoff.lost(since);
        }
        if backoff.pause().await {
            return Ok(());
        }
        let after = backoff.since_loss();
        Err(CallError::GaveUp { after, source: Box::new(error) })
    }

    /// Whether an error can go away by itself: a daemon that was there before will be there again.
    fn may_pass(&self, error: &CallError) -> bool {
        error.is_loss() && self.was_in_contact() && !matches!(error, CallError::Silent { .. })
    }

    /// The body of an answer, as it comes, on a connection of its own.
    pub(crate) async fn body(&self, call: &Call) -> Result<Incoming, CallError> {
        let (answer, _sender) = self.open(call, &mut None).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        let body = bounded(call, answer.into_body().collect()).await?.to_bytes();
        Err(api_error(call, status, &body))
    }

    /// As [`Self::body`], for as long as `policy` allows.
    pub(crate) async fn body_within(
        &self,
        call: &Call,
        policy: RetryPolicy,
    ) -> Result<Incoming, CallError> {
        let mut backoff = Backoff::new(policy);
        loop {
            match self.body(call).await {
                Ok(body) => return Ok(body),
                // No body has come: whatever connection there was, it was no progress.
                Err(error) => self.recover(&mut backoff, None, call.repeat, error).await?,
            }
        }
    }

    /// Opens a WebSocket: the socket, and what was read from it behind the answer's head.
    pub(crate) async fn upgrade(
        &self,
        call: Call,
        subprotocol: &'static str,
    ) -> Result<(UnixStream, Bytes), CallError> {
        let key = generate_key();
        let accept = derive_accept_key(key.as_bytes());
        let text = HeaderValue::from_static;
        let call = call
            .header(header::CONNECTION, text("Upgrade"))
            .header(header::UPGRADE, text("websocket"))
            .header(header::SEC_WEBSOCKET_VERSION, text("13"))
            .header(header::SEC_WEBSOCKET_PROTOCOL, text(subprotocol))
            .header(
                header::SEC_WEBSOCKET_KEY,
                HeaderValue::from_str(&key).expect("a key is base64"),
            );
        let (answer, sender) = self.open(&call, &mut None).await?;
        let status = answer.status();
        let refused = |why| CallError::Upgrade { what: call.what(), why };
        if status != StatusCode::SWITCHING_PROTOCOLS {
            let body = bounded(&call, answer.into_body().collect()).await?.to_bytes();
            *self.idle.lock().await = Some(sender);
            return Err(match status.is_success() {
                true => refused("it answered without one"),
                false => api_error(&call, status, &body),
            });
        }
        let said = |name| answer.headers().get(name).map(HeaderValue::as_bytes);
        if said(header::SEC_WEBSOCKET_ACCEPT) != Some(accept.as_bytes()) {
            return Err(refused("its key does not fit the request"));
        }
        if said(header::SEC_WEBSOCKET_PROTOCOL) != Some(subprotocol.as_bytes()) {
            return Err(refused("it speaks another subprotocol"));
        }
        let upgraded = bounded(&call, hyper::upgrade::on(answer)).await?;
        let parts = upgraded
            .downcast::<TokioIo<UnixStream>>()
            .map_err(|_upgraded| refused("the connection is of another kind"))?;
        Ok((parts.io.into_inner(), parts.read_buf))
    }
}

async fn bounded<T>(
    call: &Call,
    answer: impl Future<Output = Result<T, hyper::Error>>,
) -> Result<T, CallError> {
    let answer = match call.limit {
        None => answer.await,
        Some(limit) => tokio::time::timeout(limit, answer)
            .await
            .map_err(|_elapsed| CallError::Silent { what: call.what(), limit })?,
    };
    answer.map_err(|source| CallError::Lost { what: call.what(), source })
}

fn api_error(call: &Call, status: StatusCode, body: &[u8]) -> CallError {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(body) => CallError::Api(Box::new(body)),
        Err(_not_ours) => CallError::Api(Box::new(ErrorBody::new(
            ErrorCode::Internal,
            format!("the daemon answered {} with {status}", call.what()),
        ))),
    }
}
