//! One attempt to reach a hub.

use std::io;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{HubAddress, HubAnswer, Identity, TlsError, Token, TokenError, TokenFile, tls};

/// How long an attempt may take, from the name to the upgrade.
const DIAL_LIMIT: Duration = Duration::from_secs(30);

/// A connection's bytes, encrypted or not.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A WebSocket to a hub.
pub(super) type Socket = WebSocketStream<Box<dyn Bytes>>;

/// Whom to dial, as whom.
#[derive(Clone, Debug)]
pub struct Dialer {
    /// The hub.
    pub hub: HubAddress,
    /// Who this is.
    pub identity: Identity,
    /// By which the hub knows that.
    pub token: TokenFile,
}

impl Dialer {
    /// Opens a connection.
    pub(super) async fn dial(&self) -> Result<Socket, DialError> {
        let token = self.token.read()?;
        timeout(DIAL_LIMIT, self.open(&token)).await.unwrap_or(Err(DialError::TimedOut))
    }

    async fn open(&self, token: &Token) -> Result<Socket, DialError> {
        let tcp = self.tcp().await?;
        let bytes: Box<dyn Bytes> = match self.hub.is_secure() {
            true => Box::new(tls::begin(tcp, self.hub.host()).await?),
            false => Box::new(tcp),
        };
        let request = self.hub.endpoint(&self.identity).into_client_request();
        let mut request = request.map_err(|source| DialError::Upgrade { source })?;
        request.headers_mut().insert(AUTHORIZATION, token.bearer());
        let config = Some(crate::socket::config());
        match tokio_tungstenite::client_async_with_config(request, bytes, config).await {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => {
                let content_type = text(response.headers());
                let body = response.body().as_deref().unwrap_or_default();
                let status = response.status().as_u16();
                Err(DialError::Answer(HubAnswer::of(status, &content_type, body)))
            }
            Err(source) => Err(DialError::Upgrade { source }),
        }
    }

    async fn tcp(&self) -> Result<TcpStream, DialError> {
        let (host, port) = (self.hub.host(), self.hub.port());
        let found = lookup_host((host, port)).await;
        let found = found.map_err(|source| DialError::Resolve { host: host.to_owned(), source })?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in found {
            match TcpStream::connect(address).await {
                Ok(tcp) => {
                    // A frame is whole when it is written; waiting for more would only delay it.
                    drop(tcp.set_nodelay(true));
                    return Ok(tcp);
                }
                Err(error) => last = error,
            }
        }
        Err(DialError::Connect { host: host.to_owned(), port, source: last })
    }
}

fn text(headers: &HeaderMap) -> String {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_ascii_lowercase()
}

/// Why a hub was not reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// There is no token to show.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Nobody knows the host's name.
    #[error("look up the address of {host}")]
    Resolve {
        /// Whose.
        host: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No connection.
    #[error("connect to {host} on port {port}")]
    Connect {
        /// Where.
        host: String,
        /// Which.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No encryption.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Another answer than an upgrade.
    #[error("{0}")]
    Answer(HubAnswer),
    /// No answer that could be read.
    #[error("ask the hub for a WebSocket")]
    Upgrade {
        /// Why.
        #[source]
        source: Error,
    },
    /// It took too long.
    #[error("the hub was not reached within 30 seconds")]
    TimedOut,
}

impl DialError {
    /// Whether trying again is in vain until a person has done something.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Answer(answer) if answer.is_final())
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Token(error) => error.hint(),
            Self::Answer(answer) => answer.hint().map(str::to_owned),
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Tls(_)
            | Self::Upgrade { .. }
            | Self::TimedOut => None,
        }
    }
}
