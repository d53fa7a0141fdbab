//! The limits of boxes that ask for none.

/// By the size of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Auto {
    /// Bytes of memory.
    pub(crate) ram: u64,
    /// Processes and threads.
    pub(crate) pids: u64,
}

impl Auto {
    /// For a host with so many bytes of memory and so many pids.
    #[must_use]
    pub(super) fn for_host(memory: u64, pids: u64) -> Self {
        Self { ram: memory - reserve(memory), pids: processes(pids) }
    }
}

/// What is left to the host: a tenth, in which kernel, daemon and a session go on, at least
/// 256 MiB, where a tenth would be too little to log in, and at most 4 GiB, which nobody misses who
/// has ten times that. Never more than half.
fn reserve(memory: u64) -> u64 {
    (memory / 10).clamp(256 << 20, 4 << 30).min(memory / 2)
}

/// 4096: several times what the widest builds run at once, and small enough that the kernel's
/// stacks and tables for them take some 100 MiB. Never more than a quarter of what the host has, so that a box
/// that uses all of its own leaves most to others.
fn processes(host: u64) -> u64 {
    (host / 4).clamp(1, 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn something_is_left_to_hosts_of_every_size() {
        let ram = |memory| Auto::for_host(memory, 32_768).ram;
        assert_eq!(ram(20 * GIB), 18 * GIB);
        assert_eq!(ram(GIB), GIB - (256 << 20));
        assert_eq!(ram(400 * GIB), 396 * GIB);
        assert_eq!(ram(128 << 20), 64 << 20);
        assert_eq!(ram(0), 0);
    }

    #[test]
    fn a_box_has_a_quarter_of_the_pids_at_most() {
        let pids = |host| Auto::for_host(GIB, host).pids;
        assert_eq!(pids(4_194_304), 4096);
        assert_eq!(pids(32_768), 4096);
        assert_eq!(pids(4_000), 1_000);
        assert_eq!(pids(0), 1);
    }
}
