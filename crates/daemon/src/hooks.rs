//! Fault points on asynchronous paths.

use std::io;

/// Passes a point without holding up other tasks: a test may pause it.
#[cfg(feature = "testhooks")]
pub(crate) async fn pass(name: &'static str) -> io::Result<()> {
    let passed = tokio::task::spawn_blocking(move || minimal_store::hook::point(name)).await;
    passed.expect("passing a point does not panic")
}

/// Passes a point, which is nothing.
#[cfg(not(feature = "testhooks"))]
#[expect(clippy::unused_async, reason = "the form it has with the feature")]
pub(crate) async fn pass(name: &'static str) -> io::Result<()> {
    minimal_store::hook::point(name)
}
