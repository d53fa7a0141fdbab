//! Whose a terminal is.

use std::os::fd::{AsFd, AsRawFd as _};

/// Whether another process group than ours holds the terminal's foreground (tcgetpgrp(3)). `false`
/// for anything that is not our session's terminal: that has no foreground for us.
///
/// Both groups are 0 to a process whose group is outside its pid namespace (pid_namespaces(7)), as
/// the first process of a container may be; rustix takes that for an impossible value.
pub fn is_anothers(terminal: impl AsFd) -> bool {
    // SAFETY: tcgetpgrp(3) takes any descriptor and says -1 for a wrong one.
    let foreground = unsafe { libc::tcgetpgrp(terminal.as_fd().as_raw_fd()) };
    // SAFETY: getpgrp(2) takes nothing and cannot fail.
    let own = unsafe { libc::getpgrp() };
    foreground != -1 && foreground != own
}

#[cfg(test)]
mod tests {
    use super::is_anothers;

    #[test]
    fn whose() {
        assert!(!is_anothers(std::fs::File::open("/dev/null").unwrap()), "no terminal");
        // The controlling side tells its foreground to every session: none is there yet.
        let fresh = rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR).unwrap();
        assert!(is_anothers(&fresh));
    }
}
