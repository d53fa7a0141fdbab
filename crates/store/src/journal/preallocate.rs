//! Taking disk space before it is needed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

const ZEROS: [u8; 4096] = [0; 4096];

/// Extends a file to `to` bytes with disk space for those from `from` on; they read as NULs.
pub(super) fn extend(file: &File, from: u64, to: u64) -> io::Result<()> {
    loop {
        return match rustix::fs::fallocate(file, FallocateFlags::empty(), from, to - from) {
            Ok(()) => Ok(()),
            Err(Errno::INTR) => continue,
            // NFS and some others: what is written is allocated.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let end = file.metadata()?.len();
                zero(file, from.max(end), to)
            }
            Err(errno) => Err(errno.into()),
        };
    }
}

/// Writes NULs over a part of a file.
pub(super) fn zero(file: &File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let some = usize::try_from(to - at).unwrap_or(usize::MAX).min(ZEROS.len());
        file.write_all_at(&ZEROS[..some], at)?;
        at += some as u64;
    }
    Ok(())
}
