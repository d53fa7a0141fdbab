//! Not yet written.

#[expect(unsafe_code, reason = "fcntl with a struct flock: rustix locks whole files only")]
pub mod record_lock;
