//! A hub that a scenario plays: the project's own platform end behind a listener of the loopback.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use minimal_runner::hub::{Connection, Hangup, RunnerSandbox, Served};
use minimal_testkit::{LIMIT, Running, TestEnv};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};

/// What its runners show.
pub(crate) const TOKEN: &str = "ar_0123456789";

/// A listener that takes runners.
pub(crate) struct Hub {
    listener: TcpListener,
    /// Where runners dial.
    pub(crate) address: SocketAddr,
}

/// A runner that is connected.
pub(crate) struct Connected {
    /// Its sandboxes.
    pub(crate) sandbox: RunnerSandbox,
    connection: Connection,
    /// What it asked for: path and query, and what it showed.
    pub(crate) asked: (String, String),
    serving: JoinHandle<Served>,
}

impl Connected {
    /// Cuts the connection, as a cable that is pulled.
    pub(crate) fn cut(self) {
        self.serving.abort();
    }

    /// Closes the connection in good order.
    pub(crate) async fn hang_up(self) {
        self.connection.hang_up(Hangup::Normal);
        self.ended().await;
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(self) -> Served {
        timeout(LIMIT, self.serving).await.expect("the connection ends").unwrap()
    }
}

impl Hub {
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next connection, before anything was said.
    pub(crate) async fn tcp(&self) -> TcpStream {
        timeout(LIMIT, self.listener.accept()).await.expect("a runner dials").unwrap().0
    }

    /// The next connection, however long it takes.
    pub(crate) async fn accept(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    /// The next runner.
    pub(crate) async fn runner(&self) -> Connected {
        serve(self.tcp().await).await.unwrap()
    }
}

/// Accepts a runner on a connection.
///
/// # Errors
/// The connection broke before it was one.
#[expect(clippy::result_large_err, reason = "the callback's type is the library's")]
pub(crate) async fn serve<T>(stream: T) -> Result<Connected, Error>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let asked = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&asked);
    let note = move |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        let shown = request.headers()["authorization"].to_str().unwrap().to_owned();
        *seen.lock().unwrap() = Some((request.uri().to_string(), shown));
        Ok(response)
    };
    let config = Some(minimal_runner::socket::config());
    let socket = tokio_tungstenite::accept_hdr_async_with_config(stream, note, config);
    let socket = timeout(LIMIT, socket).await.expect("a runner asks for an upgrade")?;
    let (connection, serving) = Connection::serve(socket);
    let asked = asked.lock().unwrap().take().expect("it was noted before the upgrade");
    let sandbox = RunnerSandbox::new(connection.clone());
    Ok(Connected { sandbox, connection, asked, serving: tokio::spawn(serving) })
}

/// The hub's token in a file of the scenario's.
pub(crate) fn token(env: &TestEnv) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = env.file("token", format!("{TOKEN}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().expect("a test's path is text").to_owned()
}

/// `min runner connect` of this name.
pub(crate) fn connect(env: &TestEnv, url: &str, name: &str) -> Running {
    let token = token(env);
    env.min(["runner", "connect", url, "--name", name, "--token-file", &token]).spawn()
}

/// Runs a scenario's own side with a thread for what it has begun, so that a connection is served while
/// a command is waited for.
pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    runtime.block_on(test);
    runtime.shutdown_background();
}
