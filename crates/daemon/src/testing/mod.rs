//! A daemon without processes: the API on a socket, and keepers played by the test.

mod client;
mod exec;
mod keeper;
mod lock;

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use minimal_proto::api::{CreateBox, Isolation, StartOptions};
use minimal_proto::{BoxId, Spec};
use minimal_store::StateDir;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

pub(crate) use client::{Attached, Heard, call};
pub(crate) use exec::{ExecDoor, FakeExec};
pub(crate) use keeper::{FakeKeeper, ending};
pub(crate) use lock::LockHolder;

use crate::api;
use crate::boxes::load;
use crate::host::{Host, Parts};
use crate::launcher::{KeeperLauncher, LaunchError, Launched};
use crate::socket::Socket;

/// How long anything in a test may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A state directory and a daemon over it.
pub(crate) struct World {
    root: Arc<TempDir>,
    pub(crate) host: Arc<Host>,
    launched: mpsc::UnboundedReceiver<UnixStream>,
    /// The daemon's own, so that it can die: every task of it ends where it waits.
    runtime: Option<Runtime>,
    refuses: Arc<AtomicBool>,
}

/// Hands one end of a socket pair to the test for each keeper that is asked for.
#[derive(Debug)]
struct FakeLauncher {
    launched: mpsc::UnboundedSender<UnixStream>,
    refuses: Arc<AtomicBool>,
}

impl KeeperLauncher for FakeLauncher {
    fn prepare(&self) -> Result<(), LaunchError> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(LaunchError::Isolation { reason: "user namespaces are off".into() });
        }
        Ok(())
    }

    fn launch(&self) -> Result<Launched, LaunchError> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        self.launched.send(theirs).unwrap();
        Ok(Launched { connection: ours, process: None })
    }

    fn is_ready(&self) -> bool {
        true
    }

    fn make_ahead(&self) {}

    fn calm_down(&self) {}

    fn remove(&self, _id: BoxId) -> Result<(), LaunchError> {
        // Nothing here belongs to anyone but the daemon.
        Err(LaunchError::Step { message: "no nursery in this test".into(), errno: None })
    }

    fn isolation(&self) -> Isolation {
        Isolation::Available { users: "single".into() }
    }
}

impl World {
    /// A daemon over an empty state directory.
    pub(crate) async fn new() -> Self {
        Self::over(Arc::new(TempDir::new().unwrap())).await
    }

    /// The daemon dies, and another one takes its place.
    pub(crate) async fn restart(self) -> Self {
        let root = Arc::clone(&self.root);
        drop(self);
        Self::over(root).await
    }

    async fn over(root: Arc<TempDir>) -> Self {
        let (sender, launched) = mpsc::unbounded_channel();
        let refuses = Arc::new(AtomicBool::new(false));
        let launcher = Box::new(FakeLauncher { launched: sender, refuses: Arc::clone(&refuses) });
        let state = StateDir::open(&root.path().join("state")).unwrap();
        let (version, build) = ("1".to_owned(), "test".to_owned());
        let host = Arc::new(Host::new(Parts { state, launcher, version, build }));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (serving, path) = (Arc::clone(&host), root.path().join("s.sock"));
        let (sender, ready) = oneshot::channel();
        runtime.spawn(async move {
            load::load(&serving).await.unwrap();
            let (socket, _file) = Socket::bind(&path).unwrap();
            sender.send(()).unwrap();
            axum::serve(socket, api::router(serving)).await.unwrap();
        });
        ready.await.unwrap();
        Self { root, host, launched, runtime: Some(runtime), refuses }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.root.path().join("s.sock")
    }

    pub(crate) fn box_path(&self, id: BoxId) -> PathBuf {
        self.host.state.path().join("boxes").join(id.to_string())
    }

    /// From now on the host refuses isolation.
    pub(crate) fn refuse_isolation(&self) {
        self.refuses.store(true, Ordering::Relaxed);
    }

    /// The next keeper that is asked for.
    pub(crate) async fn keeper(&mut self) -> FakeKeeper {
        let stream = within(self.launched.recv()).await.expect("the daemon lives");
        FakeKeeper::born(&self.host.state, stream).await
    }

    /// A keeper that no later daemon has met, listening in its box's directory.
    pub(crate) fn listening_keeper(&self, id: BoxId) -> std::os::unix::net::UnixListener {
        std::os::unix::net::UnixListener::bind(self.box_path(id).join("keeper.sock")).unwrap()
    }

    /// A running box with its keeper.
    pub(crate) async fn running(&mut self, start: StartOptions) -> FakeKeeper {
        let request = CreateBox { start, ..create() };
        let creating = {
            let socket = self.socket();
            tokio::spawn(async move {
                client::call(&socket, "POST", "/v1/boxes", &[], Some(&request)).await
            })
        };
        let mut keeper = self.keeper().await;
        keeper.start().await;
        let (status, body) = creating.await.unwrap();
        assert_eq!(status, 201, "{body}");
        keeper
    }

    pub(crate) async fn call(&self, method: &str, path: &str) -> (u16, serde_json::Value) {
        client::call::<()>(&self.socket(), method, path, &[], None).await
    }

    pub(crate) async fn post<T: serde::Serialize>(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &T,
    ) -> (u16, serde_json::Value) {
        client::call(&self.socket(), "POST", path, headers, Some(body)).await
    }

    /// The body of an answer, as it is.
    pub(crate) async fn bytes(&self, path: &str) -> Vec<u8> {
        client::bytes(&self.socket(), path).await
    }

    /// Asks until the record satisfies the condition.
    pub(crate) async fn record_until(
        &self,
        id: BoxId,
        condition: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let path = format!("/v1/boxes/{id}");
        let mut last = serde_json::Value::Null;
        let asked = async {
            loop {
                last = self.call("GET", &path).await.1;
                if condition(&last) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let met = tokio::time::timeout(LIMIT, asked).await.is_ok();
        assert!(met, "the record never was as expected: {last}");
        last
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A request for a small box.
pub(crate) fn create() -> CreateBox {
    CreateBox {
        digest: None,
        spec: Spec::task(vec!["/bin/sh".into(), "-c".into(), "secret".into()]),
        values: BTreeMap::new(),
        start: StartOptions::default(),
    }
}

/// Waits for what must not take long.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.expect("it took too long")
}

/// Compares a generated file with what it should be, or writes it if `MIN_UPDATE` is set.
pub(crate) fn compare_generated(path: &std::path::Path, expected: &str) {
    if std::env::var_os("MIN_UPDATE").is_some() {
        std::fs::write(path, expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let name = path.display();
    assert!(found == expected, "{name} is not up to date: `cargo xtask gen` writes it");
}
