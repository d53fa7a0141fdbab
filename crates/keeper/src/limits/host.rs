//! What the host lets us limit, as the nursery finds it at its start.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use minimal_linux::cgroup::{Controller, Site, find};

use minimal_proto::spec::{MachineSection, Max};

use super::auto::Auto;
use super::leftovers;

/// What limits can be set, and how much they are where nobody says.
#[derive(Debug)]
pub(crate) struct HostLimits {
    /// Where groups that limit memory can be made, or why not.
    pub(super) memory: Result<Site, String>,
    /// Where groups that limit processes can be made, or why not.
    pub(super) pids: Result<Site, String>,
    /// Where groups that can be frozen can be made, or why not.
    pub(super) freezer: Result<Site, String>,
    /// What the names of our groups begin with.
    pub(super) prefix: String,
    pub(super) auto: Auto,
    /// Whether there is swap that could go uncounted.
    pub(super) has_swap: bool,
}

impl HostLimits {
    /// Looks, and removes what keepers of this state directory left behind.
    pub(crate) fn find(state_dir: &Path) -> Self {
        let memory = find(Controller::Memory);
        let pids = find(Controller::Pids);
        let information = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let host = Self {
            auto: auto(memory.as_ref().ok(), &information),
            has_swap: kibibytes(&information, "SwapTotal:").unwrap_or(0) > 0,
            memory,
            pids,
            freezer: find(Controller::Freezer),
            prefix: prefix(state_dir),
        };
        host.sweep();
        host
    }

    /// Removes groups of this state directory in which nothing is left.
    pub(crate) fn sweep(&self) {
        for site in [&self.memory, &self.pids, &self.freezer].into_iter().flatten() {
            leftovers::sweep(&site.place, &self.prefix);
        }
    }
}

/// The limits of boxes that ask for none, on this host: with what it says of its memory, and the group
/// below which a box's would be made.
fn auto(memory: Option<&Site>, information: &str) -> Auto {
    // A host that does not say how much it has: then nothing is kept from a box, and not everything.
    let total = kibibytes(information, "MemTotal:").unwrap_or(u64::MAX);
    let above = memory.and_then(Site::memory_limit);
    let number =
        |path: &str| -> Option<u64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
    let pid_max = number("/proc/sys/kernel/pid_max");
    let threads_max = number("/proc/sys/kernel/threads-max");
    Auto::for_host(
        above.map_or(total, |above| above.min(total)),
        [pid_max, threads_max].into_iter().flatten().min().unwrap_or(FEWEST_PIDS),
    )
}

/// What would be limited, and how, in words; nothing is made.
pub(super) fn explain(machine: &MachineSection) -> Vec<String> {
    let (memory, pids) = (find(Controller::Memory), find(Controller::Pids));
    let information = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let auto = auto(memory.as_ref().ok(), &information);
    let asked = |max: Max| match max {
        Max::At(_) => "as asked",
        Max::Auto => "by the size of the host",
    };
    let ram = format!(
        "limit its memory to {} MiB, {}",
        auto.or(machine.ram.max, super::RAM) >> 20,
        asked(machine.ram.max)
    );
    let by_pids = match &pids {
        Ok(_) => "by a control group",
        Err(_) => "by RLIMIT_NPROC",
    };
    vec![
        match memory {
            Ok(_) => format!("{ram}, by a control group"),
            Err(why) => format!("{ram}, if that can be done: {why}"),
        },
        format!(
            "limit its processes and threads to {}, {}, {by_pids}",
            auto.or(machine.pids.max, super::PIDS),
            asked(machine.pids.max)
        ),
    ]
}

/// The pids of a host that does not say: the kernel's own default (PID_MAX_DEFAULT).
const FEWEST_PIDS: u64 = 32_768;

/// `minimal.<state directory>.`, by device and inode: of two installations on one host, in two
/// containers even, each knows its own groups.
pub(super) fn prefix(state_dir: &Path) -> String {
    let (device, inode) =
        state_dir.metadata().map_or((0, 0), |metadata| (metadata.dev(), metadata.ino()));
    format!("minimal.{device:x}-{inode:x}.")
}

/// The bytes of a line `name: number kB` (proc_meminfo(5)).
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_meminfo_are_found_by_their_whole_name() {
        let text = "MemTotal:       24683520 kB\nMemFree:  5 kB\nSwapTotal:  0 kB\n";
        assert_eq!(kibibytes(text, "MemTotal:"), Some(24_683_520 * 1024));
        assert_eq!(kibibytes(text, "SwapTotal:"), Some(0));
        assert_eq!(kibibytes(text, "Swap:"), None);
        assert_eq!(kibibytes("MemTotal: x kB", "MemTotal:"), None);
    }
}
