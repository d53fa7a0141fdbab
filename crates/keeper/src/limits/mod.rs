//! What a box may use of the machine, and by what it is held to that.
//!
//! Memory is limited by a control group; processes by one too, or where there is none by
//! `RLIMIT_NPROC`. A limit that can be set by nothing is named in the record, or fails the start
//! of a box that requires it.

mod auto;
mod cgroups;
mod host;
mod leftovers;

use minimal_linux::cgroup::{Cgroup, Swap};
use minimal_proto::ending::StartFault;
use minimal_proto::keeper::{EnforcedLimit, Missing};
use minimal_proto::spec::{Limit, MachineSection, Max};

use rustix::process::{Resource, getrlimit};

use crate::birth::BirthError;
use crate::users::Users;

pub(crate) use cgroups::Cgroups;
pub(crate) use host::HostLimits;
pub(crate) use leftovers::remove_cgroups_of;
pub use leftovers::{remove_cgroups_left_behind, thaw_left_behind};

/// Limits of a box as they were set.
#[derive(Debug, Default)]
pub(crate) struct InForce {
    /// For the record.
    pub(crate) limits: Vec<EnforcedLimit>,
    /// For the record.
    pub(crate) missing: Vec<Missing>,
    /// The group by which the box is paused, if it can be.
    pub(crate) freezer: Option<String>,
    /// What the entrypoint's process sets of itself (`RLIMIT_NPROC`).
    pub(crate) process_limit: Option<u64>,
}

const RAM: &str = "ram";
const PIDS: &str = "pids";

/// Sets the limits of a box in the groups its keeper is in.
pub(crate) fn set(
    machine: &MachineSection,
    cgroups: &mut Cgroups,
    host: &HostLimits,
    users: Users,
) -> Result<InForce, BirthError> {
    let mut in_force = InForce::default();
    let (ram, pids) = (host.auto.or(machine.ram.max, RAM), host.auto.or(machine.pids.max, PIDS));
    match cgroups.limit_ram(ram) {
        Ok((cgroup, swap)) => {
            in_force.limits.push(by_cgroup(RAM, ram, cgroup));
            if swap == Swap::NotCounted && host.has_swap {
                in_force.missing.push(Missing {
                    what: "swap".to_owned(),
                    why: "the kernel does not count swap by groups: what goes there is not limited"
                        .to_owned(),
                });
            }
        }
        Err(why) => in_force.lacks(RAM, "limit the box's memory", machine.ram, why)?,
    }
    match cgroups.limit_pids(pids) {
        Ok(cgroup) => in_force.limits.push(by_cgroup(PIDS, pids, cgroup)),
        Err(_why) => {
            in_force.process_limit = Some(pids.saturating_add(users.ours_beside_the_box()));
            let by = "rlimit".to_owned();
            in_force.limits.push(EnforcedLimit {
                what: PIDS.to_owned(),
                max: pids,
                by,
                cgroup: None,
            });
        }
    }
    for (what, step, limit) in [
        ("cpus", "limit the box's processor time", machine.cpus),
        ("disk", "limit the box's files", machine.disk),
    ] {
        if limit.max != Max::Auto {
            in_force.lacks(what, step, limit, "this version does not limit it".to_owned())?;
        }
    }
    in_force.limits.extend(of_the_starter(pids));
    in_force.freezer = cgroups.freezer().ok().map(|group| group.path().display().to_string());
    Ok(in_force)
}

/// The limits of a box in words, for people.
pub(crate) fn explain(machine: &MachineSection) -> Vec<String> {
    host::explain(machine)
}

/// Open files that a box's process has as a rule.
const OPEN_FILES: u64 = 1024;

/// Hard limits of whoever started the daemon. Nobody without privilege can raise them again, so they
/// are told where they are lower than what a box would have.
fn of_the_starter(pids: u64) -> impl Iterator<Item = EnforcedLimit> {
    let limits = [(PIDS, Resource::Nproc, pids), ("open_files", Resource::Nofile, OPEN_FILES)];
    limits.into_iter().filter_map(|(what, resource, usual)| {
        let max = getrlimit(resource).maximum.filter(|hard| *hard < usual)?;
        Some(EnforcedLimit { what: what.to_owned(), max, by: "rlimit".to_owned(), cgroup: None })
    })
}

fn by_cgroup(what: &str, max: u64, cgroup: &Cgroup) -> EnforcedLimit {
    EnforcedLimit {
        what: what.to_owned(),
        max,
        by: cgroup.version().as_str().to_owned(),
        cgroup: Some(cgroup.path().display().to_string()),
    }
}

impl InForce {
    fn lacks(
        &mut self,
        what: &str,
        step: &str,
        limit: Limit,
        why: String,
    ) -> Result<(), BirthError> {
        if limit.required {
            return Err(BirthError {
                fault: StartFault::Other,
                step: step.to_owned(),
                message: format!("cannot {step}, which it requires: {why}"),
                errno: None,
            });
        }
        self.missing.push(Missing { what: what.to_owned(), why });
        Ok(())
    }
}

impl auto::Auto {
    fn or(&self, max: Max, what: &str) -> u64 {
        match (max, what) {
            (Max::At(max), _) => max,
            (Max::Auto, RAM) => self.ram,
            (Max::Auto, _) => self.pids,
        }
    }
}
