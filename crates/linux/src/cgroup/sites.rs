//! Where this process can make control groups.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags};

use super::{Controller, Version};

/// A place where groups with a controller can be made. What limits the place limits them, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Of which version.
    pub version: Version,
    /// The group below which they are made.
    pub place: PathBuf,
    /// The group this process was in.
    pub own: PathBuf,
    /// Where its hierarchy is mounted.
    mount: PathBuf,
}

impl Site {
    /// The least limit on memory that anything made here has already. `None`: there is none.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        match self.version {
            // Takes the groups above into account, seen by us or not.
            Version::V1 => field(&read(&self.place, "memory.stat")?, "hierarchical_memory_limit"),
            Version::V2 => self
                .place
                .ancestors()
                .take_while(|path| path.starts_with(&self.mount))
                // `max` is no number, and the root has no such file.
                .filter_map(|path| read(path, "memory.max")?.trim().parse().ok())
                .min(),
        }
    }
}

/// Finds where groups with a controller can be made without asking anybody.
///
/// That is, on version 1, below the group we are in. On version 2 processes are in leaves only, so
/// it is beside it, unless we are in the hierarchy's root.
///
/// # Errors
/// Why they cannot, for people.
pub fn find(controller: Controller) -> Result<Site, String> {
    let look = |path: &'static str| {
        fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"))
    };
    let (membership, mounts) = (look(MEMBERSHIP)?, look(MOUNTS)?);
    let hierarchies = locate(controller, &membership, &mounts);
    let name = controller.as_str();
    let mut why = None;
    for hierarchy in hierarchies {
        match hierarchy.site(controller) {
            Ok(site) => return Ok(site),
            // The first is where the controller more likely is.
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    Err(why.unwrap_or_else(|| {
        format!("no control group hierarchy with the {name} controller is mounted")
    }))
}

const MEMBERSHIP: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";

/// A hierarchy as this process sees it.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    version: Version,
    mount: PathBuf,
    own: PathBuf,
}

/// The hierarchies in which the controller may be, by cgroups(7) (`/proc/pid/cgroup`) and
/// proc_pid_mountinfo(5). Version 1 first: there the controller certainly is.
fn locate(controller: Controller, membership: &str, mountinfo: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = membership
        .lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (_, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
            let version = match controllers {
                "" => Version::V2,
                list if list.split(',').any(|name| name == controller.as_str()) => Version::V1,
                _ => return None,
            };
            let (mount, own) = mountinfo
                .lines()
                .filter_map(|line| mounted(line, version, controller))
                .find_map(|(root, mount)| {
                    let below = Path::new(group).strip_prefix(&root).ok()?.to_owned();
                    let own = if below.as_os_str().is_empty() {
                        mount.clone()
                    } else {
                        mount.join(below)
                    };
                    Some((mount, own))
                })?;
            Some(Hierarchy { version, mount, own })
        })
        .collect();
    found.sort_by_key(|hierarchy| hierarchy.version == Version::V2);
    found
}

/// Root and mount point of a line of mountinfo, if it is of this hierarchy.
fn mounted(line: &str, version: Version, controller: Controller) -> Option<(PathBuf, PathBuf)> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(3);
    let (root, point) = (unescape(mount.next()?), unescape(mount.next()?));
    let mut file_system = file_system.split(' ');
    let kind = file_system.next()?;
    let options = file_system.nth(1)?;
    let wanted = match version {
        Version::V1 => {
            kind == "cgroup" && options.split(',').any(|option| option == controller.as_str())
        }
        Version::V2 => kind == "cgroup2",
    };
    wanted.then_some((root, point))
}

/// A path of mountinfo: blanks and backslashes are there as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = match after {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..] if first == b'\\' => {
                Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
            }
            _ => None,
        };
        bytes.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

impl Hierarchy {
    fn site(self, controller: Controller) -> Result<Site, String> {
        let place = match self.version {
            Version::V1 => {
                self.writable(&self.own)?;
                self.own.clone()
            }
            Version::V2 => self.place_beside(controller)?,
        };
        Ok(Site { version: self.version, place, own: self.own, mount: self.mount })
    }

    fn place_beside(&self, controller: Controller) -> Result<PathBuf, String> {
        // Only the root of all has no type, and may have processes beside groups.
        let is_root = read(&self.own, "cgroup.type").is_none();
        let place = match self.own.parent() {
            _ if is_root => &self.own,
            Some(parent) if parent.starts_with(&self.mount) => parent,
            _ => {
                return Err(format!(
                    "{} has processes of its own, so no groups can be made in it",
                    self.own.display()
                ));
            }
        };
        self.writable(place)?;
        if controller == Controller::Freezer {
            // Every group of this version has it, but the root of all.
            return Ok(place.to_owned());
        }
        let name = controller.as_str();
        let has = |file: &str| {
            read(place, file).is_some_and(|list| list.split_whitespace().any(|it| it == name))
        };
        if !has("cgroup.controllers") {
            return Err(format!("{} does not have the {name} controller", place.display()));
        }
        if !has("cgroup.subtree_control") {
            // Where there are processes the kernel would refuse memory, but make of pids a group
            // of threads.
            let is_empty = read(place, "cgroup.procs").is_some_and(|pids| pids.trim().is_empty());
            let given = (is_root || is_empty)
                && fs::write(place.join("cgroup.subtree_control"), format!("+{name}")).is_ok();
            if !given {
                return Err(format!(
                    "{} does not give its groups the {name} controller",
                    place.display()
                ));
            }
        }
        Ok(place.to_owned())
    }

