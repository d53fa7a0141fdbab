//! A log as the body of an answer.

use bytes::Bytes;
use minimal_proto::stream::Stream;
use minimal_store::{Chunk, LogError};

use super::output;
use super::source::LogSource;
use crate::boxes::Outcome;

/// How output is written into a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Payload alone.
    Raw,
    /// With streams, offsets and times.
    Framed,
}

/// What to send of a log.
#[derive(Debug)]
pub(crate) struct LogBody {
    pub(crate) source: LogSource,
    pub(crate) format: Format,
    /// Only this stream.
    pub(crate) only: Option<Stream>,
    /// Until the log is sealed; else until here.
    pub(crate) until: Option<u64>,
}

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BrokenOff {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The daemon knows nothing of the box any more.
    #[error("the daemon is leaving")]
    Leaving,
}

impl LogBody {
    /// The body's pieces. An error breaks the body off, which its reader sees.
    pub(crate) fn pieces(
        self,
    ) -> impl futures_util::Stream<Item = Result<Bytes, BrokenOff>> + Send + 'static {
        futures_util::stream::unfold(Some(self), |body| async move {
            let mut body = body?;
            match body.next().await {
                Ok(Some(piece)) => Some((Ok(piece), Some(body))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>, BrokenOff> {
        loop {
            let standing = self.source.standing();
            let end = self.until.unwrap_or(standing.log_end).min(standing.log_end);
            match self.source.read(end).await? {
                Some(chunk) => {
                    let piece = self.encode(&chunk);
                    if !piece.is_empty() {
                        return Ok(Some(piece));
                    }
                }
                None if self.until.is_some() || matches!(standing.outcome, Outcome::Ended(_)) => {
                    return Ok(None);
                }
                None => {
                    if !self.source.changed().await && !self.source.is_sealed() {
                        return Err(BrokenOff::Leaving);
                    }
                }
            }
        }
    }

    fn encode(&self, chunk: &Chunk) -> Bytes {
        match (chunk, self.format) {
            (Chunk::Frames(frames), Format::Raw) => output::raw(frames, self.only),
            (Chunk::Frames(frames), Format::Framed) => output::framed(frames, self.only),
            (Chunk::Gap { .. }, Format::Raw) => Bytes::new(),
            (Chunk::Gap { from, to }, Format::Framed) => output::framed_gap(*from, *to),
        }
    }
}
