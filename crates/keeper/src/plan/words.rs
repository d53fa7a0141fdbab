//! The plan in words.

use std::fmt;

use minimal_proto::spec::Workspace;
use minimal_proto::{BoxName, Spec};

use super::{Contents, Given, PARAMS_NAME, Plan, Step, blank, network, shared_root};

impl fmt::Display for Step {
    #[expect(clippy::too_many_lines, reason = "one line for each step")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyRoot => f.write_str("make an empty root directory in memory"),
            Self::Directory(path) => write!(f, "make the directory /{path}"),
            Self::HostDirectory(path) => write!(f, "show the host's /{path} read-only"),
            Self::PublicCopy(path, _) => {
                write!(f, "copy to /{path} what everybody may read in the host's")
            }
            Self::Accounts(path) => {
                write!(f, "write to /{path} the users and groups that the box knows by name")
            }
            Self::File(path, ..) => write!(f, "write /{path}"),
            Self::FileIfMissing(path, _) => write!(f, "write /{path}, if the host has none"),
            Self::FileHeld(path) => write!(f, "put a file of the box's own over /{path}"),
            Self::Memory(path, options) => write!(f, "mount memory at /{path} ({options})"),
            Self::Device(name) => write!(f, "show the host's device /dev/{name}"),
            Self::Link(target, path) => write!(f, "link /{path} to {target}"),
            Self::SealRoot => f.write_str("make the root and all memory in it read-only"),
            Self::CutOffMounts => f.write_str("cut the box's mounts off from the host's"),
            Self::SharedRoot => f.write_str("take a copy of the root that all boxes share"),
            Self::Terminals(path) => write!(f, "mount terminals of the box's own at /{path}"),
            Self::Processes(path) => {
                write!(f, "mount /{path}, which shows the box's processes only")
            }
            Self::NetworkInSys(path) => {
                write!(f, "show the box's own network in /{path}, read-only, if the kernel allows it")
            }
            Self::SystemLayers => f.write_str(
                "lay layers of the box's own over the root and the host's system directories, where boxes have \
                 more users than one",
            ),
            Self::Give(Given::System(_), path) => {
                write!(f, "lay a layer of the box's own over the host's /{path}")
            }
            Self::Give(Given::Project(kind), path) => {
                write!(f, "show the project at /{path}: {}", in_words(*kind))
            }
            Self::Give(Given::Repository(kind), path) => {
                write!(f, "show the project's repository at /{path}: {}", in_words(*kind))
            }
            Self::GiveAt(Given::Repository(kind), path) => {
                let (path, kind) = (path.display(), in_words(*kind));
                write!(f, "show the project's repository where it is, at {path}: {kind}")
            }
            Self::GiveAt(Given::Params, path) => write!(
                f,
                "write the box's params to {}/{PARAMS_NAME}, for its user alone to read",
                path.display()
            ),
            Self::GiveAt(_, path) => write!(f, "give the box a directory at {}", path.display()),
            Self::OwnRoot(path) => {
                write!(
                    f,
                    "lay a layer of the box's own over {}, and enter it as the root in place of the host's \
                     system, with all that is the box's own",
                    path.display()
                )
            }
            Self::LinkWorkspace(path) => {
                write!(f, "link {} to the workspace, if nothing is there", path.display())
            }
            Self::LinkHome(path) => write!(f, "link {path} to the home"),
            Self::GitFile(path) => {
                write!(f, "say in the workspace that its repository is at {}", path.display())
            }
            Self::MakeRoom(path) => {
                write!(f, "make a directory at {} for something to be there", path.display())
            }
            Self::MakeRoomFor(mount) => {
                write!(f, "make room at {} for something to be there", mount.dest.display())
            }
            Self::Mount(mount) => write!(f, "{mount}"),
            Self::Find(path) => write!(
                f,
                "find {} in the project, which is the host's own and gets no new place for a mount",
                path.display()
            ),
            Self::Give(Given::Mount(_), path) => write!(f, "show something of the host's at /{path}"),
            Self::Give(
                Given::Workbench
                | Given::Home
                | Given::RootHome
                | Given::Tmp
                | Given::Root
                | Given::Params,
                path,
            ) => {
                write!(f, "give the box a directory of its own, kept with its record, at /{path}")
            }
            Self::EnterRoot => f.write_str("enter the root and let go of the host's"),
            Self::HostName(name) => write!(f, "call the host {name}"),
            Self::Loopback => f.write_str("bring up loopback, the only network"),
            Self::DropPrivileges => f.write_str("drop every capability and the means to gain any"),
        }
    }
}

const fn in_words(workspace: Workspace) -> &'static str {
    match workspace {
        Workspace::None => "nothing of it",
        Workspace::Overlay => "the box keeps its changes in a layer of its own",
        Workspace::Copy => "as a copy of the box's own",
        Workspace::Bind => "itself, read-write",
    }
}

/// The plan in words, for `min run --explain`.
#[must_use]
pub fn explain(spec: &Spec, name: &BoxName) -> Vec<String> {
    let plan = Plan::for_spec(spec, name);
    let mut lines: Vec<String> =
        shared_root().iter().map(|step| format!("once, for all boxes: {step}")).collect();
    lines.push(format!(
        "make namespaces of its own: {}",
        network(spec.network.mode).namespaces().join(", ")
    ));
    lines.extend(blank(network(spec.network.mode)).iter().map(ToString::to_string));
    lines.extend(plan.files.iter().map(|(path, contents)| match contents {
        Contents::Text(text) if text.is_empty() => format!("leave its /{path} empty"),
        Contents::Text(_) => format!("write the box's name to its /{path}"),
        Contents::OfHost(host) => format!("write what the host's {host} holds to its /{path}"),
    }));
    lines.extend(plan.patches.iter().map(ToString::to_string));
    lines.extend(plan.steps.iter().map(ToString::to_string));
    if let Some(project) = &plan.project {
        lines.push(format!("the project is {}", project.display()));
    }
    lines.extend(crate::limits::explain(&spec.machine));
    let program = spec.execution.exec.first().map(|program| program.to_lossy()).unwrap_or_default();
    lines.push(format!(
        "as user {}, in {}, execute {program} with {} further arguments",
        spec.execution.user,
        plan.working_directory.display(),
        spec.execution.exec.len().saturating_sub(1),
    ));
    lines
}
