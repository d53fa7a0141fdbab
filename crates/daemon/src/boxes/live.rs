//! A box that has not ended, as the daemon holds it: a view to read, and a way to ask its actor.

use std::sync::Arc;

use minimal_proto::{BoxId, BoxName, Ending, ErrorBody, ErrorCode};
use minimal_store::BoxDir;
use tokio::sync::watch;

use super::execs::Execs;
use super::facts::Facts;
use super::line::Line;
use super::view::View;

/// A box with an actor.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: BoxId,
    /// Its name, which does not change while it lives.
    pub(crate) name: BoxName,
    /// Which life it is in, or about to begin.
    pub(crate) life: u32,
    pub(crate) facts: Facts,
    pub(crate) dir: Arc<BoxDir>,
    pub(crate) view: watch::Receiver<View>,
    /// Its streams, and its actor.
    pub(crate) line: Arc<Line>,
    /// What else was run in it, and has not ended.
    pub(crate) execs: Execs,
}

impl Live {
    /// Waits until a view satisfies the condition, or the last one is there, and returns it.
    pub(crate) async fn wait_for(&self, condition: impl FnMut(&View) -> bool) -> View {
        let mut view = self.view.clone();
        match view.wait_for(condition).await {
            Ok(view) => return view.clone(),
            // The actor is gone: what it published last is what there is.
            Err(_closed) => {}
        }
        view.borrow().clone()
    }

    /// Waits for the ending.
    ///
    /// # Errors
    /// There will be none: the box's directory was deleted, or the daemon is leaving.
    pub(crate) async fn ended(&self) -> Result<Arc<Ending>, ErrorBody> {
        let ending = self.line.ended().await?;
        // Whoever was told has the whole record next.
        self.wait_for(View::is_last).await;
        Ok(ending)
    }

    /// Waits until nothing of this life runs: it has ended, or never began.
    ///
    /// # Errors
    /// As for [`Live::ended`].
    pub(crate) async fn over(&self) -> Result<(), ErrorBody> {
        match self.ended().await {
            Ok(_) => Ok(()),
            Err(error) if error.code == ErrorCode::StartFailed => {
                self.wait_for(View::is_last).await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Why there is no ending though nothing will follow: the directory was deleted.
    pub(super) fn removed(&self) -> ErrorBody {
        let name = &self.name;
        let message = format!("the directory of box `{name}` was deleted while it ran");
        self.line
            .whose
            .error(ErrorCode::ExitUnknown, message)
            .with_hint("remove boxes with `min rm`, which ends them first")
    }

    /// Waits until the actor has left the box to the index.
    pub(crate) async fn gone(&self) {
        let mut view = self.view.clone();
        while view.changed().await.is_ok() {}
    }
}
