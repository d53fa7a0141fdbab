//! Dialling out to a hub, and doing so again whenever the connection is gone.
//!
//! ```text
//!          ┌──────────────── a pause, longer each time ◀──────────────┐
//!          ▼                                                          │ may pass
//!  read the token ─▶ connect ─▶ TLS ─▶ upgrade ─▶ serve ─▶ ended ─────┤
//!                                        │                            │ asked to leave
//!                                        ▼ 400, 401, 403, 404         ▼
//!                                      given up                      left
//! ```
//!
//! A connection that has served begins the row of pauses again; one that was accepted and closed at
//! once does not.

mod address;
mod answer;
mod connect;
mod identity;
mod keep;
mod tls;
mod token;

pub use address::{AddressError, HubAddress};
pub use answer::HubAnswer;
pub use connect::{DialError, Dialer};
pub use identity::{Identity, RunnerName, RunnerNameError};
pub use keep::{RETRY, Report, keep_connected};
pub use tls::TlsError;
pub use token::{Token, TokenError, TokenFile};

#[cfg(test)]
mod tests;
