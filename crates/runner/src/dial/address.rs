//! Where a hub is.

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;

use super::Identity;

/// What is appended to the path of a hub's address.
const ENDPOINT: &str = "/api/runners/ws";

/// The address of a hub: `https` or `http`, a host, perhaps a port and a path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    secure: bool,
    host: String,
    port: u16,
    /// Without a slash at its end.
    path: String,
}

impl HubAddress {
    /// Whether what is sent there is encrypted.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The name or address of its machine; an IPv6 address without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, given or usual.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it can only be this machine, so that nobody on the way can listen.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost"
            || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The address of the WebSocket of a runner.
    pub(super) fn endpoint(&self, identity: &Identity) -> String {
        let scheme = if self.secure { "wss" } else { "ws" };
        format!("{scheme}://{}{}{ENDPOINT}?{}", self.authority(), self.path, identity.query())
    }

    fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port {
            port if port == usual_port(self.secure) => host,
            port => format!("{host}:{port}"),
        }
    }
}

fn usual_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

impl fmt::Display for HubAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        f.pad(&format!("{scheme}://{}{}", self.authority(), self.path))
    }
}

impl FromStr for HubAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri: Uri = text.parse().map_err(|source| AddressError::Form { source })?;
        let secure = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS || scheme.as_str() == "wss" => true,
            Some(scheme) if *scheme == Scheme::HTTP || scheme.as_str() == "ws" => false,
            Some(other) => return Err(AddressError::Scheme { scheme: other.to_string() }),
            None => return Err(AddressError::NoScheme),
        };
        let authority = uri.authority().ok_or(AddressError::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(AddressError::Secret);
        }
        if uri.query().is_some() || text.contains('#') {
            return Err(AddressError::Query);
        }
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(AddressError::NoHost);
        }
        // What is behind the host is a colon and a number that the parser may have left unread.
        let rest = authority.as_str().rsplit(']').next().unwrap_or_default();
        let port = match (authority.port_u16(), rest.contains(':')) {
            (Some(0), _) | (None, true) => return Err(AddressError::Port),
            (Some(port), _) => port,
            (None, false) => usual_port(secure),
        };
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { secure, host: host.to_owned(), port, path })
    }
}

/// Why a text is no address of a hub. Never holds the text, which may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// It is no URL.
    #[error("it is not a URL")]
    Form {
        /// What is wrong in it.
        #[source]
        source: http::uri::InvalidUri,
    },
    /// It does not say how to connect.
    #[error("it does not begin with https:// or http://")]
    NoScheme,
    /// It says how in a way that nobody knows here.
    #[error("it begins with {scheme}://, and a hub's begins with https:// or http://")]
    Scheme {
        /// The word.
        scheme: String,
    },
    /// No host is in it.
    #[error("it names no host")]
    NoHost,
    /// Its port is none.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// A name or password is in it, where everybody who lists processes reads it.
    #[error("it holds a user or a password; a token is read from a file")]
    Secret,
    /// A query or fragment, which this runner writes itself.
    #[error("it has a query or a fragment")]
    Query,
}
