//! The frames of the runner protocol: what each side writes, and how it reads the other's.
//!
//! Pure: no sockets, no clock. A reader here never panics and never invents what a frame lacks. Each
//! frame is the text of one WebSocket message, one JSON object.

mod code;
mod data;
mod fields;
mod name;
mod op;
mod reply;
mod request;
mod stream;
mod to_hub;

pub use code::ExitCode;
pub use name::{NAME_MAX, SandboxName, SandboxNameError};
pub use op::{CommandLine, Op};
pub use reply::{Code, Refusal, Reply, Results};
pub use request::{BadFrame, Request};
pub use stream::{Output, StreamFrame, StreamKind};
pub use to_hub::ToHub;

/// The longest frame, in bytes: 64 MiB. A longer one is refused by whoever would read it.
pub const FRAME_MAX: usize = 64 << 20;

/// The most bytes of output in one stream frame: 32 KiB, which are 43.7 KiB of base64.
pub const CHUNK_MAX: usize = 32 << 10;

/// Why a hub closes a connection (WebSocket close codes).
pub mod close {
    /// A frame that is not JSON, or not text.
    pub const NOT_JSON_TEXT: u16 = 1003;
    /// The runner was deleted at the hub.
    pub const DELETED: u16 = 4404;
    /// Another connection has this runner's name.
    pub const ALREADY_CONNECTED: u16 = 4409;
}

#[cfg(test)]
mod tests;
