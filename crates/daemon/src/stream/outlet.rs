//! Input on its way from a client to the actor: what was taken from the socket and not handed on.
//!
//! The socket is read whether or not the actor takes anything, so that a client that leaves is noticed at
//! once. What may wait here is bounded by the client's window, and over all clients by the daemon's room.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::boxes::{Input, Unseated, WriterSeat};

/// How much is handed on at a time: what a pipe holds by default (pipe(7)).
const PIECE: usize = 64 << 10;

/// A writer's seat, and what its client has sent.
#[derive(Debug)]
pub(super) struct Outlet {
    seat: WriterSeat,
    waiting: BytesMut,
    /// The offset of the first byte that waits.
    offset: u64,
    /// Room of the daemon's that these bytes take.
    room: Option<OwnedSemaphorePermit>,
    /// The end of the input, once it was said.
    eof: Option<u64>,
}

impl Outlet {
    pub(super) fn new(seat: WriterSeat) -> Self {
        let offset = seat.received;
        Self { seat, waiting: BytesMut::new(), offset, room: None, eof: None }
    }

    /// The seat.
    pub(super) fn seat(&self) -> &WriterSeat {
        &self.seat
    }

    /// Takes bytes that follow each other. Waits for room, and takes none if the seat is lost.
    pub(super) async fn take(&mut self, bytes: &Bytes, room: &Arc<Semaphore>) {
        let length = u32::try_from(bytes.len()).expect("a message is at most 1 MiB");
        if length == 0 {
            return;
        }
        let permit = tokio::select! {
            permit = Arc::clone(room).acquire_many_owned(length) => permit,
            () = self.seat.unseated() => return,
        };
        let permit = permit.expect("the daemon's room is never closed");
        match &mut self.room {
            Some(room) => room.merge(permit),
            none => *none = Some(permit),
        }
        self.waiting.extend_from_slice(bytes);
    }

    /// The input ends at this offset, behind what was taken.
    pub(super) fn end(&mut self, offset: u64) {
        self.eof = Some(offset);
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.eof.is_none()
    }

    /// Hands a piece on once the actor takes it. Cancel-safe.
    pub(super) async fn pass_on(&mut self) -> Result<(), Unseated> {
        let place = self.seat.reserve().await?;
        if self.waiting.is_empty() {
            if let Some(offset) = self.eof.take() {
                place.send(Input::Eof { offset });
            }
            return Ok(());
        }
        let bytes = self.waiting.split_to(self.waiting.len().min(PIECE)).freeze();
        let offset = self.offset;
        self.offset += bytes.len() as u64;
        let room = self.room.as_mut().and_then(|room| room.split(bytes.len()));
        place.send(Input::Bytes { offset, bytes, room });
        Ok(())
    }

    /// Hands on what is left, when the client has gone: it has sent it.
    pub(super) fn leave(mut self) {
        if self.is_empty() {
            return;
        }
        tokio::spawn(async move { while !self.is_empty() && self.pass_on().await.is_ok() {} });
    }
}
