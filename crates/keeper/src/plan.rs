//! What will be done to make a box, as data: a list of steps in the order they are taken.
//!
//! [`Plan::for_spec`] decides, [`crate::birth`] carries out, `min run --explain` prints. Nothing
//! else decides anything about a box's insides.

use std::fmt;
use std::path::PathBuf;

use minimal_proto::spec::Workspace;
use minimal_proto::{BoxId, BoxName, Spec};

use crate::users::BOX_USER;

/// Where the workspace is in a box.
pub const WORKBENCH: &str = "/workbench";
/// The box user's home.
pub const HOME: &str = "/home/box";
/// Where programs are searched unless the spec says otherwise.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Directories of the host's system that a box sees, read-only, where the host has them. Homes,
/// /run, /var, /srv and whatever else there is stay outside.
const HOST_DIRECTORIES: [&str; 9] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt"];

/// Devices a box has: none of them reaches anything.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// A directory of the box's own on the host's disk, or one that is handed to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// `fs/workbench` of the box directory.
    Workbench,
    /// `fs/home` of the box directory.
    Home,
    /// `fs/tmp` of the box directory.
    Tmp,
    /// The caller's project.
    Project,
}

impl Given {
    /// Its name below `fs/`; none for the project, which is not ours.
    #[must_use]
    pub const fn own_directory(self) -> Option<&'static str> {
        match self {
            Self::Workbench => Some("workbench"),
            Self::Home => Some("home"),
            Self::Tmp => Some("tmp"),
            Self::Project => None,
        }
    }
}

