//! What is mounted around a directory, by the kernel's table (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::keeper::Missing;

/// File systems that answer from this machine. A look at any other may never come back.
const LOCAL: [&str; 20] = [
    "9p", "bcachefs", "btrfs", "devtmpfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs",
    "iso9660", "overlay", "proc", "ramfs", "squashfs", "sysfs", "tmpfs", "vfat", "xfs", "zfs",
];

/// The mounts that matter to a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::birth) struct Around {
    /// Those on the way to it are all of this machine.
    pub(in crate::birth) local: bool,
    /// Those below it.
    pub(in crate::birth) below: Vec<PathBuf>,
}

/// Reads the table for what is around a directory.
pub(in crate::birth) fn around(directory: &Path) -> io::Result<Around> {
    Around::of(directory)
}

impl Around {
    /// Reads the table.
    pub(super) fn of(directory: &Path) -> io::Result<Self> {
        Ok(Self::parse(&std::fs::read("/proc/self/mountinfo")?, directory))
    }

    fn parse(table: &[u8], directory: &Path) -> Self {
        let mut around = Self { local: true, below: Vec::new() };
        for line in table.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b' ');
            let Some(point) = fields.nth(4) else { continue };
            // Optional fields end with a dash; the kind of file system is next.
            let kind = fields.skip_while(|field| *field != b"-").nth(1).unwrap_or_default();
            let point = unescape(point);
            if directory.starts_with(&point) {
                around.local &= LOCAL.iter().any(|local| local.as_bytes() == kind);
            } else if point.starts_with(directory) {
                around.below.push(point);
            }
        }
        around
    }
}

/// That these are not shown.
pub(super) fn not_shown(mounts: &[PathBuf]) -> Option<Missing> {
    let (first, others) = mounts.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    Some(Missing {
        what: "workspace_mounts".to_owned(),
        why: format!(
            "what is mounted at `{}`{others} is not part of the project, and the box does not see it",
            first.display()
        ),
    })
}

/// Space, tab, newline and backslash are written as a backslash and three octal digits.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, tail)) = rest.split_first() {
        let code = tail
            .first_chunk::<3>()
            .filter(|_| *byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_is_on_the_way_and_what_is_below() {
        let table = b"21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
            30 21 0:4 / /proc rw shared:2 master:3 - proc proc rw\n\
            40 21 0:9 / /home/a\\040b\\134c rw - fuse.sshfs host: rw\n\
            41 40 0:9 / /home/a\\040b\\134c/p/deep rw - tmpfs none rw\n\
            42 21 0:9 / /home/a rw - tmpfs none rw\n";
        let of = |path: &str| Around::parse(table, Path::new(path));
        assert_eq!(of("/srv"), Around { local: true, below: vec![] });
        let below = vec![PathBuf::from("/home/a b\\c/p/deep")];
        assert_eq!(of("/home/a b\\c/p"), Around { local: false, below });
        assert_eq!(of("/home").below.len(), 3);
        assert!(of("/home/a/x").local, "a name that begins the same is another");
    }
}
