//! `min runner`: this machine's boxes, served to a hub that it dials.
//!
//! ```text
//! connect ─┬─ place    takes <state>/runners/<name>, and keeps its record there
//!          ├─ daemon   found or started, and again whenever it is gone
//!          └─ minimal_runner::dial   connects, serves, connects again
//! install ──── writes a systemd unit that runs `connect`
//! status  ──── reads the records, and by their locks whether anybody runs
//! ```

mod connect;
mod install;
mod place;
mod status;
mod unit;

pub(super) use connect::run as connect;
pub(super) use install::run as install;
pub(super) use status::run as status;
