//! The checks that need no daemon.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use minimal_linux::probe::ProbeFailure;
use minimal_proto::error::Chain;
use minimal_store::StateDir;
use rustix::fs::Access;

use super::Check;
use super::kernel::{Kernel, Refusal};
use crate::env::Env;
use crate::output::size;

/// The oldest kernel that has all that boxes are made with: overlays for ordinary users came with
/// 5.11, and changing a mount's attributes with 5.12.
const KERNEL: (u32, u32) = (5, 12);

/// Less free space than this is worth a word: a few boxes' logs at their limit.
const SPACE: u64 = 1 << 30;

/// The kernel's version.
pub(super) fn kernel(release: &str) -> Check {
    let name = "kernel";
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) < KERNEL => Check::fail(
            name,
            format!("Linux {release} is too old"),
            format!("boot Linux {}.{} or later", KERNEL.0, KERNEL.1),
        ),
        (Some(_), Some(_)) => Check::ok(name, format!("Linux {release}")),
        _ => Check::warn(name, format!("Linux {release} is of an unknown form"), "none known"),
    }
}

/// Whether boxes can be isolated: it was tried.
pub(super) fn user_namespaces(probed: Result<(), ProbeFailure>, kernel: &Kernel) -> Check {
    let name = "user namespaces";
    let Err(failure) = probed else { return Check::ok(name, "work") };
    let message = failure.to_string();
    if let Some(Refusal { what, fix }) = kernel.refusal() {
        return Check::fail(name, format!("{message} ({what})"), fix);
    }
    Check::fail(
        name,
        message,
        "if this is a container, start it with a seccomp and AppArmor profile that allows user \
         namespaces and mounts",
    )
}

/// The state directory: whose, how open, where, how full.
pub(super) fn state_dir(path: &Path) -> Check {
    let name = "state directory";
    let shown = path.display();
    let meta = match std::fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return to_be_made(path);
        }
        Err(error) => {
            let fix = "make it readable, or set MINIMAL_STATE_DIR to another directory";
            return Check::fail(name, format!("`{shown}`: {error}"), fix);
        }
    };
    let (owner, ours) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != ours {
        let fix = "set MINIMAL_STATE_DIR to a directory of your own";
        return Check::fail(name, format!("`{shown}` belongs to user {owner}"), fix);
    }
    if meta.mode() & 0o077 != 0 {
        let message = format!("`{shown}` is open to others (mode {:o})", meta.mode() & 0o7777);
        return Check::fail(name, message, format!("chmod 700 {shown}"));
    }
    if let Err(error) = StateDir::try_use(path) {
        return Check::fail(name, Chain(&error).to_string(), error.hint());
    }
    let (Ok(statfs), Ok(space)) = (rustix::fs::statfs(path), rustix::fs::statvfs(path)) else {
        return Check::ok(name, format!("`{shown}`"));
    };
    let free = space.f_bavail.saturating_mul(space.f_frsize);
    let system = file_system(statfs.f_type);
    let message = format!("`{shown}` on {system}, {} free", size(free));
    match system {
        "tmpfs" => {
            let fix = "set MINIMAL_STATE_DIR to a directory on a disk";
            Check::warn(name, format!("{message}: it is gone after a reboot"), fix)
        }
        "overlay" => {
            let fix = "set MINIMAL_STATE_DIR to a directory on a volume or disk";
            Check::warn(name, format!("{message}: it can hold no layer of an overlay"), fix)
        }
        "nfs" | "cifs" | "fuse" => {
            let fix = "set MINIMAL_STATE_DIR to a directory on a local disk";
            Check::warn(name, format!("{message}: locks and overlays may not work"), fix)
        }
        _ if free < SPACE => Check::warn(name, message, "remove ended boxes: `min ls --all`"),
        _ => Check::ok(name, message),
    }
}

/// A state directory that is not there yet.
fn to_be_made(path: &Path) -> Check {
    let name = "state directory";
    let shown = path.display();
    let above = path.ancestors().skip(1).find(|above| above.exists()).unwrap_or(path);
    match rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok(name, format!("`{shown}` is made when it is needed")),
        Err(errno) => Check::fail(
            name,
            format!(
                "`{shown}` cannot be made in `{}`: {}",
                above.display(),
                io::Error::from(errno)
            ),
            "make it yourself, or set MINIMAL_STATE_DIR to a directory of your own",
        ),
    }
}

