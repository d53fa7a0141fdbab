//! What lies below the layers that a box's root may write: the host's system directories. With the
//! host's root they are shown as the box's root's own. Made once by the nursery.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use minimal_linux::mount::{Reach, clone_tree, map_ids};
use minimal_linux::namespaces::{IdRange, map_only};
use rustix::fs::CWD;

use crate::plan::HOST_DIRECTORIES;
use crate::users::{RANGE, Users};
use crate::walls::Wall;

/// Databases of what is installed, by package manager: world-readable like what they speak of.
const DATABASES: [&str; 3] = ["var/lib/dpkg", "var/lib/rpm", "var/lib/pacman"];

/// Directories that hold what the host's administrator put there, secrets among it: what others may
/// not read there stays unreadable, so a box's root does not own what is in them.
const ADMINISTRATORS: [&str; 2] = ["usr/local", "opt"];

/// A directory that a layer can be laid over.
#[derive(Debug)]
pub(crate) struct Lower {
    /// Where it is, on the host and in a box; empty for the root.
    pub(crate) path: &'static str,
    /// A detached mount of it.
    pub(crate) mount: OwnedFd,
    /// Whether the box's root owns what the host's root owns in it.
    pub(crate) is_owned: bool,
    /// Whether it says what is installed.
    pub(crate) is_database: bool,
}

impl Lower {
    /// Whether box root can make names in it only by a view (`birth::view`), for an ordinary user.
    pub(crate) fn needs_view(&self) -> bool {
        self.path != ETC && self.path != ROOT
    }
}

/// Those that are no directories of the host's: the root that all boxes share, with nothing in it but
/// directories and links, and a copy of what everybody may read in `/etc`.
pub(crate) const ROOT: &str = "";
const ETC: &str = "etc";

/// All of them, parents before what is in them.
#[derive(Debug, Default)]
pub(crate) struct SystemLowers {
    pub(crate) all: Vec<Lower>,
    /// Why a box's root cannot install there what it likes.
    pub(crate) lack: Option<String>,
}

impl SystemLowers {
    /// Looks what there is. `shared` is where the root that all boxes share is attached.
    pub(crate) fn find(users: Users, shared: &Path) -> Self {
        let base = match users {
            Users::Range { base } => Some(base),
            Users::Subordinate => None,
            Users::Single => {
                let lack = "boxes have one user on this host, and nobody who could install";
                return Self { all: Vec::new(), lack: Some(lack.to_owned()) };
            }
        };
        let mut found = Self::default();
        if let Err((path, error)) = found.look(base, shared) {
            found.lack = Some(format!("no layer can be laid over /{path}: {error}"));
            found.all.clear();
        }
        found
    }

    fn look(&mut self, base: Option<u32>, shared: &Path) -> Result<(), (&'static str, io::Error)> {
        // What is the host's root's on disk is the box's root's, and so on for the other ids.
        let map = base.map(|base| {
            let map = [IdRange { inside: 0, outside: base, count: RANGE }];
            map_only(&map, &map).map_err(|error| ("usr", error))
        });
        let map = map.transpose()?;
        let mounts = mount_points().map_err(|error| ("usr", error))?;
        // Before all others, which go into it.
        for path in [ROOT, ETC] {
            let mount = clone_tree(CWD, &shared.join(path), Reach::One);
            let mount = mount.map_err(|error| (path, error))?;
            self.all.push(Lower { path, mount, is_owned: true, is_database: false });
        }
        let owned = HOST_DIRECTORIES.into_iter().chain(DATABASES);
        let owned = owned.filter(|path| !ADMINISTRATORS.contains(path)).map(|path| (path, true));
        let owns_all = !Wall::Administrators.stands();
        for (path, is_owned) in owned.chain(ADMINISTRATORS.map(|path| (path, owns_all))) {
            let host = Path::new("/").join(path);
            if !host.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
                continue;
            }
            if mounts.iter().any(|point| hides(point, &host)) {
                if is_owned {
                    self.lack = Some(format!("something is mounted below /{path}"));
                }
                continue;
            }
            let mount = clone_tree(CWD, &host, Reach::One).map_err(|error| (path, error))?;
            if let (true, Some(map)) = (is_owned, &map) {
                map_ids(mount.as_fd(), map.as_fd(), Reach::One).map_err(|error| (path, error))?;
            }
            let is_database = DATABASES.contains(&path);
            // A view has all directories already.
            let is_owned = is_owned || map.is_none();
            self.all.push(Lower { path, mount, is_owned, is_database });
        }
        Ok(())
    }
}

/// Whether a layer over a directory would hide what is mounted at a point in it. Those of the
/// administrator have layers of their own.
fn hides(point: &Path, directory: &Path) -> bool {
    let is_others = |other: &&str| {
        let other = Path::new("/").join(other);
        other != directory && other.starts_with(directory) && point.starts_with(other)
    };
    point != directory && point.starts_with(directory) && !ADMINISTRATORS.iter().any(is_others)
}

/// Where something is mounted, by proc_pid_mountinfo(5). Names with blanks are escaped there, which
/// none of ours has.
fn mount_points() -> io::Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(text.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_in_a_directory_would_be_hidden() {
        let hides = |point: &str, directory: &str| hides(Path::new(point), Path::new(directory));
        assert!(hides("/usr/lib/wsl", "/usr"));
        assert!(hides("/usr/local/x", "/usr/local"));
        assert!(!hides("/usr/local", "/usr"), "it has a layer of its own");
        assert!(!hides("/usr/local/x", "/usr"));
        assert!(!hides("/usr", "/usr"));
        assert!(!hides("/usrx/y", "/usr"));
    }
}
