//! The runner protocol, by which a hub reaches boxes behind a connection that their machine dialled.
//!
//! ```text
//! hub ──requests──▶ runner        {"id": 1, "op": "spawn", …}
//!     ◀──replies───               {"id": 1, "ok": true, "result": {…}}
//!     ◀──stream frames──          {"stream": "stdout", "session_id": "…", "data": "…"}
//! ```
//!
//! The rule above all others: a code is reported only if somebody measured it. A stream that closes
//! without an `exit` frame is an error, and so is an `exit` frame without a code.
//! Start reading at [`contract`], then [`runner`] and [`hub`]; [`dial`] is how a runner stays connected.
//! `docs/reference/runner-protocol.md` is the protocol for implementers.

#![forbid(unsafe_code)]

pub mod conformance;
pub mod contract;
pub mod dial;
pub mod fake;
pub mod hub;
pub mod local;
pub mod runner;
pub mod socket;
pub mod wire;
