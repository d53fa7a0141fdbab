//! What a box takes from the host besides its project: whether the project's file may, and which files
//! those are.

mod asking;
mod look;
mod patches;
mod refused;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use minimal_proto::api::{HostFile, PatchFile};
use minimal_proto::spec::{MountMode, Rootfs};
use minimal_proto::{ByteString, ErrorCode};
use minimal_spec::{Expanded, Origin};

use look::{cannot, check_kind, check_no_state, host_file, look, written};
use refused::Refused;

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::project::Project;
use crate::user_policy::{Thing, UserPolicy, Verdict};

/// What a box is shown of the host's files, as the caller has found it.
#[derive(Debug)]
pub(super) struct Sources {
    /// For each mount of the spec, in order.
    pub(super) mounts: Vec<HostFile>,
    /// For each patch of the spec, in order.
    pub(super) patches: Vec<Vec<PatchFile>>,
    /// The directory that is its root. One that could not be looked at is told of by whoever makes the
    /// box.
    pub(super) rootfs: Option<HostFile>,
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
    let mut search =
        Search { context, project, home, policy: None, refused, answered: BTreeMap::new() };
    let mounts = search.mounts(expanded)?;
    let patches = search.patches(expanded)?;
    let rootfs = search.rootfs(expanded)?;
    search.variables(expanded, values)?;
    match search.policy {
        Some(policy) if !search.refused.told.is_empty() => {
            Err(search.refused.into_failure(&policy))
        }
        Some(_) | None => Ok(Sources { mounts, patches, rootfs }),
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
    /// What was asked, and whether it was allowed.
    answered: BTreeMap<String, bool>,
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
            self.check_no_state(&mount.source, &origin, &real)?;
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
                verdict => {
                    let what = format!("take your variable {name}");
                    let lines = [name];
                    let asked = (Thing::Variable, lines.as_slice());
                    if verdict == Verdict::Unlisted && self.ask(&origin, &what, asked)? {
                        continue;
                    }
                    let [name] = lines;
                    self.refused.variable(&origin, &what, name, verdict);
                }
            }
        }
        Ok(())
    }

    /// Nobody may take what the state of boxes is in.
    fn check_no_state(
        &self,
        source: &ByteString,
        origin: &Origin,
        real: &Path,
    ) -> Result<(), Failure> {
        check_no_state(self.context, real).map_err(|why| {
            let failure = cannot(source, origin, &io::Error::other(why));
            Failure { code: ErrorCode::Refused, exit: Exit::Fault(ErrorCode::Refused), ..failure }
        })
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
        let lines = self.lines_for([paths.0, paths.1], is_changed)?;
        let what = refused::act(self.policy()?, paths, is_changed);
        let thing = if is_changed { Thing::Write } else { Thing::Read };
        if verdict == Verdict::Unlisted && self.ask(origin, &what, (thing, &lines))? {
            return Ok(());
        }
        self.refused.path(origin, &what, (is_changed, lines), verdict);
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

fn loaded<'a>(
    policy: &'a mut Option<UserPolicy>,
    context: &Context,
) -> Result<&'a UserPolicy, Failure> {
    if policy.is_none() {
        *policy = Some(UserPolicy::load(context)?);
    }
    Ok(policy.as_ref().expect("it was loaded"))
}
