//! The expansion as its users call it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod bounds;
mod example;
mod golden;
mod problems;
mod properties;
mod schema;
