//! What a box takes from the host besides its project: whether the project's file may, and which files
//! those are.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use minimal_proto::api::{FileId, HostFile};
use minimal_proto::spec::{MountMode, Rootfs};
use minimal_proto::{ByteString, ErrorCode};
use minimal_spec::{Expanded, Origin};
use serde_json::json;

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::project::Project;
use crate::user_policy::{UserPolicy, Verdict};

/// How long a source may take to say what it is.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// What a box is shown of the host's files, as the caller has found it.
#[derive(Debug)]
pub(super) struct Sources {
    /// For each mount of the spec, in order.
    pub(super) mounts: Vec<HostFile>,
    /// The directory that is its root. One that could not be looked at is told of by whoever makes the
    /// box.
    pub(super) rootfs: Option<HostFile>,
}

/// What a project's file asks for and may not have.
#[derive(Debug, Default)]
struct Refused {
    /// Where it is said, and what it is.
    told: Vec<String>,
    denied: bool,
    read: Vec<String>,
    write: Vec<String>,
    variables: Vec<String>,
}

/// Takes out of the spec what the user policy ignores, and finds the sources of its mounts and its root.
/// `values` are the variables that the command line gives.
///
/// # Errors
/// A source cannot be given, or the project's file may not take it.
pub(super) fn find(
    context: &Context,
    project: Option<&Project>,
    expanded: &mut Expanded,
    values: &BTreeMap<String, ByteString>,
) -> Result<Sources, Failure> {
    let home = context.home();
    // What a project has in itself is its own, unless it is one that is not given to boxes.
    let is_own = |real: &Path| {
        project.is_some_and(|project| {
            let state_dir = context.paths().map(|paths| paths.state_dir.clone());
            real.starts_with(&project.root)
                && state_dir.is_ok_and(|state_dir| {
                    project.why_not_given(home.as_deref(), &state_dir).is_none()
                })
        })
    };
    let mut policy = None;
    let mut refused = Refused::default();
    let (mut mounts, mut files) = (Vec::new(), Vec::new());
    for (index, mount) in std::mem::take(&mut expanded.spec.files.mounts).into_iter().enumerate() {
        let origin = expanded.origin(&["files", "mounts", &index.to_string()]);
        let written = written(&mount.source, project, home.as_deref());
        let found = written.and_then(|written| {
            let (real, metadata) = look(&written)?;
            check_kind(&metadata, mount.mode)?;
            Ok((written, real, metadata))
        });
        let (written, real, metadata) =
            found.map_err(|error| cannot(&mount.source, &origin, &error))?;
        check_no_state(context, &real).map_err(|why| {
            let failure = cannot(&mount.source, &origin, &io::Error::other(why));
            Failure { code: ErrorCode::Refused, exit: Exit::Fault(ErrorCode::Refused), ..failure }
        })?;
        if origin.is_projects() && !is_own(&real) {
            let policy = loaded(&mut policy, context)?;
            let is_changed = mount.mode == MountMode::Rw;
            match policy.of_path(&written, &real, is_changed) {
                Verdict::Allowed => {}
                Verdict::Ignored => {
                    let source = policy.shown(&written);
                    context.printer.note(&format!("{source} is left out, as your policy says."));
                    continue;
                }
                verdict => refused.path(policy, &origin, (&written, &real), is_changed, verdict),
            }
        }
        files.push(host_file(real, &metadata));
        mounts.push(mount);
    }
    expanded.spec.files.mounts = mounts;
    let mut rootfs = None;
    if let Rootfs::Path(path) = &expanded.spec.files.rootfs {
        let origin = expanded.origin(&["files", "rootfs"]);
        let found = written(path, project, home.as_deref())
            .and_then(|written| look(&written).map(|(real, metadata)| (written, real, metadata)));
        match found {
            Ok((written, real, metadata)) => {
                if origin.is_projects() && !is_own(&real) {
                    let policy = loaded(&mut policy, context)?;
                    match policy.of_path(&written, &real, false) {
                        Verdict::Allowed => {}
                        // There is no box without a root.
                        Verdict::Ignored => {
                            refused.path(
                                policy,
                                &origin,
                                (&written, &real),
                                false,
                                Verdict::Denied,
                            );
                        }
                        verdict => {
                            refused.path(policy, &origin, (&written, &real), false, verdict);
                        }
                    }
                }
                rootfs = Some(host_file(real, &metadata));
            }
            // It could be there a moment later, unjudged.
            Err(error) if origin.is_projects() => return Err(cannot(path, &origin, &error)),
            Err(_) => {}
        }
    }
    let inherited: Vec<String> = expanded.inherits.keys().cloned().collect();
    for name in inherited {
        let origin = expanded.origin(&["execution", "env", &name]);
        // Else nothing of the caller's is taken.
        let is_taken = !values.contains_key(&name) && context.env.get(&name).is_some();
        if !is_taken || !origin.is_projects() {
            continue;
        }
        let policy = loaded(&mut policy, context)?;
        match policy.of_variable(&name) {
            Verdict::Allowed => {}
            Verdict::Ignored => {
                context.printer.note(&format!("Your {name} is left out, as your policy says."));
                expanded.inherits.remove(&name);
                expanded.spec.execution.env.remove(&name);
            }
            verdict => refused.variable(&origin, name, verdict),
        }
    }
    match policy {
        Some(policy) if !refused.told.is_empty() => Err(refused.into_failure(&policy)),
        Some(_) | None => Ok(Sources { mounts: files, rootfs }),
    }
}

