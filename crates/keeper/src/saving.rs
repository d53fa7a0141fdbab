//! Bringing an ending to disk before anyone is told of it, however long that takes.

use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use minimal_proto::error::Chain;
use minimal_proto::keeper::FromKeeper;
use minimal_proto::{Ending, EventData, Timestamp};
use minimal_store::{JournalError, hook};

use crate::keeper::Hosted;
use crate::peers::Peers;

/// The first pause after a failed write, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long a slow daemon is waited for with the last message.
pub(crate) const FAREWELL: Duration = Duration::from_secs(2);

impl Hosted {
    /// Writes the events that could not be written yet, in their order, and tells everyone of each.
    ///
    /// # Errors
    /// One still cannot be; it and those after it wait.
    pub(crate) fn catch_up(&mut self, peers: &mut Peers) -> Result<(), JournalError> {
        while let Some((data, ts)) = self.unsaved.front() {
            match self.journal.append(data.clone(), *ts) {
                Ok(event) => {
                    self.unsaved.pop_front();
                    peers.broadcast(&FromKeeper::Event { event });
                }
                Err(error) => {
                    let cause = Chain(&error).to_string();
                    self.log.error(&self.dir, "an event cannot be written yet", &cause);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Appends the ending, retrying until it is on disk, and then tells every daemon. Meanwhile
/// connections are answered with the ending that is not saved yet.
pub(crate) fn save_and_tell(
    hosted: &mut Hosted,
    peers: &mut Peers,
    listener: Option<&UnixListener>,
    ending: &Ending,
    log_end: u64,
) {
    peers.greeting.log_end = log_end;
    peers.greeting.input_open = false;
    let data = if ending.reason().is_observed() {
        EventData::Exited(ending.clone())
    } else if hosted.journal.record().is_resuming() {
        EventData::ResumeFailed(ending.clone())
    } else {
        EventData::Failed(ending.clone())
    };
    let mut pause = PAUSE.0;
    let event = loop {
        let saved = hook::point("keeper.end.before_journal")
            .map_err(|error| error.to_string())
            .and_then(|()| {
                hosted.catch_up(peers).map_err(|error| Chain(&error).to_string())?;
                hosted
                    .journal
                    .append_durable(data.clone(), Timestamp::now())
                    .map_err(|error| Chain(&error).to_string())
            });
        match saved {
            Ok(event) => break event,
            Err(cause) => {
                hosted.log.error(
                    &hosted.dir,
                    "the ending cannot be written; it is kept and tried again",
                    &cause,
                );
                // A box whose directory was removed has no place for an ending.
                if !hosted.dir.is_linked() {
                    return;
                }
                if peers.greeting.unsaved_ending.is_none() {
                    peers.greeting.unsaved_ending = Some(ending.clone());
                    // Whoever is connected was greeted before there was an ending.
                    let greeting = peers.greeting.clone();
                    peers.broadcast(&FromKeeper::Hello(greeting));
                }
                peers.serve_until(listener, Instant::now() + pause);
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    };
    hook::point("keeper.end.after_journal").ok();
    hosted.log.ended(&hosted.dir, ending);
    peers.broadcast(&FromKeeper::Event { event });
    peers.broadcast(&FromKeeper::Ended { ending: ending.clone(), log_end });
    hook::point("keeper.end.told").ok();
    peers.finish(FAREWELL);
}
