//! Staying connected.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::{DialError, Dialer};
use crate::contract::{Backoff, Sandbox};
use crate::runner::{Ended, Runner};

/// The pauses between attempts: up to 1 s, 2 s, 4 s, …, at most 30 s.
pub const RETRY: Backoff =
    Backoff { attempts: u32::MAX, base: Duration::from_secs(1), max: Duration::from_secs(30) };

/// What becomes of the connection.
#[derive(Debug)]
pub enum Report<'a> {
    /// An attempt begins.
    Dialling,
    /// The hub has accepted this runner.
    Connected,
    /// The connection has ended; another attempt follows.
    Lost {
        /// How.
        ended: &'a Ended,
        /// After which pause.
        again_in: Duration,
    },
    /// The hub was not reached; another attempt follows.
    Failed {
        /// Why.
        error: &'a DialError,
        /// How many attempts have failed in a row.
        attempts: u32,
        /// After which pause.
        again_in: Duration,
    },
}

/// Serves a hub, one connection after the other, until `leave` is done: then the connection is closed
/// in good order. Commands run on.
///
/// # Errors
/// The hub answers what will not change by itself.
pub async fn keep_connected<S: Sandbox + 'static>(
    runner: &Arc<Runner<S>>,
    dialer: &Dialer,
    pauses: &Backoff,
    leave: impl Future<Output = ()> + Send,
    mut report: impl FnMut(Report<'_>) + Send,
) -> Result<(), DialError> {
    let mut leave = pin!(leave);
    let mut attempts = 0_u32;
    loop {
        report(Report::Dialling);
        let dialled = tokio::select! {
            biased;
            () = &mut leave => return Ok(()),
            dialled = dialer.dial() => dialled,
        };
        let again_in = match dialled {
            Ok(socket) => {
                report(Report::Connected);
                let served = runner.serve_until(socket, &mut leave).await;
                if matches!(served.ended, Ended::Left) {
                    return Ok(());
                }
                attempts = if served.was_healthy { 1 } else { attempts.saturating_add(1) };
                let again_in = pauses.pause(attempts);
                report(Report::Lost { ended: &served.ended, again_in });
                again_in
            }
            Err(error) if error.is_final() => return Err(error),
            Err(error) => {
                attempts = attempts.saturating_add(1);
                let again_in = pauses.pause(attempts);
                report(Report::Failed { error: &error, attempts, again_in });
                again_in
            }
        };
        tokio::select! {
            biased;
            () = &mut leave => return Ok(()),
            () = tokio::time::sleep(again_in) => {}
        }
    }
}