fn host_file(real: PathBuf, metadata: &Metadata) -> HostFile {
    let file = FileId { device: metadata.dev(), inode: metadata.ino() };
    HostFile { path: real.into_os_string().into(), file }
}

fn loaded<'a>(
    policy: &'a mut Option<UserPolicy>,
    context: &Context,
) -> Result<&'a UserPolicy, Failure> {
    if policy.is_none() {
        *policy = Some(UserPolicy::load(context)?);
    }
    Ok(policy.as_ref().expect("it was loaded"))
}

impl Refused {
    fn path(
        &mut self,
        policy: &UserPolicy,
        origin: &Origin,
        (written, real): (&Path, &Path),
        is_changed: bool,
        verdict: Verdict,
    ) {
        let shown = policy.shown(written);
        let leads = match real == written {
            true => String::new(),
            false => format!(" (which is {})", policy.shown(real)),
        };
        let act = if is_changed { "change" } else { "read" };
        self.tell(origin, &format!("{act} {shown}{leads}"), verdict);
        if verdict == Verdict::Unlisted {
            let lines = if is_changed { &mut self.write } else { &mut self.read };
            for path in [written, real] {
                let line = policy.shown(path);
                if policy.of_path(path, path, is_changed) == Verdict::Unlisted
                    && !lines.contains(&line)
                {
                    lines.push(line);
                }
            }
        }
    }

    fn variable(&mut self, origin: &Origin, name: String, verdict: Verdict) {
        self.tell(origin, &format!("take your variable {name}"), verdict);
        if verdict == Verdict::Unlisted {
            self.variables.push(name);
        }
    }

    fn tell(&mut self, origin: &Origin, what: &str, verdict: Verdict) {
        let place = place(origin);
        let denied = if verdict == Verdict::Denied { ", which you deny" } else { "" };
        self.denied |= verdict == Verdict::Denied;
        self.told.push(format!("{place} wants to {what}{denied}"));
    }

