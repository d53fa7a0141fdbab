//! Bytes in frames: base64 of the standard alphabet, with padding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(super) fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// `None` if it is not base64.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}
