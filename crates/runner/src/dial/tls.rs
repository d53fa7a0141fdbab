//! Encryption, with the certificates that this machine trusts.

use std::sync::Arc;

use rustls::pki_types::{InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Begins TLS on a connection to `host`.
///
/// # Errors
/// The other side is not whom this machine trusts to be `host`, or speaks no TLS.
pub(super) async fn begin(tcp: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, TlsError> {
    let name = ServerName::try_from(host.to_owned()).map_err(|source| TlsError::Name { source })?;
    let connector = TlsConnector::from(Arc::new(config()?));
    connector.connect(name, tcp).await.map_err(|source| TlsError::Handshake { source })
}

/// Read at each dial: a runner lives for months, certificates do not.
fn config() -> Result<ClientConfig, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // One that cannot be read is one that is not trusted.
    let (added, _ignored) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map_or_else(
            || "none is where the system's are looked for".to_owned(),
            ToString::to_string,
        );
        return Err(TlsError::NoRoots { why });
    }
    // Named here, since what is built into a process by default depends on who else is linked.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|source| TlsError::Config { source })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Why there is no encrypted connection.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// No certificate can be asked for under that name.
    #[error("the host's name cannot be in a certificate")]
    Name {
        /// Why.
        #[source]
        source: InvalidDnsNameError,
    },
    /// This machine trusts nobody.
    #[error("this machine has no certificates of authorities (Debian: ca-certificates): {why}")]
    NoRoots {
        /// What was tried.
        why: String,
    },
    /// The library does not take our settings.
    #[error("set up TLS")]
    Config {
        /// Why.
        #[source]
        source: rustls::Error,
    },
    /// The other side is not trusted, or speaks something else.
    #[error("the TLS handshake failed")]
    Handshake {
        /// Why.
        #[source]
        source: std::io::Error,
    },
}
