//! The WebSocket under the protocol.

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::wire::FRAME_MAX;

/// How both ends read and write: frames of up to [`FRAME_MAX`] bytes, in one piece or several.
#[must_use]
pub fn config() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(FRAME_MAX)).max_frame_size(Some(FRAME_MAX))
}
