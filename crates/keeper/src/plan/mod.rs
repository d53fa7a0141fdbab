//! What will be done to make a box, as data: a list of steps in the order they are taken.
//!
//! [`shared_root`] and [`Plan::for_spec`] decide, `assemble` carries out, `min run --explain`
//! prints. Nothing else decides anything about a box's insides.

mod words;

use std::path::PathBuf;

use minimal_linux::fork::Network;
use minimal_proto::spec::{Builtin, NetworkMode, Rootfs, Workspace};
use minimal_proto::{BoxId, BoxName, ByteString, Spec};
use serde_json::json;

use crate::etc::{self, Account};
use crate::shown::{self, Patched, Shown};

pub use words::explain;

/// Where the workspace is in a box.
pub const WORKBENCH: &str = "/workbench";
/// The box user's home.
pub const HOME: &str = "/home/box";
/// Where the file of a box's params is.
pub(crate) const PARAMS: &str = "/run/minimal";
/// What that file is called.
pub(crate) const PARAMS_NAME: &str = "params.json";
/// Where hubs believe the home of a sandbox to be (`docs/reference/runner-protocol.md`).
const HOME_OF_HUBS: &str = "/home/sprite";
/// Where programs are searched unless the spec says otherwise.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Directories of the host's system that a box sees, read-only, where the host has them. Of /etc it
/// has a copy; homes, /run, /var, /srv and whatever else there is stay outside.
pub(crate) const HOST_DIRECTORIES: [&str; 8] =
    ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "opt"];

/// What a box has of its own whatever its root is.
pub(crate) const OWN: [&str; 7] = ["dev", "proc", "sys", "run", "tmp", "home/box", "workbench"];

/// Where a box's terminals are, from its root.
pub(crate) const TERMINALS: &str = "dev/pts";

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
    /// `fs/root` of the box directory, the home of a box's root.
    RootHome,
    /// A layer over a directory of the host's system, or what a box's root has in its place.
    System(&'static str),
    /// A root with a layer of the box's own.
    Root,
    /// The caller's project, in this way.
    Project(Workspace),
    /// The repository that the project is a worktree of, in this way.
    Repository(Workspace),
    /// The mount of this index in the spec.
    Mount(usize),
    /// The directory with the file of the box's params.
    Params,
}

/// What a box sees of the host in /sys: how many processors there are and how memory is laid out, by
/// which programs size themselves. They see the same in /proc.
const MACHINE: [&str; 2] = ["sys/devices/system/cpu", "sys/devices/system/node"];

/// What there is in /sys for them and for a box's own network.
const SYS: [&str; 8] = [
    "sys",
    "sys/class",
    "sys/class/net",
    "sys/devices",
    "sys/devices/system",
    "sys/devices/virtual",
    "sys/devices/virtual/net",
    "sys/fs",
];

