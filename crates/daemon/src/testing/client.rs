//! A client: plain HTTP, and an attached stream.

use std::path::Path;

use futures_util::{SinkExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use minimal_proto::stream::{ClientMessage, InputFrame, OutputFrame, SUBPROTOCOL, ServerMessage};
use minimal_proto::{BoxId, ErrorBody};
use serde_json::Value;
use tokio::net::UnixStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::within;

async fn send<T: serde::Serialize>(
    socket: &Path,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&T>,
) -> (u16, Vec<u8>) {
    let stream = UnixStream::connect(socket).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body = body.map(|body| serde_json::to_vec(body).unwrap()).unwrap_or_default();
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let answer = within(sender.send_request(request)).await.unwrap();
    let status = answer.status().as_u16();
    let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
    (status, body.to_vec())
}

/// One request. The answer must be JSON.
pub(crate) async fn call<T: serde::Serialize>(
    socket: &Path,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&T>,
) -> (u16, Value) {
    let (status, body) = send(socket, method, path, headers, body).await;
    let json = serde_json::from_slice(&body);
    (status, json.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&body))))
}

/// One request that succeeds.
pub(crate) async fn bytes(socket: &Path, path: &str) -> Vec<u8> {
    let (status, body) = send::<()>(socket, "GET", path, &[], None).await;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    body
}

/// An attached client.
pub(crate) struct Attached {
    socket: WebSocketStream<UnixStream>,
}

/// What the server said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    Output {
        offset: u64,
        bytes: Vec<u8>,
    },
    Message(ServerMessage),
    /// Closed, with no more said.
    Closed,
}

impl Attached {
    /// Attaches, or says why it was refused.
    pub(crate) async fn to(socket: &Path, id: BoxId, query: &str) -> Result<Self, ErrorBody> {
        Self::at(socket, &format!("/v1/boxes/{id}/attach?{query}")).await
    }

    /// Attaches to whatever has this path.
    pub(crate) async fn at(socket: &Path, path: &str) -> Result<Self, ErrorBody> {
        let stream = UnixStream::connect(socket).await.unwrap();
        let mut request = format!("ws://localhost{path}").into_client_request().unwrap();
        let offered = SUBPROTOCOL.parse().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", offered);
        match within(tokio_tungstenite::client_async(request, stream)).await {
            Ok((socket, _)) => Ok(Self { socket }),
            Err(Error::Http(answer)) => {
                Err(serde_json::from_slice(answer.body().as_ref().unwrap()).unwrap())
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// What comes next.
    pub(crate) async fn hear(&mut self) -> Heard {
        loop {
            match within(self.socket.next()).await {
                Some(Ok(Message::Binary(message))) => {
                    let frame = OutputFrame::parse(&message).unwrap();
                    return Heard::Output { offset: frame.offset, bytes: frame.bytes.to_vec() };
                }
                Some(Ok(Message::Text(text))) => {
                    return Heard::Message(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Heard::Closed,
            }
        }
    }

    /// The next message that is no output.
    pub(crate) async fn message(&mut self) -> ServerMessage {
        match self.hear().await {
            Heard::Message(message) => message,
            other => panic!("{other:?}"),
        }
    }

    /// Output up to an offset, which must follow without a hole; messages in between are passed.
    pub(crate) async fn output_until(&mut self, from: u64, end: u64) -> Vec<u8> {
        let mut output = Vec::new();
        while from + (output.len() as u64) < end {
            match self.hear().await {
                Heard::Output { offset, bytes } => {
                    assert_eq!(offset, from + output.len() as u64, "a gap or an overlap");
                    output.extend(bytes);
                }
                Heard::Message(message) => assert!(!message.is_terminal(), "{message:?}"),
                Heard::Closed => panic!("closed after {} bytes", output.len()),
            }
        }
        output
    }

    pub(crate) async fn say(&mut self, message: &ClientMessage) {
        let text = serde_json::to_string(message).unwrap();
        self.socket.send(Message::text(text)).await.unwrap();
    }

    pub(crate) async fn input(&mut self, offset: u64, bytes: &[u8]) {
        let message = InputFrame { offset, bytes }.encode();
        self.socket.send(Message::binary(message)).await.unwrap();
    }
}
