//! Reading a log, going on where a connection broke off.

use bytes::{Buf as _, Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use minimal_proto::stream::{MAX_BINARY, Stream};
use minimal_proto::{ErrorBody, ErrorCode, Timestamp};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::http::{Call, Repeat};
use crate::query::{LogQuery, LogStart, Target};
use crate::{CallError, Client, Subject};

/// A piece of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPiece {
    /// Output.
    Output {
        /// Which.
        stream: Stream,
        /// The offset of the first byte.
        offset: u64,
        /// When the keeper read it.
        time: Timestamp,
        /// The bytes.
        bytes: Bytes,
    },
    /// Output that is no longer kept.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The byte after the last missing one.
        to: u64,
    },
}

/// Reads the log of a box or of an exec.
#[derive(Debug)]
pub struct LogReader {
    client: Client,
    subject: Subject,
    query: LogQuery,
    body: Incoming,
    decoder: Decoder,
    /// Where to go on; none until something was read.
    next: Option<u64>,
    backoff: Backoff,
    /// When the body was begun to be read, until it is lost.
    opened: Option<Instant>,
}

impl LogReader {
    pub(crate) async fn open(
        client: Client,
        subject: Subject,
        query: LogQuery,
    ) -> Result<Self, CallError> {
        let body = client.http().body_within(&call(subject, &query), client.retry()).await?;
        let backoff = Backoff::new(client.retry());
        let (decoder, opened) = (Decoder::default(), Some(Instant::now()));
        Ok(Self { client, subject, query, body, decoder, next: None, backoff, opened })
    }

    /// The next piece; `None` at the end: of what there is now, or of the sealed log if it is
    /// followed.
    ///
    /// # Errors
    /// The daemon was lost for longer than the client's patience, the box is gone, or an answer
    /// breaks the format.
    pub async fn next(&mut self) -> Result<Option<LogPiece>, CallError> {
        loop {
            match self.decoder.next_piece() {
                Ok(Some(piece)) => {
                    self.backoff.progress();
                    match self.place(piece)? {
                        Some(piece) => return Ok(Some(piece)),
                        None => continue,
                    }
                }
                Ok(None) => {}
                Err(why) => return Err(violation(why)),
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.decoder.feed(bytes);
                    }
                }
                // A whole body ends at a frame's end. While following, a daemon that leaves could
                // also end it: only a box that has ended makes it the log's end.
                None if self.decoder.is_empty() => {
                    if !self.query.follow || self.is_sealed().await? {
                        return Ok(None);
                    }
                    self.reopen().await?;
                }
                None => return Err(violation("it ends inside a frame")),
                Some(Err(source)) => {
                    let what = call(self.subject, &self.query).what();
                    self.reopen_after(CallError::Lost { what, source }).await?;
                }
            }
        }
    }

    /// Checks a piece against what was read before, and takes note of its end. `None`: a repeat of
    /// the beginning of the piece that the last connection broke off in.
    fn place(&mut self, piece: LogPiece) -> Result<Option<LogPiece>, CallError> {
        let (from, to) = match &piece {
            LogPiece::Output { offset, bytes, .. } => (*offset, *offset + bytes.len() as u64),
            LogPiece::Gap { from, to } => (*from, *to),
        };
        let next = self.next.unwrap_or(from);
        // Read by stream, a log has jumps; it never goes back.
        if from < next {
            return Err(violation("output is repeated"));
        }
        self.next = Some(to);
        Ok(Some(piece))
    }

    async fn is_sealed(&self) -> Result<bool, CallError> {
        let Subject { box_id, exec } = self.subject;
        let state = match exec {
            Some(exec) => Some(self.client.exec(box_id, &exec.to_string()).await?.state),
            None => self.client.get(&box_id.to_string()).await?.state,
        };
        Ok(state.is_none_or(minimal_proto::State::is_ended))
    }

    async fn reopen(&mut self) -> Result<(), CallError> {
        self.decoder = Decoder::default();
        if let Some(next) = self.next {
            self.query.start = LogStart::Offset(next);
        }
        self.body = self.client.http().body(&call(self.subject, &self.query)).await?;
        self.opened = Some(Instant::now());
        Ok(())
    }

    async fn reopen_after(&mut self, mut error: CallError) -> Result<(), CallError> {
        let client = self.client.clone();
        loop {
            client
                .http()
                .recover(&mut self.backoff, self.opened.take(), Repeat::Safe, error)
                .await?;
            match self.reopen().await {
                Ok(()) => return Ok(()),
                Err(again) => error = again,
            }
        }
    }
}