/// One step. Paths are those in the box, without the leading slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An empty root in memory.
    EmptyRoot,
    /// A directory.
    Directory(&'static str),
    /// A directory of the host, with what is mounted in it, read-only; a link if the host has one.
    HostDirectory(&'static str),
    /// A copy of what everybody may read in the host's directory, but for some names at its top.
    PublicCopy(&'static str, &'static [&'static str]),
    /// The box's users and groups, in four files of this directory.
    Accounts(&'static str),
    /// A file: its mode and contents.
    File(&'static str, u32, &'static str),
    /// A file, unless there is one of the name already.
    FileIfMissing(&'static str, &'static str),
    /// A file over the shared root's, with nothing in it until the box is somebody's.
    FileHeld(&'static str),
    /// A file system in memory, with its options.
    Memory(&'static str, &'static str),
    /// A device of the host's.
    Device(&'static str),
    /// A link: its target and where it is.
    Link(&'static str, &'static str),
    /// Make the root read-only, and what was mounted in it as memory.
    SealRoot,
    /// Cut mounts off from the host's.
    CutOffMounts,
    /// The root that all boxes share.
    SharedRoot,
    /// Its own terminals.
    Terminals(&'static str),
    /// Its own processes.
    Processes(&'static str),
    /// What the kernel shows of its own network in this directory, read-only; left out where the kernel
    /// refuses.
    NetworkInSys(&'static str),
    /// A directory of the box's own or one handed to it, writable.
    Give(Given, &'static str),
    /// A directory for something to be mounted on, wherever that may be: the box gets a root, or a
    /// part of it, of its own for that.
    MakeRoom(PathBuf),
    /// The box's own root in place of that of all boxes, with everything that is the box's own moved over.
    OwnRoot(PathBuf),
    /// A link to the workspace from where the project is on the host.
    LinkWorkspace(PathBuf),
    /// A link to the home, for who knows it by another name.
    LinkHome(&'static str),
    /// As [`Step::Give`], where the host has it.
    GiveAt(Given, PathBuf),
    /// Room for a mount, of the kind that it needs.
    MakeRoomFor(Shown),
    /// A mount in its place, for which a directory or an empty file is made where the box may write.
    Mount(Shown),
    /// Something has to be there: it is the host's own, and nothing is made in it.
    Find(PathBuf),
    /// A file `.git` in the workspace that says where the repository is.
    GitFile(PathBuf),
    /// Every [`Given::System`] there is.
    SystemLayers,
    /// Enter the root, leaving the host's files.
    EnterRoot,
    /// The host name.
    HostName(String),
    /// Loopback.
    Loopback,
    /// No privilege that could undo any of this, ever.
    DropPrivileges,
}

/// The steps of the root that all boxes share: taken once by the nursery, and never written to
/// again. What a box has of its own is mounted over it.
#[must_use]
pub fn shared_root() -> Vec<Step> {
    let mut steps = vec![Step::EmptyRoot];
    steps.extend(HOST_DIRECTORIES.map(Step::HostDirectory));
    // In memory, and sealed with the root: what may be read in it, by whom, is then nobody's choice
    // but ours. The size is beyond what is copied at most, with a page lost for each name.
    steps.extend([
        Step::Directory("etc"),
        Step::Memory("etc", "mode=755,size=160m,nr_inodes=24k"),
        Step::PublicCopy("etc", &etc::NOT_COPIED),
        Step::Accounts("etc"),
        Step::File("etc/hosts", 0o644, etc::HOSTS),
        Step::File("etc/hostname", 0o644, "localhost\n"),
        // No network: no name server, which a resolver then says at once.
        Step::File("etc/resolv.conf", 0o644, ""),
        // Empty is how a machine says that it has none yet (machine-id(5)).
        Step::File("etc/machine-id", 0o444, ""),
        Step::FileIfMissing("etc/nsswitch.conf", etc::NAME_SERVICES),
        Step::Link("../proc/self/mounts", "etc/mtab"),
        Step::Directory("run"),
        Step::Directory("dev"),
        Step::Memory("dev", "mode=755,size=64k"),
    ]);
    steps.extend(DEVICES.map(Step::Device));
    steps.extend(["dev/pts", "dev/shm"].map(Step::Directory));
    steps.extend([
        Step::Link("/proc/self/fd", "dev/fd"),
        Step::Link("/proc/self/fd/0", "dev/stdin"),
        Step::Link("/proc/self/fd/1", "dev/stdout"),
        Step::Link("/proc/self/fd/2", "dev/stderr"),
        Step::Link("pts/ptmx", "dev/ptmx"),
    ]);
    steps.extend(SYS.map(Step::Directory));
    steps.extend(MACHINE.map(Step::HostDirectory));
    steps.extend(
        ["proc", "var", "root", "home", "home/box", "tmp", "workbench"].map(Step::Directory),
    );
    steps.extend([Step::Link("/tmp", "var/tmp"), Step::Link("/run", "var/run"), Step::SealRoot]);
    steps
}

/// The steps of a box that is nobody's yet, over the shared root: taken by its init, most often
/// before there is a spec.
#[must_use]
pub fn blank(network: Network) -> Vec<Step> {
    let mut steps = vec![
        Step::CutOffMounts,
        Step::SharedRoot,
        Step::Memory("run", "mode=755"),
        Step::FileHeld(HOSTS),
        Step::FileHeld(HOSTNAME),
        Step::FileHeld(RESOLVER),
        Step::Terminals(TERMINALS),
        Step::Memory("dev/shm", "mode=1777"),
        Step::Processes("proc"),
        Step::Give(Given::Home, "home/box"),
        Step::Give(Given::Tmp, "tmp"),
        Step::Give(Given::Workbench, "workbench"),
    ];
    match network {
        // A network is seen in /sys only by whoever owns it.
        Network::Own => steps.extend([Step::NetworkInSys("sys"), Step::EnterRoot, Step::Loopback]),
        Network::Makers => steps.push(Step::EnterRoot),
    }
    steps.push(Step::DropPrivileges);
    steps
}

/// Whose network a box is in.
#[must_use]
pub(crate) const fn network(mode: NetworkMode) -> Network {
    match mode {
        // Nothing carries traffic out of it yet: a start that asks for that is refused before.
        NetworkMode::None | NetworkMode::OwnIp => Network::Own,
        NetworkMode::HostIp => Network::Makers,
    }
}

const HOSTS: &str = "etc/hosts";
const HOSTNAME: &str = "etc/hostname";
const RESOLVER: &str = "etc/resolv.conf";

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// This.
    Text(String),
    /// What the host's file of this path holds, as far as we may read it.
    OfHost(&'static str),
}

/// What makes a blank box one of one spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What is written to each [`Step::FileHeld`].
    pub files: Vec<(&'static str, Contents)>,
    /// What whoever enters the box first does there, in order.
    pub steps: Vec<Step>,
    /// The host's directory behind [`Given::Root`], as far as it is known: below a home with `~`.
    pub rootfs: Option<PathBuf>,
    /// What the file in [`Given::Params`] holds, if the box has params.
    pub params: Option<String>,
    /// What is copied into the box's own directories before its first life.
    pub patches: Vec<Patched>,
    /// The host's directory behind [`Given::Project`].
    pub project: Option<PathBuf>,
    /// The host's directory behind [`Given::Repository`].
    pub repository: Option<PathBuf>,
    /// Whether both are given as the plan says or not at all.
    pub workspace_required: bool,
    /// Where the entrypoint starts.
    pub working_directory: PathBuf,
}

impl Plan {
    /// Decides how a box of this spec is made.
    #[must_use]
    pub fn for_spec(spec: &Spec, name: &BoxName) -> Self {
        let path = |path: &ByteString| PathBuf::from(path.as_os_str());
        let kind = spec.files.workspace;
        let project = spec.files.project_root.as_ref().map(path);
        // Without one there is the empty directory that is there already.
        let project = project.filter(|_| kind != Workspace::None);
        let repository = spec.files.repository.as_ref().filter(|_| project.is_some());
        let git_dir = repository.map(|repository| path(&repository.git_dir));
        let repository = repository.map(|repository| path(&repository.directory));
        let hosts = format!("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {name}\n");
        let resolver = match spec.network.mode {
            // No name server, which a resolver then says at once.
            NetworkMode::None | NetworkMode::OwnIp => Contents::Text(String::new()),
            NetworkMode::HostIp => Contents::OfHost("/etc/resolv.conf"),
        };
        let files = vec![
            (HOSTS, Contents::Text(hosts)),
            (HOSTNAME, Contents::Text(format!("{name}\n"))),
            (RESOLVER, resolver),
        ];
        let mut steps = vec![Step::HostName(name.to_string())];
        let rootfs = match &spec.files.rootfs {
            Rootfs::Host => None,
            Rootfs::Path(written) => Some(shown::on_the_host(spec, written)),
        };
        // First: all else goes into it.
        steps.extend(rootfs.clone().map(Step::OwnRoot));
        if let (Some(project), Some(repository)) = (&project, &repository) {
            // Before anything is mounted on what this replaces. The repository says where the project
            // is as well, and git believes it.
            steps.push(Step::MakeRoom(repository.clone()));
            steps.push(Step::LinkWorkspace(project.clone()));
        }
        if spec.identity.box_type.root() == Builtin::Sandbox {
            steps.push(Step::LinkHome(HOME_OF_HUBS));
        }
        let mounts = shown::mounts(spec);
        // Where the box may write itself, room is made when the mount is.
        let is_given =
            |mount: &&Shown| [HOME, WORKBENCH].iter().any(|it| mount.dest.starts_with(it));
        let elsewhere = mounts.iter().filter(|mount| !is_given(mount));
        steps.extend(elsewhere.cloned().map(Step::MakeRoomFor));
        if is_root(&spec.execution.user) {
            if rootfs.is_none() {
                steps.push(Step::SystemLayers);
            }
            steps.push(Step::Give(Given::RootHome, "root"));
        }
        steps.extend(project.iter().map(|_| Step::Give(Given::Project(kind), "workbench")));
        steps.extend(repository.clone().map(|path| Step::GiveAt(Given::Repository(kind), path)));
        steps.extend(git_dir.map(Step::GitFile));
        let is_bound = kind == Workspace::Bind && project.is_some();
        for (at, mount) in mounts.iter().enumerate() {
            // Nothing is made in what is the host's own, only to show something else there.
            if (is_bound && mount.dest.starts_with(WORKBENCH))
                || shown::is_in_hosts_own(&mounts, at)
            {
                steps.push(Step::Find(mount.dest.clone()));
            }
            steps.push(Step::Mount(mount.clone()));
        }
        let params = (!spec.params.is_empty()).then(|| json!(spec.params).to_string());
        steps.extend(params.iter().map(|_| Step::GiveAt(Given::Params, PARAMS.into())));
        let mut working_directory = PathBuf::from(WORKBENCH);
        if let Some(cwd) = &spec.execution.cwd {
            // An absolute path replaces the workspace, a relative one is below it.
            working_directory.push(cwd.as_os_str());
        }
        let workspace_required = spec.files.workspace_required;
        Self {
            files,
            steps,
            rootfs,
            params,
            patches: shown::patches(spec),
            project,
            repository,
            workspace_required,
            working_directory,
        }
    }
}

/// Whether a spec's user is the box's root, by name or number.
fn is_root(user: &str) -> bool {
    user == "root" || user.parse() == Ok(0)
}

/// The environment every entrypoint starts from, before the spec's own variables.
#[must_use]
pub(crate) fn base_environment(
    id: BoxId,
    name: &BoxName,
    account: &Account,
    has_params: bool,
) -> Vec<(String, String)> {
    let params =
        has_params.then(|| ("MINIMAL_PARAMS_FILE".to_owned(), format!("{PARAMS}/{PARAMS_NAME}")));
    [
        ("HOME", account.home.as_str()),
        ("LANG", "C.UTF-8"),
        ("LOGNAME", &account.name),
        ("MINIMAL_BOX_ID", &id.to_string()),
        ("MINIMAL_BOX_NAME", name.as_str()),
        ("PATH", PATH),
        ("SHELL", "/bin/sh"),
        ("USER", &account.name),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into_iter()
    .chain(params)
    .collect()
}

#[cfg(test)]
mod tests {
    use minimal_proto::spec::Repository;

    use super::*;

    fn plan(change: impl FnOnce(&mut Spec)) -> Plan {
        let mut spec = Spec::task(vec!["true".into()]);
        change(&mut spec);
        Plan::for_spec(&spec, &"web".parse().unwrap())
    }

    #[test]
    fn privileges_go_last_and_the_root_is_entered_before_them() {
        let steps = blank(Network::Own);
        assert_eq!(steps.last(), Some(&Step::DropPrivileges));
        let at = |wanted: &Step| steps.iter().position(|step| step == wanted).unwrap();
        assert!(at(&Step::Processes("proc")) < at(&Step::EnterRoot));
        assert_eq!(steps[0], Step::CutOffMounts, "nothing we mount may reach the host");
    }

    #[test]
    fn nothing_is_shared_that_a_box_could_write_to() {
        let steps = shared_root();
        assert_eq!(steps.last(), Some(&Step::SealRoot));
        assert!(!steps.iter().any(|step| matches!(step, Step::Give(..))));
        // Of the host it has nothing but what is named.
        assert!(!steps.contains(&Step::HostDirectory("etc")));
    }

    #[test]
    fn every_file_that_is_written_is_there() {
        let held = |path| blank(Network::Makers).contains(&Step::FileHeld(path));
        assert!(plan(|_| {}).files.iter().all(|(path, _)| held(path)));
    }

    #[test]
    fn the_project_is_given_in_the_way_that_was_asked_for() {
        let given = |kind| {
            plan(|spec| {
                spec.files.project_root = Some("/p".into());
                spec.files.workspace = kind;
            })
        };
        let none = given(Workspace::None);
        assert!(!none.steps.iter().any(|step| matches!(step, Step::Give(..))));
        assert_eq!(none.project, None);
        for kind in [Workspace::Overlay, Workspace::Copy, Workspace::Bind] {
            let plan = given(kind);
            assert!(plan.steps.contains(&Step::Give(Given::Project(kind), "workbench")));
            assert_eq!(plan.project, Some("/p".into()));
        }
    }

    #[test]
    fn a_root_of_its_own_comes_before_all_that_goes_into_it() {
        let of = |written: &str| {
            plan(|spec| {
                spec.files.rootfs = Rootfs::Path(written.into());
                spec.files.project_root = Some("/p".into());
                spec.files.workspace = Workspace::Overlay;
                spec.execution.user = "root".to_owned();
            })
        };
        for (written, meant) in [("/r", "/r"), ("roots/a", "/p/roots/a"), ("~/r", "~/r")] {
            let plan = of(written);
            assert_eq!(plan.rootfs, Some(meant.into()));
            assert_eq!(plan.steps[1], Step::OwnRoot(meant.into()));
            assert!(!plan.steps.contains(&Step::SystemLayers));
        }
    }

    #[test]
    fn a_repository_gets_room_first_and_is_mounted_last() {
        let steps = plan(|spec| {
            spec.files.project_root = Some("/p".into());
            let part = "/r/.git/worktrees/p".into();
            let repository = Repository { directory: "/r/.git".into(), git_dir: part };
            spec.files.repository = Some(repository);
            spec.files.workspace = Workspace::Overlay;
        })
        .steps;
        let kind = Workspace::Overlay;
        let expected = [
            Step::MakeRoom("/r/.git".into()),
            Step::LinkWorkspace("/p".into()),
            Step::Give(Given::Project(kind), "workbench"),
            Step::GiveAt(Given::Repository(kind), "/r/.git".into()),
            Step::GitFile("/r/.git/worktrees/p".into()),
        ];
        assert!(steps.ends_with(&expected), "{steps:?}");
    }

    #[test]
    fn root_has_a_home_and_nobody_else_needs_one() {
        let has = |user: &str| {
            let plan = plan(|spec| spec.execution.user = user.to_owned());
            plan.steps.contains(&Step::Give(Given::RootHome, "root"))
        };
        assert_eq!([has("root"), has("0"), has("box"), has("1000")], [true, true, false, false]);
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
