//! How much disk a tree takes.

use std::io;
use std::os::fd::BorrowedFd;

/// Bytes of disk below `top`.
pub(crate) fn bytes(_top: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(0)
}