/// One step. Paths are those in the box, without the leading slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Cut mounts off from the host's.
    CutOffMounts,
    /// An empty root in memory.
    EmptyRoot,
    /// A directory.
    Directory(&'static str),
    /// A directory of the host, with what is mounted in it, read-only; a link if the host has one.
    HostDirectory(&'static str),
    /// A directory of the box's own or one handed to it, writable.
    Give(Given, &'static str),
    /// A file whose contents we write, over the host's if the host has one; left out if not.
    HostFileReplaced(&'static str, String),
    /// A file system in memory.
    Memory(&'static str, &'static str),
    /// A device of the host's.
    Device(&'static str),
    /// A link.
    Link(&'static str, &'static str),
    /// Its own terminals.
    Terminals(&'static str),
    /// Its own processes.
    Processes(&'static str),
    /// What the kernel shows of its own network, read-only; left out where the kernel refuses.
    Kernel(&'static str),
    /// Make the root read-only and enter it, leaving the host's files.
    EnterRoot,
    /// The host name.
    HostName(String),
    /// Loopback.
    Loopback,
    /// No privilege that could undo any of this, ever.
    DropPrivileges,
}

/// A box in steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// The host's directory behind [`Given::Project`].
    pub project: Option<PathBuf>,
    /// Where the entrypoint starts.
    pub working_directory: PathBuf,
}

impl Plan {
    /// Decides how a box of this spec is made.
    #[must_use]
    pub fn for_spec(spec: &Spec, name: &BoxName) -> Self {
        let mut steps = vec![Step::CutOffMounts, Step::EmptyRoot];
        steps.extend(HOST_DIRECTORIES.map(Step::HostDirectory));
        steps.extend(generated_files(name));
        steps.push(Step::Directory("dev"));
        steps.push(Step::Memory("dev", "mode=755,size=64k"));
        steps.extend(DEVICES.map(Step::Device));
        steps.extend([
            Step::Directory("dev/pts"),
            Step::Terminals("dev/pts"),
            Step::Directory("dev/shm"),
            Step::Memory("dev/shm", "mode=1777"),
            Step::Link("/proc/self/fd", "dev/fd"),
            Step::Link("/proc/self/fd/0", "dev/stdin"),
            Step::Link("/proc/self/fd/1", "dev/stdout"),
            Step::Link("/proc/self/fd/2", "dev/stderr"),
            Step::Link("pts/ptmx", "dev/ptmx"),
            Step::Directory("proc"),
            Step::Processes("proc"),
            Step::Directory("sys"),
            Step::Kernel("sys"),
            Step::Directory("run"),
            Step::Directory("var"),
            Step::Link("/tmp", "var/tmp"),
            Step::Link("/run", "var/run"),
            Step::Directory("root"),
            Step::Directory("home"),
            Step::Directory("home/box"),
            Step::Give(Given::Home, "home/box"),
            Step::Directory("tmp"),
            Step::Give(Given::Tmp, "tmp"),
            Step::Directory("workbench"),
        ]);
        let project = match spec.files.workspace {
            Workspace::None => None,
            Workspace::Bind => {
                spec.files.project_root.as_ref().map(|root| PathBuf::from(root.as_os_str()))
            }
        };
        let workspace = if project.is_some() { Given::Project } else { Given::Workbench };
        steps.extend([
            Step::Give(workspace, "workbench"),
            Step::EnterRoot,
            Step::HostName(name.to_string()),
            Step::Loopback,
            Step::DropPrivileges,
        ]);
        let mut working_directory = PathBuf::from(WORKBENCH);
        if let Some(cwd) = &spec.execution.cwd {
            // An absolute path replaces the workspace, a relative one is below it.
            working_directory.push(cwd.as_os_str());
        }
        Self { steps, project, working_directory }
    }
}

/// The few files of /etc that must speak of the box and not of the host.
fn generated_files(name: &BoxName) -> [Step; 5] {
    let passwd = format!(
        "root:x:0:0:root:/root:/bin/sh\nbox:x:{BOX_USER}:{BOX_USER}:box:{HOME}:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    );
    let group = format!("root:x:0:\nbox:x:{BOX_USER}:\nnogroup:x:65534:\n");
    let hosts = format!("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {name}\n");
    [
        Step::HostFileReplaced("etc/passwd", passwd),
        Step::HostFileReplaced("etc/group", group),
        Step::HostFileReplaced("etc/hosts", hosts),
        Step::HostFileReplaced("etc/hostname", format!("{name}\n")),
        // No network: no name server, which a resolver then says at once.
        Step::HostFileReplaced("etc/resolv.conf", String::new()),
    ]
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOffMounts => f.write_str("cut the box's mounts off from the host's"),
            Self::EmptyRoot => f.write_str("make an empty root directory in memory"),
            Self::Directory(path) => write!(f, "make the directory /{path}"),
            Self::HostDirectory(path) => write!(f, "show the host's /{path} read-only"),
            Self::Give(given, path) => match given {
                Given::Project => write!(f, "give the project, read-write, at /{path}"),
                Given::Workbench | Given::Home | Given::Tmp => {
                    write!(
                        f,
                        "give the box a directory of its own, kept with its record, at /{path}"
                    )
                }
            },
            Self::HostFileReplaced(path, _) => {
                write!(f, "put a generated file over the host's /{path}")
            }
            Self::Memory(path, options) => write!(f, "mount memory at /{path} ({options})"),
            Self::Device(name) => write!(f, "show the host's device /dev/{name}"),
            Self::Link(target, path) => write!(f, "link /{path} to {target}"),
            Self::Terminals(path) => write!(f, "mount terminals of the box's own at /{path}"),
            Self::Processes(path) => {
                write!(f, "mount /{path}, which shows the box's processes only")
            }
            Self::Kernel(path) => write!(f, "mount /{path} read-only, if the kernel allows it"),
            Self::EnterRoot => {
                f.write_str("make the root read-only, enter it and let go of the host's")
            }
            Self::HostName(name) => write!(f, "call the host {name}"),
            Self::Loopback => f.write_str("bring up loopback, the only network"),
            Self::DropPrivileges => f.write_str("drop every capability and the means to gain any"),
        }
    }
}

/// The plan in words, for `min run --explain`.
#[must_use]
pub fn explain(spec: &Spec, name: &BoxName) -> Vec<String> {
    let plan = Plan::for_spec(spec, name);
    let mut lines = vec![format!(
        "make namespaces of its own: {}",
        minimal_linux::fork::BOX_NAMESPACES.join(", ")
    )];
    lines.extend(plan.steps.iter().map(ToString::to_string));
    if let Some(project) = &plan.project {
        lines.push(format!("the project is {}", project.display()));
    }
    let program = spec.execution.exec.first().map(|program| program.to_lossy()).unwrap_or_default();
    lines.push(format!(
        "as user box ({BOX_USER}), in {}, execute {program} with {} further arguments",
        plan.working_directory.display(),
        spec.execution.exec.len().saturating_sub(1),
    ));
    lines
}

/// The environment every entrypoint starts from, before the spec's own variables.
#[must_use]
pub fn base_environment(id: BoxId, name: &BoxName) -> Vec<(String, String)> {
    [
        ("HOME", HOME),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", "box"),
        ("MINIMAL_BOX_ID", &id.to_string()),
        ("MINIMAL_BOX_NAME", name.as_str()),
        ("PATH", PATH),
        ("SHELL", "/bin/sh"),
        ("USER", "box"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(change: impl FnOnce(&mut Spec)) -> Plan {
        let mut spec = Spec::task(vec!["true".into()]);
        change(&mut spec);
        Plan::for_spec(&spec, &"web".parse().unwrap())
    }

    #[test]
    fn privileges_go_last_and_the_root_is_entered_before_them() {
        let steps = plan(|_| {}).steps;
        assert_eq!(steps.last(), Some(&Step::DropPrivileges));
        let at = |wanted: &Step| steps.iter().position(|step| step == wanted).unwrap();
        assert!(at(&Step::Processes("proc")) < at(&Step::EnterRoot));
        assert_eq!(steps[0], Step::CutOffMounts, "nothing we mount may reach the host");
    }

    #[test]
    fn the_project_is_given_only_when_asked_for() {
        let none = plan(|spec| spec.files.project_root = Some("/p".into()));
        assert!(!none.steps.contains(&Step::Give(Given::Project, "workbench")));
        assert_eq!(none.project, None);
        let bind = plan(|spec| {
            spec.files.project_root = Some("/p".into());
            spec.files.workspace = Workspace::Bind;
        });
        assert!(bind.steps.contains(&Step::Give(Given::Project, "workbench")));
        assert_eq!(bind.project, Some("/p".into()));
    }

    #[test]
    fn a_relative_directory_is_below_the_workspace() {
        assert_eq!(plan(|_| {}).working_directory, PathBuf::from("/workbench"));
        let relative = plan(|spec| spec.execution.cwd = Some("a/b".into()));
        assert_eq!(relative.working_directory, PathBuf::from("/workbench/a/b"));
        let absolute = plan(|spec| spec.execution.cwd = Some("/tmp".into()));
        assert_eq!(absolute.working_directory, PathBuf::from("/tmp"));
    }
}
