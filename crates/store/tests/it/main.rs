//! The store as other processes, full disks and later versions meet it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "the helpers of tests: a test fails by a panic, and a child says by a line that it is there"
)]

mod child;
mod full_disk;
mod golden;
#[cfg(feature = "testhooks")]
mod hooks;
mod locks;
mod sample;
