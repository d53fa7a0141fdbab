//! A box's control groups.
//!
//! A keeper is in them before it knows its box, and with it everything it forks; later it leaves.
//! The other way round, entering when there is a box, would cost each start 5 to 20 ms: the kernel
//! makes who moves between groups wait for all processors, but who is born in one is there.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use minimal_linux::cgroup::{self, Cgroup, Site, Swap};
use minimal_store::hook;
use rustix::event::{Timespec, poll};

use super::host::HostLimits;

/// Ours in a box's groups: init for its whole life, and at first the keeper.
const INIT: u64 = 1;
const INIT_AND_KEEPER: u64 = 2;
/// What it takes to be born: those two, the joiner, and the entrypoint it makes before it is gone.
const BIRTH: u64 = 4;

/// How long removing may take: what was in a group has been reaped, but the kernel takes it off its
/// books a moment later.
const REMOVAL_LIMIT: Duration = Duration::from_secs(1);
/// The pause between two attempts.
const REMOVAL_PAUSE: Duration = Duration::from_millis(2);

/// How long a box may take to stand still: one of its processes may wait in the kernel.
const FREEZE_LIMIT: Duration = Duration::from_secs(1);
/// The pause between two looks whether it does.
const FREEZE_PAUSE: Duration = Duration::from_millis(1);

/// How often a group is made anew that was swept by a nursery before we were in it.
const ATTEMPTS: usize = 3;

/// The groups of one box. Dropped, they are left and removed.
#[derive(Debug)]
pub(crate) struct Cgroups {
    ram: Result<Cgroup, String>,
    pids: Result<Cgroup, String>,
    freezer: Result<Cgroup, String>,
    /// Where this process came from, until it is there again.
    came_from: Vec<PathBuf>,
    /// What `pids` limits the box to.
    pids_max: u64,
}

impl Cgroups {
    /// Makes groups for a box to come, with limits that fit most, and enters them.
    pub(crate) fn enter_new(host: &HostLimits) -> Self {
        let name = format!("{}{}", host.prefix, rustix::process::getpid().as_raw_nonzero());
        let mut groups = Self {
            ram: Err(String::new()),
            pids: Err(String::new()),
            freezer: Err(String::new()),
            came_from: Vec::new(),
            pids_max: host.auto.pids,
        };
        groups.ram = groups.enter_at(&host.memory, &name);
        let shared = match (&host.memory, &host.pids, &groups.ram) {
            (Ok(memory), Ok(pids), Ok(group)) if memory.place == pids.place => Some(group.clone()),
            _ => None,
        };
        groups.pids = match shared {
            Some(group) => Ok(group),
            None => groups.enter_at(&host.pids, &name),
        };
        let shared = [(&host.memory, &groups.ram), (&host.pids, &groups.pids)]
            .into_iter()
            .filter_map(|(site, group)| site.as_ref().ok().zip(group.as_ref().ok()))
            .find(|(site, _)| host.freezer.as_ref().is_ok_and(|own| own.place == site.place))
            .map(|(_, group)| group.clone());
        groups.freezer = match shared {
            Some(group) => Ok(group),
            None => groups.enter_at(&host.freezer, &name),
        };
        // What fails here fails again once there is a box to report it to.
        groups.limit_ram(host.auto.ram).ok();
        groups.limit_pids(host.auto.pids).ok();
        groups
    }

    fn enter_at(&mut self, site: &Result<Site, String>, name: &str) -> Result<Cgroup, String> {
        let site = site.as_ref().map_err(Clone::clone)?;
        let attempt = || -> io::Result<Cgroup> {
            let group = Cgroup::make(site, name)?;
            group.enter().inspect_err(|_| drop(group.remove()))?;
            Ok(group)
        };
        let mut attempts = 1;
        let group = loop {
            match attempt() {
                Ok(group) => break group,
                Err(_) if attempts < ATTEMPTS => attempts += 1,
                Err(error) => {
                    return Err(format!(
                        "no group can be made in {}: {error}",
                        site.place.display()
                    ));
                }
            }
        };
        self.came_from.push(site.own.clone());
        Ok(group)
    }

    /// Limits the memory of all in the groups.
    pub(super) fn limit_ram(&self, bytes: u64) -> Result<(&Cgroup, Swap), String> {
        let group = self.ram.as_ref().map_err(Clone::clone)?;
        let swap = group.limit_memory(bytes).map_err(|error| {
            format!("{} does not take a limit of {bytes} bytes: {error}", group.path().display())
        })?;
        Ok((group, swap))
    }

    /// Limits the processes and threads of the box: those of ours come on top.
    pub(super) fn limit_pids(&mut self, count: u64) -> Result<&Cgroup, String> {
        let group = self.pids.as_ref().map_err(Clone::clone)?;
        // A box that may have one process could have a second until we leave.
        group.limit_pids(count.saturating_add(INIT_AND_KEEPER).max(BIRTH)).map_err(|error| {
            format!("{} does not take a limit of {count}: {error}", group.path().display())
        })?;
        self.pids_max = count;
        Ok(group)
    }

