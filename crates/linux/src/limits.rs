//! Resource limits (getrlimit(2)).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Soft limits a box's processes start with, where the host's hard limits allow: open files 1024
/// and stack 8 MiB as Linux does by default, core dumps none, the rest without a limit.
const BOX: [(Resource, Option<u64>); 12] = [
    (Resource::As, None),
    (Resource::Core, Some(0)),
    (Resource::Cpu, None),
    (Resource::Data, None),
    (Resource::Fsize, None),
    (Resource::Memlock, Some(8 << 20)),
    (Resource::Nofile, Some(1024)),
    (Resource::Nproc, None),
    (Resource::Rss, None),
    (Resource::Rtprio, Some(0)),
    (Resource::Sigpending, None),
    (Resource::Stack, Some(8 << 20)),
];

/// Sets the limits of a box's process, whatever our own were: what started the daemon must not
/// show in a box. A soft limit above the hard one becomes the hard one.
///
/// `pids` lowers the number of processes and threads that its user may have in its user namespace
/// for good.
pub fn set_for_box(pids: Option<u64>) {
    for (resource, soft) in BOX {
        let hard = match (resource, getrlimit(resource).maximum, pids) {
            (Resource::Nproc, Some(hard), Some(pids)) => Some(hard.min(pids)),
            (Resource::Nproc, None, Some(pids)) => Some(pids),
            (_, hard, _) => hard,
        };
        let current = match (soft, hard) {
            (Some(soft), Some(hard)) => Some(soft.min(hard)),
            (Some(soft), None) => Some(soft),
            (None, hard) => hard,
        };
        // A soft limit at or below the hard one is always allowed.
        setrlimit(resource, Rlimit { current, maximum: hard }).ok();
    }
}

/// Bounds a short-lived process of ours that reads what a box has written: bytes of memory, seconds of
/// processor time, and no core dump. For good.
pub fn set_for_helper(memory: u64, seconds: u64) {
    for (resource, most) in [(Resource::As, memory), (Resource::Cpu, seconds), (Resource::Core, 0)]
    {
        let hard = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
        // Lowering is always allowed.
        setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) }).ok();
    }
}

/// Raises the soft limit of open files to the hard one: a daemon has a few for each box and client.
pub fn raise_open_files() {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).ok();
}