    /// Whether groups can be made at `place`, and this process be moved between them.
    fn writable(&self, place: &Path) -> Result<(), String> {
        let may = |path: &Path, access| -> io::Result<()> {
            Ok(rustix::fs::accessat(rustix::fs::CWD, path, access, AtFlags::EACCESS)?)
        };
        may(place, Access::WRITE_OK | Access::EXEC_OK)
            .and_then(|()| may(&place.join("cgroup.procs"), Access::WRITE_OK))
            .and_then(|()| may(&self.own.join("cgroup.procs"), Access::WRITE_OK))
            .map_err(|error| format!("no group can be made in {}: {error}", place.display()))
    }
}

fn read(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
}

/// The number in a line `name number`.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
39 31 0:36 /docker/ab /sys/fs/cgroup/my\\040pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    fn located(controller: Controller, membership: &str) -> Vec<(Version, String, String)> {
        locate(controller, membership, MOUNTS)
            .into_iter()
            .map(|it| (it.version, it.mount.display().to_string(), it.own.display().to_string()))
            .collect()
    }

    #[test]
    fn a_controller_is_looked_for_where_it_is_before_where_it_may_be() {
        let membership = "0::/user.slice/a b\n4:memory:/x/y\n8:pids:/docker/ab\n1:name=systemd:/\n";
        let unified = (
            Version::V2,
            "/sys/fs/cgroup/unified".to_owned(),
            "/sys/fs/cgroup/unified/user.slice/a b".to_owned(),
        );
        let v1 = |mount: &str, own: &str| (Version::V1, mount.to_owned(), own.to_owned());
        assert_eq!(
            located(Controller::Memory, membership),
            [v1("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/x/y"), unified.clone()]
        );
        let pids = "/sys/fs/cgroup/my pids";
        assert_eq!(located(Controller::Pids, membership), [v1(pids, pids), unified]);
    }

    #[test]
    fn a_group_that_is_not_mounted_for_us_is_none() {
        assert_eq!(located(Controller::Pids, "8:pids:/docker/other\n"), []);
        assert_eq!(located(Controller::Memory, "3:cpuset:/\n"), []);
        for torn in ["", "0", "0:", "::", "a:b"] {
            assert_eq!(located(Controller::Memory, torn), []);
        }
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "oom_kill_disable 1\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
        assert_eq!(field("oom_kill x\n", "oom_kill"), None);
    }

    #[test]
    fn paths_are_read_as_the_kernel_writes_them() {
        assert_eq!(unescape("/a\\040b\\134c\\9"), PathBuf::from("/a b\\c\\9"));
    }

    /// A version 2 tree as files, for what the rule asks of it.
    #[test]
    fn on_version_2_groups_are_made_beside_our_own() {
        let root = std::env::temp_dir().join(format!("minimal-test-cgroup-{}", std::process::id()));
        let own = root.join("app.slice/run.scope");
        fs::create_dir_all(&own).unwrap();
        let set = |path: &Path, file: &str, text: &str| fs::write(path.join(file), text).unwrap();
        let slice = root.join("app.slice");
        set(&own, "cgroup.type", "domain\n");
        set(&own, "cgroup.procs", "77\n");
        set(&slice, "cgroup.procs", "");
        set(&slice, "cgroup.controllers", "cpu memory pids\n");
        set(&slice, "cgroup.subtree_control", "memory\n");
        set(&slice, "memory.max", "5000\n");
        set(&root, "memory.max", "9000\n");
        let hierarchy =
            || Hierarchy { version: Version::V2, mount: root.clone(), own: own.clone() };
        let site = hierarchy().site(Controller::Memory).unwrap();
        assert_eq!((&site.place, site.memory_limit()), (&slice, Some(5000)));
        hierarchy().site(Controller::Pids).unwrap();
        let asked = fs::read_to_string(slice.join("cgroup.subtree_control")).unwrap();
        assert_eq!(asked, "+pids");
        set(&slice, "cgroup.subtree_control", "memory\n");
        set(&slice, "cgroup.procs", "1\n");
        let refused = hierarchy().site(Controller::Pids).unwrap_err();
        assert!(refused.contains("does not give its groups the pids controller"), "{refused}");
        let at_top = Hierarchy { mount: own.clone(), ..hierarchy() };
        let refused = at_top.site(Controller::Memory).unwrap_err();
        assert!(refused.contains("has processes of its own"), "{refused}");
        fs::remove_dir_all(root).unwrap();
    }
}
