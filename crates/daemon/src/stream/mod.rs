//! What is read continuously: a box's log and journal, and the attach protocol over them.
//!
//! Every reader is served from files. A task holds at most one piece of output, and the client's
//! socket decides when the next is read: a client that does not read costs its own task and nobody
//! else anything.

mod attach;
mod events;
mod input;
mod log_body;
mod outlet;
mod output;
mod paint;
mod source;

pub(crate) use attach::{Attachment, serve};
pub(crate) use events::EventBody;
pub(crate) use log_body::{Format, LogBody};
pub(crate) use paint::{Visitor, paint, paint_last};
pub(crate) use source::{LogDir, LogSource};
