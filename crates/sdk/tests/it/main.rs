//! The client against a daemon of this process that can be cut off at any byte.

#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test, helpers included")]

mod attach;
mod calls;
mod cutter;
mod daemon;
mod figures;
mod patience;
mod random;
