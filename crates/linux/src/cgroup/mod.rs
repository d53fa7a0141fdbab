//! Control groups (cgroups(7)), of version 1 and 2: where they can be made, and what they limit.

mod sites;

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub use sites::{Site, find};

/// What of a group can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
    /// Whether they run at all.
    Freezer,
}

impl Controller {
    /// Its name in every file of the kernel's.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
        }
    }
}

/// Versions of the kernel's interface. A controller is in one of them at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy; processes are in its leaves only.
    V2,
}

impl Version {
    /// The words of records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "cgroup v1",
            Self::V2 => "cgroup v2",
        }
    }
}

/// Whether a limit on memory is one on swap, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// Nothing of the group goes to swap beyond the limit.
    Limited,
    /// The kernel does not count swap.
    NotCounted,
}

/// The most `pids.max` takes: the number of pids there can be (PID_MAX_LIMIT, 2^22).
const MOST_PIDS: u64 = 1 << 22;

/// One control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    version: Version,
    path: PathBuf,
}

impl Cgroup {
    /// Makes a group. One of that name in which nothing is left is made anew.
    ///
    /// # Errors
    /// What mkdir(2) says; `EEXIST` if there is one in use.
    pub fn make(site: &Site, name: &str) -> io::Result<Self> {
        let path = site.place.join(name);
        if let Err(error) = fs::create_dir(&path) {
            if error.kind() != io::ErrorKind::AlreadyExists || fs::remove_dir(&path).is_err() {
                return Err(error);
            }
            fs::create_dir(&path)?;
        }
        Ok(Self { version: site.version, path })
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Of which version it is.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Limits the group to so many bytes of memory, and of memory and swap together.
    ///
    /// # Errors
    /// What writing says; `EBUSY` (version 1) if it uses more already.
    pub fn limit_memory(&self, bytes: u64) -> io::Result<Swap> {
        let (limit, swap_limit, swap) = match self.version {
            Version::V1 => ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", bytes),
            // Counted apart: memory up to the limit, and none of it in swap.
            Version::V2 => ("memory.max", "memory.swap.max", 0),
        };
        self.write(limit, bytes)?;
        Ok(match self.write(swap_limit, swap) {
            Ok(()) => Swap::Limited,
            Err(_) => Swap::NotCounted,
        })
    }

    /// Limits the group to so many processes and threads.
    ///
    /// # Errors
    /// What writing says.
    pub fn limit_pids(&self, count: u64) -> io::Result<()> {
        self.write("pids.max", count.min(MOST_PIDS))
    }

    /// How many processes of the group the kernel has killed because memory ran out. The kernel
    /// counts before it kills: whoever has seen such a process end finds it counted.
    ///
    /// # Errors
    /// What reading says; `InvalidData` if the kernel does not count (version 1 before 4.13).
    pub fn oom_kills(&self) -> io::Result<u64> {
        let file = match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        let text = fs::read_to_string(self.path.join(file))?;
        sites::field(&text, "oom_kill").ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Has all processes of the group stand still, or go on. They do so some time later:
    /// [`Cgroup::is_frozen`]. On version 1 what is frozen does not even die.
    ///
    /// # Errors
    /// What writing says; `ENOENT` (version 2) before Linux 5.2.
    pub fn freeze(&self, still: bool) -> io::Result<()> {
        match self.version {
            Version::V1 => {
                let word = if still { "FROZEN" } else { "THAWED" };
                let file = self.path.join("freezer.state");
                fs::File::options().write(true).open(file)?.write_all(word.as_bytes())
            }
            Version::V2 => self.write("cgroup.freeze", u64::from(still)),
        }
    }

    /// Whether all processes of the group stand still.
    ///
    /// # Errors
    /// What reading says.
    pub fn is_frozen(&self) -> io::Result<bool> {
        match self.version {
            Version::V1 => {
                Ok(fs::read_to_string(self.path.join("freezer.state"))?.trim() == "FROZEN")
            }
            Version::V2 => {
                let text = fs::read_to_string(self.path.join("cgroup.events"))?;
                Ok(sites::field(&text, "frozen") == Some(1))
            }
        }
    }

    /// Puts this process in the group. Usually after milliseconds, in which the kernel waits until
    /// every processor has seen that someone is on the move (an RCU grace period); what is forked
    /// by someone inside is inside at once.
    ///
    /// # Errors
    /// See [`enter`].
    pub fn enter(&self) -> io::Result<()> {
        enter(&self.path)
    }

    /// Removes the group. One that is not there any more counts as removed.
    ///
    /// # Errors
    /// `EBUSY` as long as something is in it.
    pub fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }

    fn write(&self, file: &str, value: u64) -> io::Result<()> {
        // One write(2): the kernel takes a value whole or not at all.
        fs::File::options()
            .write(true)
            .open(self.path.join(file))?
            .write_all(value.to_string().as_bytes())
    }
}

/// Puts this process in the group at `path`; see [`Cgroup::enter`].
///
/// # Errors
/// What writing says: `EACCES` if the group, or the next one above both, is not ours to change,
/// `ENODEV` if it is being removed, `EBUSY` (version 2) if it is not a leaf.
pub fn enter(path: &Path) -> io::Result<()> {
    fs::File::options().write(true).open(path.join("cgroup.procs"))?.write_all(b"0")
}

/// Has what is in the group at `path` go on, if it was frozen.
///
/// # Errors
/// What writing says.
pub fn thaw(path: &Path) -> io::Result<()> {
    let v1 = path.join("freezer.state");
    let (file, word) = if v1.exists() { (v1, "THAWED") } else { (path.join("cgroup.freeze"), "0") };
    fs::File::options().write(true).open(file)?.write_all(word.as_bytes())
}

/// Removes the group at `path`, as [`Cgroup::remove`].
///
/// # Errors
/// See there.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
