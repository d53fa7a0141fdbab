//! A request to run a command that meets the end of its box: nobody is there to be asked any more, and the
//! box's directory tells whether anything of it was run. An exec has its record before its program is
//! executed, and nobody is left who would make one.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use minimal_proto::error::Chain;
use minimal_proto::{ErrorBody, ErrorCode, ExecId};
use minimal_store::ExecDir;

use super::look::{ExecEntry, Place};
use super::start::{Mark, Started, not_running};
use crate::boxes::Live;

/// How long the end of a box may take to be known whose keeper has closed a connection.
const SETTLE_LIMIT: Duration = Duration::from_secs(3);

/// How old an exec may be that a repeat means: a client repeats for a minute, and clocks are set.
const REPEATED_WITHIN: Duration = Duration::from_secs(300);

/// A keeper has closed its connection: it has ended with its box, or is about to be found dead. Then the
/// disk tells; `otherwise` is said if it is neither.
pub(super) async fn answer(
    live: &Arc<Live>,
    asked: Option<ExecId>,
    mark: Option<&Mark>,
    otherwise: ErrorBody,
) -> Result<Started, ErrorBody> {
    match tokio::time::timeout(SETTLE_LIMIT, live.ended()).await {
        Ok(Ok(_ending)) => from_disk(&Place::Live(Arc::clone(live)), asked, mark).await,
        Ok(Err(_)) | Err(_) => Err(otherwise),
    }
}

/// The exec that was asked for, or that an earlier request of the same key has made, in a box that has
/// ended.
///
/// # Errors
/// `wrong_state`: there is none, and nothing was run.
pub(super) async fn from_disk(
    place: &Place,
    asked: Option<ExecId>,
    mark: Option<&Mark>,
) -> Result<Started, ErrorBody> {
    if let Some(id) = asked
        && let Some(ended) = place.ended_exec(id).await?
    {
        return Ok(Started { exec: ExecEntry::Ended(ended), repeated: false });
    }
    if let Some(mark) = mark
        && let Some((id, digest)) = made_under(place, &mark.key).await?
        && let Some(ended) = place.ended_exec(id).await?
    {
        if digest.as_deref() != Some(&mark.digest) {
            let message = format!("the idempotency key `{}` was used for another exec", mark.key);
            return Err(place.error(ErrorCode::KeyReused, message));
        }
        return Ok(Started { exec: ExecEntry::Ended(ended), repeated: true });
    }
    Err(place.error(ErrorCode::WrongState, not_running(place.name(), place.state())))
}

/// The exec that a request with this key has made a while ago, and that request's digest.
async fn made_under(
    place: &Place,
    key: &str,
) -> Result<Option<(ExecId, Option<String>)>, ErrorBody> {
    let (dir, key) = (Arc::clone(place.dir()), key.to_owned());
    let look = move || {
        let ids = ExecDir::list(&dir)?;
        let recent = ids.into_iter().take_while(|id| is_recent(*id));
        let found = recent.filter_map(|id| {
            // What cannot be read is found by nobody.
            let file = ExecDir::open(&dir, id).ok()?.read_file().ok()?;
            (file.idempotency_key.as_ref() == Some(&key)).then_some((id, file.request_digest))
        });
        Ok(found.into_iter().next())
    };
    let found = tokio::task::spawn_blocking(look).await.expect("looking for a key does not panic");
    found.map_err(|error: minimal_store::ExecDirError| {
        place.error(ErrorCode::Broken, Chain(&error).to_string())
    })
}

/// Whether an exec was asked for lately, by the time in its id (RFC 9562, version 7).
fn is_recent(id: ExecId) -> bool {
    let Some(minted) = id.as_uuid().get_timestamp() else { return false };
    let (seconds, nanos) = minted.to_unix();
    let minted = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    // One of the future is of a clock that was set since.
    SystemTime::now().duration_since(minted).is_ok_and(|age| age <= REPEATED_WITHIN)
        || minted > SystemTime::now()
}
