//! Whole-system scenarios, against the real executable.
//!
//! The scenarios are in `tests/e2e/`, one a module; the measuring program in `src/bench/`. What both
//! need and no other test does is here.

#![forbid(unsafe_code)]

pub mod exec;
pub mod gate;

pub use exec::Execs;
pub use gate::Gate;