    fn into_failure(self, policy: &UserPolicy) -> Failure {
        let message = self.told.join("; ");
        let place = policy.place();
        let failure = Failure::new(ErrorCode::Refused, message)
            .detail("policy", place.as_str())
            .detail("paths", json!({"allow": self.read, "allow_write": self.write}))
            .detail("vars", json!({"allow": self.variables}));
        if self.denied {
            return failure.hint(format!("{place} denies it: change that, or the project's file"));
        }
        let list = |key: &str, of: &[String]| match of.is_empty() {
            true => String::new(),
            false => format!("{key} = {}\n", json!(of)),
        };
        let paths = list("allow", &self.read) + &list("allow_write", &self.write);
        let variables = list("allow", &self.variables);
        let table = |name: &str, lines: String| match lines.is_empty() {
            true => lines,
            false => format!("[{name}]\n{lines}"),
        };
        let snippet = table("paths", paths) + &table("vars", variables);
        failure.hint(format!("if you want that, allow it in {place}:\n{}", snippet.trim_end()))
    }
}

fn place(origin: &Origin) -> String {
    match origin.position() {
        Some((file, line)) => format!("{file}:{line}"),
        None => origin.layer.to_string(),
    }
}

/// A source that cannot be given.
fn cannot(source: &ByteString, origin: &Origin, error: &io::Error) -> Failure {
    let code = match origin.position() {
        Some(_) => ErrorCode::InvalidConfig,
        None => ErrorCode::BadRequest,
    };
    let message = format!("{}: show `{}` to the box: {error}", place(origin), source.to_lossy());
    Failure::new(code, message)
        .hint("a source is a file or directory of this host that you may read")
}

/// Where a source is, as it is written.
fn written(
    source: &ByteString,
    project: Option<&Project>,
    home: Option<&Path>,
) -> io::Result<PathBuf> {
    let source = Path::new(source.as_os_str());
    if let Ok(below) = source.strip_prefix("~") {
        let none = || io::Error::other("you have no home: HOME is not set");
        return Ok(home.ok_or_else(none)?.join(below));
    }
    if source.is_absolute() {
        return Ok(source.to_owned());
    }
    let none = || io::Error::other("it is relative to the project, and there is none");
    Ok(project.ok_or_else(none)?.root.join(source))
}

/// Where a path leads, and what is there. One on a mount that does not answer is left behind.
fn look(path: &Path) -> io::Result<(PathBuf, Metadata)> {
    let (tell, told) = mpsc::channel();
    let asked = path.to_owned();
    std::thread::spawn(move || {
        let found = asked.canonicalize().and_then(|real| Ok((real.clone(), real.metadata()?)));
        // Who gave up does not hear it.
        tell.send(found).ok();
    });
    let silent = |_| io::Error::other("it does not answer; is it on a dead network mount?");
    told.recv_timeout(LOOK_LIMIT).map_err(silent)?
}

fn check_kind(metadata: &Metadata, mode: MountMode) -> io::Result<()> {
    let kind = metadata.file_type();
    let why = if kind.is_socket() {
        "it is a socket, and a box is shown files and directories only"
    } else if kind.is_fifo() {
        "it is a named pipe, and a box is shown files and directories only"
    } else if kind.is_block_device() || kind.is_char_device() {
        "it is a device, and a box is shown files and directories only"
    } else if kind.is_file() && mode == MountMode::Overlay {
        "it is a file, and only a directory can have a layer over it: use `ro`"
    } else {
        return Ok(());
    };
    Err(io::Error::other(why))
}

/// Whoever has the state of boxes has every box.
fn check_no_state(context: &Context, real: &Path) -> Result<(), &'static str> {
    let Ok(paths) = context.paths() else { return Ok(()) };
    // One that is not there yet is where its parent is.
    let mut state = paths.state_dir.clone();
    if let Some(there) =
        paths.state_dir.ancestors().find_map(|at| at.canonicalize().ok().map(|it| (at, it)))
        && let Ok(rest) = paths.state_dir.strip_prefix(there.0)
    {
        state = if rest.as_os_str().is_empty() { there.1 } else { there.1.join(rest) };
    }
    if state.starts_with(real) {
        Err("the state of every box is in it")
    } else if real.starts_with(&state) {
        Err("it is in the state directory")
    } else {
        Ok(())
    }
}
