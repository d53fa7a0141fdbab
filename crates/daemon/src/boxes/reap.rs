//! Deleting boxes.

use std::sync::Arc;

use minimal_proto::error::Chain;
use minimal_proto::{BoxId, ErrorBody, ErrorCode, Timestamp};
use minimal_store::{ReapError, hook};

use super::{Ended, broken};
use crate::host::Host;
use crate::index::{BeingResumed, Entry};

impl Host {
    /// Reaps a box when its time has come, if it was made to be.
    pub(crate) fn reap_later(self: &Arc<Self>, ended: &Ended) {
        let Some(at) = ended.reap_at else { return };
        let (host, id) = (Arc::clone(self), ended.id);
        tokio::spawn(async move {
            tokio::time::sleep(at.since(Timestamp::now())).await;
            // It may have been acknowledged, or removed by hand.
            if let Some(Entry::Ended(_)) = host.index.get(id)
                && let Err(error) = host.reap(id).await
            {
                tracing::error!(box_id = %id, error = error.message, "the box could not be removed");
            }
        });
    }

    /// Goes on, in the background, with boxes that earlier daemons could not delete whole. Before
    /// there are requests, which could be deleting others.
    pub(crate) fn remove_condemned(self: &Arc<Self>) {
        let left = self.state.condemned().unwrap_or_else(|error| {
            tracing::error!(error = %Chain(&error), "what is left of deleted boxes is unknown");
            Vec::new()
        });
        if !left.is_empty() {
            let host = Arc::clone(self);
            drop(tokio::task::spawn_blocking(move || {
                left.into_iter().for_each(|id| remove_as_its_users(&host, id));
            }));
        }
    }

    /// Deletes a box that has ended, or whose directory is broken.
    ///
    /// # Errors
    /// It is alive, or could not be deleted; then it is listed as before.
    pub(crate) async fn reap(self: &Arc<Self>, id: BoxId) -> Result<(), ErrorBody> {
        match self.index.get(id) {
            None => return Ok(()),
            Some(Entry::Live(live)) => {
                return Err(ErrorBody::new(
                    ErrorCode::NeedsForce,
                    format!("box `{}` runs", live.name),
                ));
            }
            Some(Entry::Ended(_) | Entry::Broken(_)) => {}
        }
        // Out of the index first, so that nobody finds a box that is half gone.
        let condemned = self.index.condemn(id).map_err(|BeingResumed| {
            ErrorBody::new(ErrorCode::WrongState, format!("box {id} is being resumed"))
        })?;
        let Some(entry) = condemned else { return Ok(()) };
        let host = Arc::clone(self);
        let is_broken = matches!(entry, Entry::Broken(_));
        let reaped = tokio::task::spawn_blocking(move || delete(&host, id, is_broken)).await;
        match reaped.expect("deleting does not panic") {
            Ok(()) => {
                tracing::info!(box_id = %id, "reaped");
                Ok(())
            }
            Err(error) => {
                self.index.put(entry);
                Err(error)
            }
        }
    }
}

fn delete(host: &Host, id: BoxId, is_broken: bool) -> Result<(), ErrorBody> {
    hook::point("daemon.reap.before")
        .map_err(|error| ErrorBody::new(ErrorCode::Internal, error.to_string()))?;
    if is_broken {
        broken::refuse_if_kept(host, id)?;
    }
    match host.state.reap(id) {
        Ok(()) | Err(ReapError::Missing { .. }) => Ok(()),
        // It is a box no more. What is left belongs to others of the box's users, or stays until
        // the next start of the daemon.
        Err(error @ ReapError::Remove { .. }) => {
            tracing::info!(box_id = %id, error = %Chain(&error), "the nursery deletes the rest");
            remove_as_its_users(host, id);
            Ok(())
        }
        Err(error @ (ReapError::Move { .. } | ReapError::List { .. })) => {
            Err(ErrorBody::new(ErrorCode::Internal, Chain(&error).to_string()))
        }
    }
}

/// Has the rest of a box deleted by someone who has its users' rights.
fn remove_as_its_users(host: &Host, id: BoxId) {
    if let Err(error) = host.launcher.remove(id) {
        tracing::error!(box_id = %id, error = %Chain(&error), "not all of the box could be deleted");
    }
}
