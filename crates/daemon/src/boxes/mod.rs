//! The boxes: one actor for each that has not ended.
//!
//! ```text
//!  create ──▶ birth ──▶┐                      ┌─▶ view (watch): listings, waits, streams read it
//!                      ├─▶ actor ◀──▶ keeper ─┤
//!  start  ──▶ adopt ──▶┘     ▲                └─▶ ended: handed to the index, no actor any more
//!                            │
//!            commands (stop, signal, seats for input and pin)
//! ```
//!
//! Start reading at [`actor`]: it owns the connection to the keeper. [`conclude`] is the only place
//! that writes an ending, and only for a box whose both locks it holds.

mod actor;
pub(crate) mod birth;
pub(crate) mod broken;
mod clocks;
mod conclude;
mod ended;
pub(crate) mod execs;
mod facts;
mod first_sign;
mod flow;
mod line;
mod link;
mod live;
pub(crate) mod load;
mod reap;
pub(crate) mod resume;
mod seats;
mod serving;
mod unsupported;
mod view;
pub(crate) mod wire;

pub(crate) use ended::{Ended, sealed_at};
pub(crate) use facts::Facts;
pub(crate) use flow::{Flow, Outcome};
pub(crate) use line::{Answer, Command, Line, Reading};
pub(crate) use link::Link;
pub(crate) use live::Live;
pub(crate) use seats::{Input, PinSeat, TakenOver, Unseated, WriterSeat};
pub(crate) use view::{Fate, View};
