//! Handing a box to a keeper that may have been stopped by a signal.
//!
//! One that was found stopped is not taken (`launcher`). It may be stopped a moment later, and then it
//! would be waited for until the start is given up: so it is looked at again when it is silent.

use std::sync::Arc;
use std::time::Duration;

use minimal_keeper::nursery::KeeperProcess;
use minimal_proto::BoxId;
use minimal_proto::error::Chain;
use minimal_proto::keeper::ToKeeper;
use minimal_store::LifeLock;

use super::Link;
use crate::host::Host;

/// How long a keeper may take to greet before it is looked at: it opens a few files before.
const GREETING_LIMIT: Duration = Duration::from_millis(500);

/// How many keepers are given up for one box: whoever stops one after the other means it.
const MOST_GIVEN_UP: usize = 3;

/// Tells a keeper to start a box, and returns the connection to the one that has shown a sign of life,
/// or that is not known to be stopped.
pub(super) async fn start(
    host: &Arc<Host>,
    id: BoxId,
    (mut link, mut process): (Link, Option<KeeperProcess>),
    start: &ToKeeper,
) -> Link {
    link.send(start);
    for _ in 0..MOST_GIVEN_UP {
        let Some(silent) = process.take() else { return link };
        if tokio::time::timeout(GREETING_LIMIT, link.answered()).await.is_ok() {
            return link;
        }
        let another = {
            let host = Arc::clone(host);
            tokio::task::spawn_blocking(move || in_place_of(&host, id, &silent))
        };
        let Ok(Some((stream, next))) = another.await else { return link };
        let Ok(another) = Link::new(stream) else { return link };
        link = another;
        link.send(start);
        process = next;
    }
    link
}

/// Ends a keeper that is stopped before it has begun the box, and gets another one. None if that is
/// not so, or there is no other.
fn in_place_of(
    host: &Host,
    id: BoxId,
    silent: &KeeperProcess,
) -> Option<(std::os::unix::net::UnixStream, Option<KeeperProcess>)> {
    if !silent.is_stopped() {
        return None;
    }
    tracing::warn!(box_id = %id, "its keeper was stopped by a signal; it gets another one");
    // What it had made of the box goes with it: its init at the latest sees the end of its lifeline.
    if !matches!(silent.kill(), Ok(true)) {
        return None;
    }
    silent.remove_cgroups(host.state.path());
    let dir = host.state.box_dir(id).ok()?;
    let lock = LifeLock::open(&dir).ok()?;
    if lock.has_begun().unwrap_or(true) {
        return None;
    }
    match host.launcher.launch() {
        Ok(launched) => Some((launched.connection, launched.process)),
        Err(error) => {
            tracing::warn!(box_id = %id, error = %Chain(&error), "there is no other keeper");
            None
        }
    }
}