/// The socket's place: nothing, or a socket. Nothing to say if it is.
pub(super) fn socket(path: &Path) -> Option<Check> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.file_type().is_socket() {
        return None;
    }
    let shown = path.display();
    let message = format!("`{shown}` is in the socket's place, and is none");
    Some(Check::fail("socket", message, format!("move `{shown}` away")))
}

/// Fewer open files than a daemon of some hundred boxes has, and fewer processes than boxes have by
/// default.
const DAEMON_LIMITS: [(&str, &str, u64); 2] =
    [("Max open files", "open files", 4096), ("Max processes", "processes", 4096)];

/// Whether the daemon has hard limits of whoever started it that keep it and its boxes small. Nothing
/// where it cannot be seen.
pub(super) fn daemon_limits(pid: i32) -> Option<Check> {
    low_limits(pid, &std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?)
}

/// The same, from the text of proc_pid_limits(5).
fn low_limits(pid: i32, text: &str) -> Option<Check> {
    let hard = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        // `unlimited` is no number, and no low limit.
        line.split_whitespace().nth(1)?.parse().ok()
    };
    let low: Vec<_> = DAEMON_LIMITS
        .iter()
        .filter_map(|(name, words, usual)| {
            let hard = hard(name).filter(|hard| hard < usual)?;
            Some(format!("{hard} {words}"))
        })
        .collect();
    if low.is_empty() {
        return None;
    }
    let message = format!(
        "the daemon (pid {pid}), and so every box, has limits of whoever started it: at most {}",
        low.join(", ")
    );
    let fix = "`min host stop`; the next command starts it again, with the limits of its shell";
    Some(Check::warn("daemon limits", message, fix))
}

/// Names of file systems by statfs(2)'s numbers.
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "magic numbers are 32 bits"
)]
fn file_system(magic: impl Into<i64>) -> &'static str {
    match magic.into() as u32 {
        0xef53 => "ext4",
        0x9123_683e => "btrfs",
        0x5846_5342 => "xfs",
        0x2fc1_2fc1 => "zfs",
        0xca45_1a4e => "bcachefs",
        0x0102_1994 => "tmpfs",
        0x794c_7630 => "overlay",
        0x6969 => "nfs",
        0xff53_4d42 | 0xfe53_4d42 => "cifs",
        0x6573_5546 => "fuse",
        _ => "another file system",
    }
}

/// With systemd, whether a user's daemon outlives the last logout. Nothing without one.
pub(super) fn linger(env: &Env) -> Option<Check> {
    let runtime = env.path("XDG_RUNTIME_DIR")?;
    if !runtime.join("systemd/private").exists() {
        return None;
    }
    let name = "systemd linger";
    let user = env.get("USER").or_else(|| env.get("LOGNAME"))?;
    if Path::new("/var/lib/systemd/linger").join(user).exists() {
        return Some(Check::ok(name, "on: boxes outlive the last logout"));
    }
    Some(Check::warn(
        name,
        "off: systemd may end boxes when you log out",
        format!("loginctl enable-linger {}", user.to_string_lossy()),
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::super::Status;
    use super::*;

    #[test]
    fn what_is_in_the_sockets_place_is_told() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("s.sock");
        assert_eq!(socket(&path), None);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(socket(&path), None);
        drop(listener);
        assert_eq!(socket(root.path()).unwrap().status, Status::Fail);
    }

    #[test]
    fn low_hard_limits_are_told() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max processes             unlimited            unlimited            processes \n\
                    Max open files            64                   64                   files     \n";
        let check = low_limits(7, text).unwrap();
        assert_eq!(check.status, Status::Warn);
        assert!(check.message.ends_with("at most 64 open files"), "{}", check.message);
        assert_eq!(low_limits(7, &text.replace("64", "20000")), None);
    }

    #[test]
    fn kernels_are_compared_by_number() {
        for (release, status) in [
            ("5.4.0-150-generic", Status::Fail),
            ("5.12.0", Status::Ok),
            ("6.18.44", Status::Ok),
            ("10.0", Status::Ok),
            ("odd", Status::Warn),
        ] {
            assert_eq!(kernel(release).status, status, "{release}");
        }
    }

    #[test]
    fn a_state_directory_is_ours_alone() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(state_dir(&root.path().join("none")).status, Status::Ok);
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.path(), open).unwrap();
        let check = state_dir(root.path());
        assert_eq!(
            (check.status, check.fix.unwrap().starts_with("chmod 700")),
            (Status::Fail, true)
        );
    }
}
