//! The two places at a box that only one client can have: its writer's, and its pin's.
//!
//! A seat is one end of a channel whose other end the actor holds. A client leaves by dropping it,
//! however it ends, and is unseated by the actor dropping its end.

use std::sync::{Arc, OnceLock};

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
    taken_over: Arc<OnceLock<TakenOver>>,
    /// Where its input goes on: everything before is accepted, or another's.
    pub(crate) from: u64,
    /// The end of what came before, accepted or not: only input behind it is new.
    pub(crate) received: u64,
}

/// Who sits in a writer's seat now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenOver {
    /// The same client, by a newer connection.
    ByItself,
    /// Another client, which has the keyboard of a terminal; and its name, if it has one.
    By(Option<Uuid>),
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

    /// Who sits here now, if anybody has taken over.
    pub(crate) fn taken_over(&self) -> Option<TakenOver> {
        self.taken_over.get().copied()
    }
}

/// The actor's end.
#[derive(Debug)]
pub(crate) struct Writer {
    client: Option<Uuid>,
    input: mpsc::Receiver<Input>,
    taken_over: Arc<OnceLock<TakenOver>>,
}

impl Writer {
    /// A seat and the actor's end of it.
    pub(crate) fn seat(client: Option<Uuid>, from: u64, received: u64) -> (Self, WriterSeat) {
        let (sender, input) = mpsc::channel(INPUT_MESSAGES);
        let taken_over = Arc::new(OnceLock::new());
        let seat =
            WriterSeat { input: sender, taken_over: Arc::clone(&taken_over), from, received };
        (Self { client, input, taken_over }, seat)
    }

    /// Ends it because its client has come again, or another has taken the keyboard.
    pub(crate) fn hand_over(self, to: TakenOver) {
        // Said once: it is ended by this.
        self.taken_over.set(to).ok();
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
        let (mut writer, seat) = Writer::seat(client, 5, 5);
        assert!(writer.is_client(client) && !writer.is_client(None));
        assert!(!Writer::seat(None, 0, 0).0.is_client(None), "unnamed clients are strangers");
        seat.reserve().await.unwrap().send(Input::Eof { offset: 5 });
        assert!(matches!(writer.next().await, Some(Input::Eof { offset: 5 })));
        drop(seat);
        assert!(writer.next().await.is_none());

        let (writer, seat) = Writer::seat(client, 0, 0);
        writer.hand_over(TakenOver::ByItself);
        seat.unseated().await;
        assert_eq!(seat.taken_over(), Some(TakenOver::ByItself));
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
