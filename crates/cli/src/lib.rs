//! `min`: the command line, and the executable that is every process of Minimal.
//!
//! ```text
//!  argv[0] or first word ─┬─ minimald     → daemon::main, then minimal_daemon::run
//!                         ├─ min-nursery  → minimal_keeper::nursery::main
//!                         └─ else         → client: args → commands → exit status
//! ```
//!
//! Standard output is data and standard error is talk; all of both goes through
//! [`output::Printer`]. Exit statuses are in [`exit`]. Start reading at [`commands`], and for
//! `min run` at [`run`].

#![forbid(unsafe_code)]

pub mod addressee;
pub mod args;
pub mod build_id;
pub mod client;
pub mod commands;
pub mod context;
pub mod daemon;
pub mod ending_file;
pub mod env;
pub mod error;
pub mod exit;
pub mod home_program;
pub mod init;
pub mod output;
pub mod project;
pub mod project_file;
mod reference;
pub mod repository;
pub mod run;
pub mod settings;
pub mod state_paths;
pub mod user_policy;
pub mod variables;

pub use reference::{errors_reference, reference};

#[cfg(test)]
mod tests;