    /// How many processes of the box the kernel has killed for memory. `None` where nothing counts
    /// them: there is no group, or the kernel is older than the count.
    ///
    /// # Errors
    /// The count cannot be read.
    pub(crate) fn oom_kills(&self) -> io::Result<Option<u64>> {
        hook::point("keeper.end.count_kills")?;
        let Ok(group) = &self.ram else { return Ok(None) };
        match group.oom_kills() {
            Ok(kills) => Ok(Some(kills)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Goes back to where this process came from, and leaves the groups to the box. May take some
    /// 20 ms.
    ///
    /// # Errors
    /// What writing says. What was limited remains so.
    pub(crate) fn leave(&mut self) -> io::Result<()> {
        if self.came_from.is_empty() {
            return Ok(());
        }
        for group in std::mem::take(&mut self.came_from) {
            cgroup::enter(&group)?;
        }
        match &self.pids {
            Ok(group) => group.limit_pids(self.pids_max.saturating_add(INIT)),
            Err(_) => Ok(()),
        }
    }

    /// Whether there are groups that this process has left, which whoever is forked now is not in.
    pub(crate) fn are_left(&self) -> bool {
        self.came_from.is_empty() && self.each().next().is_some()
    }

    /// Makes room for one more of ours beside the box, or takes it away. What fails leaves the box
    /// with one process less.
    pub(crate) fn make_room(&self, for_one: bool) {
        if let Ok(group) = &self.pids {
            group.limit_pids(self.pids_max.saturating_add(INIT + u64::from(for_one))).ok();
        }
    }

    /// For a child of this process that is to be part of the box: it is in the groups already as long
    /// as this process is. Usually takes milliseconds otherwise ([`Cgroup::enter`]).
    ///
    /// # Errors
    /// What writing says.
    pub(crate) fn step_in(&self) -> io::Result<()> {
        if !self.came_from.is_empty() {
            return Ok(());
        }
        self.each().try_for_each(Cgroup::enter)
    }

    /// Each group there is, once.
    fn each(&self) -> impl Iterator<Item = &Cgroup> {
        let ram = self.ram.as_ref().ok();
        let pids = self.pids.as_ref().ok().filter(|pids| Some(*pids) != ram);
        let freezer = self.freezer.as_ref().ok();
        let freezer = freezer.filter(|it| Some(*it) != ram && Some(*it) != pids);
        [ram, pids, freezer].into_iter().flatten()
    }

    /// The group that can be frozen, or why there is none.
    pub(crate) fn freezer(&self) -> Result<&Cgroup, &str> {
        self.freezer.as_ref().map_err(String::as_str)
    }

    /// Has the box stand still, once this process is not in its groups. Takes a second at most, and as a
    /// rule a millisecond.
    ///
    /// # Errors
    /// What writing or reading says; `TimedOut` if it does not stand still, and then it goes on.
    pub(crate) fn freeze(&mut self) -> io::Result<()> {
        self.leave()?;
        let group = self.freezer.as_ref().map_err(|why| io::Error::other(why.clone()))?;
        group.freeze(true)?;
        let until = Instant::now() + FREEZE_LIMIT;
        loop {
            let frozen = group.is_frozen();
            if let Ok(true) = frozen {
                return Ok(());
            }
            let error = match frozen {
                Ok(_) if Instant::now() < until => {
                    if let Ok(pause) = Timespec::try_from(FREEZE_PAUSE) {
                        poll(&mut [], Some(&pause)).ok();
                    }
                    continue;
                }
                Ok(_) => io::ErrorKind::TimedOut.into(),
                Err(error) => error,
            };
            group.freeze(false).ok();
            return Err(error);
        }
    }

    /// Has the box go on.
    ///
    /// # Errors
    /// What writing says.
    pub(crate) fn thaw(&self) -> io::Result<()> {
        match &self.freezer {
            Ok(group) => group.freeze(false),
            Err(_) => Ok(()),
        }
    }

    /// For a child of this process that works for the box and is no part of it: what it uses is not
    /// the box's. May take some 20 ms.
    ///
    /// # Errors
    /// What writing says.
    pub(crate) fn step_out(&self) -> io::Result<()> {
        self.came_from.iter().try_for_each(|group| cgroup::enter(group))
    }

    /// Leaves the groups of a box in which nothing is left, and removes them. Takes a second at
    /// most.
    ///
    /// # Errors
    /// What the last attempt said.
    pub(crate) fn remove(&mut self) -> io::Result<()> {
        let left = self.leave();
        let until = Instant::now() + REMOVAL_LIMIT;
        for group in [&self.ram, &self.pids, &self.freezer].into_iter().flatten() {
            while let Err(error) = group.remove() {
                if Instant::now() > until {
                    return Err(error);
                }
                if let Ok(pause) = Timespec::try_from(REMOVAL_PAUSE) {
                    poll(&mut [], Some(&pause)).ok();
                }
            }
        }
        self.ram = Err(String::new());
        self.pids = Err(String::new());
        self.freezer = Err(String::new());
        left
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // A nursery sweeps what remains.
        self.remove().ok();
    }
}