fn call(subject: Subject, query: &LogQuery) -> Call {
    Call::get(Target::log(subject, query)).unlimited()
}

fn violation(why: &'static str) -> CallError {
    let message = format!("the daemon's log stream breaks its format: {why}");
    CallError::Api(Box::new(ErrorBody::new(ErrorCode::Internal, message)))
}

/// `[stream u8][offset u64][time i64][length u32]`, little-endian.
const HEADER: usize = 21;

/// Cuts a framed body into pieces. Sans I/O.
#[derive(Debug, Default)]
struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    fn feed(&mut self, bytes: Bytes) {
        if !self.buffer.is_empty() {
            self.buffer.extend_from_slice(&bytes);
            return;
        }
        // Nothing is left over: take the bytes as they are, if nobody else holds them.
        match bytes.try_into_mut() {
            Ok(whole) => self.buffer = whole,
            Err(shared) => self.buffer.extend_from_slice(&shared),
        }
    }

    fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    fn next_piece(&mut self) -> Result<Option<LogPiece>, &'static str> {
        let Some(mut header) = self.buffer.get(..HEADER) else { return Ok(None) };
        let stream = header.get_u8();
        let offset = header.get_u64_le();
        let time = Timestamp::from_micros(header.get_i64_le());
        let length = header.get_u32_le() as usize;
        if length > MAX_BINARY {
            return Err("a frame is too long");
        }
        if self.buffer.len() < HEADER + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        let mut bytes = self.buffer.split_to(length).freeze();
        if stream == 0 {
            if length != 8 {
                return Err("a gap has no end");
            }
            let to = bytes.get_u64_le();
            return match to > offset {
                true => Ok(Some(LogPiece::Gap { from: offset, to })),
                false => Err("a gap ends before it begins"),
            };
        }
        let stream = Stream::from_byte(stream).ok_or("a frame names no stream")?;
        if offset.checked_add(length as u64).is_none() {
            return Err("an offset is beyond all output");
        }
        Ok(Some(LogPiece::Output { stream, offset, time, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(pieces: &[LogPiece]) -> Vec<u8> {
        let mut wire = Vec::new();
        for piece in pieces {
            let (stream, offset, time, bytes) = match piece {
                LogPiece::Output { stream, offset, time, bytes } => {
                    (stream.to_byte(), *offset, time.as_micros(), bytes.to_vec())
                }
                LogPiece::Gap { from, to } => (0, *from, 0, to.to_le_bytes().to_vec()),
            };
            wire.push(stream);
            wire.extend(offset.to_le_bytes());
            wire.extend(time.to_le_bytes());
            wire.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
            wire.extend(bytes);
        }
        wire
    }

    fn pieces() -> impl Strategy<Value = Vec<LogPiece>> {
        let output = (1u8..=3, any::<u32>(), any::<i64>(), any::<Vec<u8>>()).prop_map(
            |(stream, offset, time, bytes)| LogPiece::Output {
                stream: Stream::from_byte(stream).unwrap(),
                offset: offset.into(),
                time: Timestamp::from_micros(time),
                bytes: bytes.into(),
            },
        );
        let gap = (any::<u32>(), 1u64..1000).prop_map(|(from, length)| LogPiece::Gap {
            from: from.into(),
            to: u64::from(from) + length,
        });
        proptest::collection::vec(prop_oneof![output, gap], 0..8)
    }

    proptest! {
        #[test]
        fn pieces_survive_any_cut(pieces in pieces(), cut in 1usize..60) {
            let mut decoder = Decoder::default();
            let mut seen = Vec::new();
            for part in encode(&pieces).chunks(cut) {
                decoder.feed(Bytes::copy_from_slice(part));
                while let Some(piece) = decoder.next_piece().unwrap() {
                    seen.push(piece);
                }
            }
            prop_assert!(decoder.is_empty());
            prop_assert_eq!(seen, pieces);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let mut decoder = Decoder::default();
            decoder.feed(bytes.into());
            while let Ok(Some(_)) = decoder.next_piece() {}
        }
    }
}
