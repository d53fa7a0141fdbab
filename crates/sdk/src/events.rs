//! Reading a box's events, going on where a connection broke off.

use std::collections::VecDeque;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use minimal_proto::{BoxId, ErrorBody, ErrorCode, Event, EventData};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::client::box_target;
use crate::http::{Call, Repeat};
use crate::{CallError, Client};

/// The longest line: an event holds a spec's enforcement or an ending's detail, a few KiB.
const LINE_MAX: usize = 4 << 20;

/// Reads one box's events, in order, each once.
#[derive(Debug)]
pub struct EventReader {
    client: Client,
    id: BoxId,
    follow: bool,
    body: Incoming,
    /// Bytes of a line that is not complete.
    partial: Vec<u8>,
    ready: VecDeque<Event>,
    last_seq: u64,
    ended: bool,
    backoff: Backoff,
    /// When the body was begun to be read, until it is lost.
    opened: Option<Instant>,
}

impl EventReader {
    pub(crate) async fn open(client: Client, id: BoxId, follow: bool) -> Result<Self, CallError> {
        let body = client.http().body_within(&call(id, follow), client.retry()).await?;
        let backoff = Backoff::new(client.retry());
        Ok(Self {
            client,
            id,
            follow,
            body,
            partial: Vec::new(),
            ready: VecDeque::new(),
            last_seq: 0,
            ended: false,
            backoff,
            opened: Some(Instant::now()),
        })
    }

    /// The next event; `None` after the last there is, or, if followed, after the box's last.
    ///
    /// # Errors
    /// The daemon was lost for longer than the client's patience, the box is gone, or an answer
    /// breaks the format.
    pub async fn next(&mut self) -> Result<Option<Event>, CallError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                // After a new beginning the first events are those that were read before.
                if event.seq <= self.last_seq {
                    continue;
                }
                if event.seq != self.last_seq + 1 {
                    return Err(violation("events are missing"));
                }
                self.last_seq = event.seq;
                self.ended |= matches!(event.data, EventData::Exited(_) | EventData::Failed(_));
                self.backoff.progress();
                return Ok(Some(event));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.take(&bytes)?;
                    }
                }
                None if !self.partial.is_empty() => {
                    return Err(violation("it ends inside a line"));
                }
                None if !self.follow || self.ended => return Ok(None),
                // A daemon that leaves may end the body; the box has not ended.
                None => self.reopen_after(CallError::Closed { what: self.what() }).await?,
                Some(Err(source)) => {
                    self.reopen_after(CallError::Lost { what: self.what(), source }).await?;
                }
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.partial.len() + line.len() > LINE_MAX {
                return Err(violation("a line is too long"));
            }
            self.partial.extend_from_slice(line);
            if line.ends_with(b"\n") {
                let event = serde_json::from_slice(&self.partial)
                    .map_err(|source| CallError::Malformed { what: self.what(), source })?;
                self.ready.push_back(event);
                self.partial.clear();
            }
        }
        Ok(())
    }

    fn what(&self) -> String {
        call(self.id, self.follow).what()
    }

    async fn reopen_after(&mut self, mut error: CallError) -> Result<(), CallError> {
        let client = self.client.clone();
        loop {
            client
                .http()
                .recover(&mut self.backoff, self.opened.take(), Repeat::Safe, error)
                .await?;
            match client.http().body(&call(self.id, self.follow)).await {
                Ok(body) => {
                    self.partial.clear();
                    (self.body, self.opened) = (body, Some(Instant::now()));
                    return Ok(());
                }
                Err(again) => error = again,
            }
        }
    }
}

fn call(id: BoxId, follow: bool) -> Call {
    let target = box_target(id, "/events");
    let target = if follow { target.with("follow", "true") } else { target };
    Call::get(target).unlimited()
}

fn violation(why: &'static str) -> CallError {
    let message = format!("the daemon's event stream breaks its format: {why}");
    CallError::Api(Box::new(ErrorBody::new(ErrorCode::Internal, message)))
}
