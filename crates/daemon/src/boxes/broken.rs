//! Boxes whose directory cannot be read and whose keeper lives all the same: it can be asked to end
//! its box, and nothing else is known.

use std::time::Duration;

use minimal_linux::socket;
use minimal_proto::api::StopBox;
use minimal_proto::error::Chain;
use minimal_proto::keeper::{FromKeeper, ToKeeper};
use minimal_proto::{BoxId, ErrorBody, ErrorCode};
use minimal_store::{BoxDir, LifeLock};

use super::actor::HELLO_LIMIT;
use super::link::{Link, LinkError};
use crate::host::Host;

/// How long a box may take to end after the grace it was given.
const END_LIMIT: Duration = Duration::from_secs(30);

/// The grace that is waited for where only the box's spec says which: it cannot be read.
const UNKNOWN_GRACE: Duration = Duration::from_secs(60);

/// Whether somebody keeps the box, and who, as far as that shows. Blocking.
fn keeper(dir: &BoxDir) -> Option<Option<i32>> {
    let lock = LifeLock::open(dir).ok();
    if let Some(lock) = &lock
        && lock.holders().is_ok_and(|holders| !holders.nobody())
    {
        return Some(lock.keeper_pid().ok().flatten());
    }
    // The lock file may be gone, or another one.
    let listens = socket::is_listening(dir.dir_fd(), minimal_keeper::SOCKET).unwrap_or(false);
    listens.then_some(None)
}

/// Whether somebody keeps the box. Blocking.
pub(crate) fn is_kept(host: &Host, id: BoxId) -> bool {
    host.state.box_dir(id).is_ok_and(|dir| keeper(&dir).is_some())
}

/// Refuses to go on with a box that somebody keeps. Blocking.
///
/// # Errors
/// Somebody does.
pub(super) fn refuse_if_kept(host: &Host, id: BoxId) -> Result<(), ErrorBody> {
    let Ok(dir) = host.state.box_dir(id) else { return Ok(()) };
    match keeper(&dir) {
        None => Ok(()),
        Some(pid) => {
            let message = format!("box {id} cannot be read, and its keeper{} lives", words(pid));
            Err(ErrorBody::new(ErrorCode::NeedsForce, message)
                .with_hint("stop it first, or remove it with force, which kills it")
                .with_detail("keeper_pid", pid))
        }
    }
}

/// Ends a box through its keeper, if it has one. Whether it had.
///
/// # Errors
/// The keeper does not answer, or the box does not end.
pub(crate) async fn end(host: &Host, id: BoxId, stop: StopBox) -> Result<bool, ErrorBody> {
    let Ok(dir) = host.state.box_dir(id) else { return Ok(false) };
    let dir = std::sync::Arc::new(dir);
    let looking = std::sync::Arc::clone(&dir);
    let kept = tokio::task::spawn_blocking(move || keeper(&looking)).await;
    let Some(pid) = kept.expect("looking for a keeper does not panic") else { return Ok(false) };
    let fault = |why: String| {
        let message = format!(
            "box {id} cannot be read, and its keeper{} cannot be asked to end it: {why}",
            words(pid)
        );
        let hint = pid.map(|pid| format!("`kill -9 {pid}` ends its keeper, and the box with it"));
        let body = ErrorBody::new(ErrorCode::Unresponsive, message).with_detail("keeper_pid", pid);
        match hint {
            Some(hint) => body.with_hint(hint),
            None => body,
        }
    };
    let grace = match (stop.force, stop.grace_ms) {
        (true, _) => Duration::ZERO,
        (false, Some(grace)) => Duration::from_millis(grace),
        (false, None) => UNKNOWN_GRACE,
    };
    let asked = async {
        let mut link = Link::connect(&dir).await.map_err(LinkError::Io)?;
        tokio::time::timeout(HELLO_LIMIT, link.hello(id))
            .await
            .unwrap_or(Err(LinkError::Silent))?;
        let StopBox { force, grace_ms } = stop;
        link.send(&ToKeeper::Stop { request: 1, force, grace_ms });
        loop {
            match link.next().await {
                Ok(FromKeeper::Ended { .. }) | Err(LinkError::Closed) => return Ok(()),
                // The box has ended, and its directory takes no ending: its keeper leaves once it
                // is deleted.
                Ok(FromKeeper::Hello(hello)) if hello.unsaved_ending.is_some() => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
    };
    match tokio::time::timeout(grace.saturating_add(END_LIMIT), asked).await {
        Ok(Ok(())) => Ok(true),
        Ok(Err(error)) => Err(fault(Chain(&error).to_string())),
        Err(_elapsed) => Err(fault("the box has not ended after it was killed".to_owned())),
    }
}

fn words(pid: Option<i32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}
