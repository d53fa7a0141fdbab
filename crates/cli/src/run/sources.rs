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
    let (home, refused) = (context.home(), Refused::default());
    let mut search = Search { context, project, home, policy: None, refused };
    let mounts = search.mounts(expanded)?;
    let rootfs = search.rootfs(expanded)?;
    search.variables(expanded, values)?;
    match search.policy {
        Some(policy) if !search.refused.told.is_empty() => {
            Err(search.refused.into_failure(&policy))
        }
        Some(_) | None => Ok(Sources { mounts, rootfs }),
    }
}

/// A search for what a box takes.
struct Search<'a> {
    context: &'a Context,
    project: Option<&'a Project>,
    home: Option<PathBuf>,
    /// Read when it is needed first.
    policy: Option<UserPolicy>,
    refused: Refused,
}

impl Search<'_> {
    fn mounts(&mut self, expanded: &mut Expanded) -> Result<Vec<HostFile>, Failure> {
        let (mut mounts, mut files) = (Vec::new(), Vec::new());
        let wanted = std::mem::take(&mut expanded.spec.files.mounts);
        for (index, mount) in wanted.into_iter().enumerate() {
            let origin = expanded.origin(&["files", "mounts", &index.to_string()]);
            let found = self.written(&mount.source).and_then(|written| {
                let (real, metadata) = look(&written)?;
                check_kind(&metadata, mount.mode)?;
                Ok((written, real, metadata))
            });
            let (written, real, metadata) =
                found.map_err(|error| cannot(&mount.source, &origin, &error))?;
            check_no_state(self.context, &real).map_err(|why| {
                let failure = cannot(&mount.source, &origin, &io::Error::other(why));
                Failure {
                    code: ErrorCode::Refused,
                    exit: Exit::Fault(ErrorCode::Refused),
                    ..failure
                }
            })?;
            let is_changed = mount.mode == MountMode::Rw;
            match self.judge(&origin, (&written, &real), is_changed)? {
                Verdict::Ignored => {
                    let source = self.policy()?.shown(&written);
                    let words = format!("{source} is left out, as your policy says.");
                    self.context.printer.note(&words);
                    continue;
                }
                Verdict::Allowed => {}
                verdict => self.refuse(&origin, (&written, &real), is_changed, verdict)?,
            }
            files.push(host_file(real, &metadata));
            mounts.push(mount);
        }
        expanded.spec.files.mounts = mounts;
        Ok(files)
    }

    fn rootfs(&mut self, expanded: &Expanded) -> Result<Option<HostFile>, Failure> {
        let Rootfs::Path(path) = &expanded.spec.files.rootfs else { return Ok(None) };
        let origin = expanded.origin(&["files", "rootfs"]);
        let found = self.written(path).and_then(|written| Ok((look(&written)?, written)));
        let ((real, metadata), written) = match found {
            Ok(found) => found,
            // It could be there a moment later, unjudged.
            Err(error) if origin.is_projects() => return Err(cannot(path, &origin, &error)),
            Err(_) => return Ok(None),
        };
        match self.judge(&origin, (&written, &real), false)? {
            Verdict::Allowed => {}
            // There is no box without a root.
            Verdict::Ignored => self.refuse(&origin, (&written, &real), false, Verdict::Denied)?,
            verdict => self.refuse(&origin, (&written, &real), false, verdict)?,
        }
        Ok(Some(host_file(real, &metadata)))
    }

    fn variables(
        &mut self,
        expanded: &mut Expanded,
        values: &BTreeMap<String, ByteString>,
    ) -> Result<(), Failure> {
        let inherited: Vec<String> = expanded.inherits.keys().cloned().collect();
        for name in inherited {
            let origin = expanded.origin(&["execution", "env", &name]);
            // Else nothing of the caller's is taken.
            let is_taken = !values.contains_key(&name) && self.context.env.get(&name).is_some();
            if !is_taken || !origin.is_projects() {
                continue;
            }
            match self.policy()?.of_variable(&name) {
                Verdict::Allowed => {}
                Verdict::Ignored => {
                    let words = format!("Your {name} is left out, as your policy says.");
                    self.context.printer.note(&words);
                    expanded.inherits.remove(&name);
                    expanded.spec.execution.env.remove(&name);
                }
                verdict => self.refused.variable(&origin, name, verdict),
            }
        }
        Ok(())
    }

    /// Whether something may be taken, by whoever wants it.
    fn judge(
        &mut self,
        origin: &Origin,
        (written, real): (&Path, &Path),
        is_changed: bool,
    ) -> Result<Verdict, Failure> {
        if !origin.is_projects() || self.is_own(real) {
            return Ok(Verdict::Allowed);
        }
        Ok(self.policy()?.of_path(written, real, is_changed))
    }

    fn refuse(
        &mut self,
        origin: &Origin,
        paths: (&Path, &Path),
        is_changed: bool,
        verdict: Verdict,
    ) -> Result<(), Failure> {
        let policy = loaded(&mut self.policy, self.context)?;
        self.refused.path(policy, origin, paths, is_changed, verdict);
        Ok(())
    }

    fn policy(&mut self) -> Result<&UserPolicy, Failure> {
        loaded(&mut self.policy, self.context)
    }

    /// What a project has in itself is its own, unless it is one that is not given to boxes.
    fn is_own(&self, real: &Path) -> bool {
        self.project.is_some_and(|project| {
            let state_dir = self.context.paths().map(|paths| paths.state_dir.clone());
            real.starts_with(&project.root)
                && state_dir.is_ok_and(|state_dir| {
                    project.why_not_given(self.home.as_deref(), &state_dir).is_none()
                })
        })
    }

    /// Where a source is, as it is written.
    fn written(&self, source: &ByteString) -> io::Result<PathBuf> {
        written(source, self.project, self.home.as_deref())
    }
}

fn host_file(real: PathBuf, metadata: &Metadata) -> HostFile {
    let file = FileId { device: metadata.dev(), inode: metadata.ino() };
    HostFile { path: real.into_os_string().into(), file: Some(file) }
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
