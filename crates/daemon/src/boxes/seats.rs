//! The two places at a box that only one client can have: its writer's, and its pin's.
//!
//! A seat is one end of a channel whose other end the actor holds. A client leaves by dropping it,
//! however it ends, and is unseated by the actor dropping its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use uuid::Uuid;

/// Messages a writer may have on the way to the actor. Their bytes are bounded by the input window.
const INPUT_MESSAGES: usize = 16;

/// What a writer sends.
#[derive(Debug)]
pub(crate) enum Input {
    /// These bytes, from this offset of the input on, and the daemon's room that they take.
    Bytes { offset: u64, bytes: Bytes, room: Option<OwnedSemaphorePermit> },
    /// The end, at this offset.
    Eof { offset: u64 },
}

/// The client's end of the writer's seat.
#[derive(Debug)]
pub(crate) struct WriterSeat {
    input: mpsc::Sender<Input>,
    taken_over: Arc<AtomicBool>,
    /// Where its input goes on.
    pub(crate) from: u64,
}

/// It is not the writer any more: another connection took over, or the keeper must be found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the writer's seat is gone")]
pub(crate) struct Unseated;

impl WriterSeat {
    /// A place for input on the way to the actor; waits while it is behind. Cancel-safe.
    pub(crate) async fn reserve(&self) -> Result<mpsc::Permit<'_, Input>, Unseated> {
        self.input.reserve().await.map_err(|_closed| Unseated)
    }

    /// Completes once this is not the writer's seat any more.
    pub(crate) async fn unseated(&self) {
        self.input.closed().await;
    }

    /// Whether a newer connection of the same client sits here now.
    pub(crate) fn is_taken_over(&self) -> bool {
        self.taken_over.load(Ordering::Acquire)
    }
}

/// The actor's end.
#[derive(Debug)]
pub(crate) struct Writer {
    client: Option<Uuid>,
    input: mpsc::Receiver<Input>,
    taken_over: Arc<AtomicBool>,
}

impl Writer {
    /// A seat and the actor's end of it.
    pub(crate) fn seat(client: Option<Uuid>, from: u64) -> (Self, WriterSeat) {
        let (sender, input) = mpsc::channel(INPUT_MESSAGES);
        let taken_over = Arc::new(AtomicBool::new(false));
        let seat = WriterSeat { input: sender, taken_over: Arc::clone(&taken_over), from };
        (Self { client, input, taken_over }, seat)
    }

    /// Ends it because its client has come again.
    pub(crate) fn hand_over(self) {
        self.taken_over.store(true, Ordering::Release);
    }

    /// Whether `client` is the one that sits here, so that it may take over from itself.
    pub(crate) fn is_client(&self, client: Option<Uuid>) -> bool {
        client.is_some() && self.client == client
    }

    /// The next input; `None` once the client is gone. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<Input> {
        self.input.recv().await
    }
}

/// The client's end of the pin's seat.
#[derive(Debug)]
pub(crate) struct PinSeat(watch::Sender<u64>);

impl PinSeat {
    /// Notes that everything before `offset` was passed on. Going back is ignored.
    pub(crate) fn read(&self, offset: u64) {
        self.0.send_if_modified(|current| {
            let forward = offset > *current;
            *current = offset.max(*current);
            forward
        });
    }
}

/// The actor's end.
#[derive(Debug)]
pub(crate) struct Pin {
    client: Option<Uuid>,
    read: watch::Receiver<u64>,
}

impl Pin {
    /// A seat and the actor's end of it.
    pub(crate) fn seat(client: Option<Uuid>, from: u64) -> (Self, PinSeat) {
        let (sender, read) = watch::channel(from);
        (Self { client, read }, PinSeat(sender))
    }

    /// Whether `client` is the one that sits here.
    pub(crate) fn is_client(&self, client: Option<Uuid>) -> bool {
        client.is_some() && self.client == client
    }

    /// The next offset; `None` once the client is gone. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<u64> {
        match self.read.changed().await {
            Ok(()) => Some(*self.read.borrow_and_update()),
            Err(_closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_seat_is_left_by_dropping_either_end() {
        let client = Some(Uuid::from_u128(7));
        let (mut writer, seat) = Writer::seat(client, 5);
        assert!(writer.is_client(client) && !writer.is_client(None));
        assert!(!Writer::seat(None, 0).0.is_client(None), "unnamed clients are strangers");
        seat.reserve().await.unwrap().send(Input::Eof { offset: 5 });
        assert!(matches!(writer.next().await, Some(Input::Eof { offset: 5 })));
        drop(seat);
        assert!(writer.next().await.is_none());

        let (writer, seat) = Writer::seat(client, 0);
        writer.hand_over();
        seat.unseated().await;
        assert!(seat.is_taken_over());
        assert_eq!(seat.reserve().await.err(), Some(Unseated));
    }

    #[tokio::test]
    async fn a_pin_only_moves_forward_and_tells_the_last_place() {
        let (mut pin, seat) = Pin::seat(None, 10);
        seat.read(4);
        seat.read(20);
        seat.read(30);
        assert_eq!(pin.next().await, Some(30));
        drop(seat);
        assert_eq!(pin.next().await, None);
    }
}
