//! Files that are copied into a box: what a pattern stands for, and which of that may be taken.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minimal_proto::api::PatchFile;
use minimal_proto::pattern;
use minimal_proto::spec::{MountMode, Patch};
use minimal_spec::{Expanded, Origin};

use super::look::{self, cannot, check_kind, host_file};
use super::{Failure, Search};
use crate::user_policy::Verdict;

/// The most names that a pattern can stand for.
const MOST: usize = 10_000;

impl Search<'_> {
    /// Finds what each patch stands for, and takes out of the spec those that the policy ignores.
    pub(super) fn patches(
        &mut self,
        expanded: &mut Expanded,
    ) -> Result<Vec<Vec<PatchFile>>, Failure> {
        let (mut patches, mut files) = (Vec::new(), Vec::new());
        let wanted = std::mem::take(&mut expanded.spec.files.patches);
        for (index, patch) in wanted.into_iter().enumerate() {
            let origin = expanded.origin(&["files", "patches", &index.to_string()]);
            let found = self.written(&patch.source).and_then(|written| {
                let found = match is_pattern(&written) {
                    true => look::within(&written, MOST)?,
                    false => vec![written.clone()],
                };
                Ok((written, found))
            });
            let (written, found) = found.map_err(|error| cannot(&patch.source, &origin, &error))?;
            if found.is_empty() {
                let shown = self.policy()?.shown(&written);
                self.context.printer.note(&format!("{shown} stands for nothing that there is."));
            }
            let mut taken = Vec::new();
            for path in &found {
                taken.extend(self.patched(&patch, &origin, (&written, path))?);
            }
            if taken.is_empty() && !found.is_empty() {
                continue;
            }
            patches.push(patch);
            files.push(taken);
        }
        expanded.spec.files.patches = patches;
        Ok(files)
    }

    /// One of the files that a patch stands for, unless the policy ignores it.
    fn patched(
        &mut self,
        patch: &Patch,
        origin: &Origin,
        (written, path): (&Path, &Path),
    ) -> Result<Option<PatchFile>, Failure> {
        let found = look::look(path).and_then(|(real, metadata)| {
            check_kind(&metadata, MountMode::Ro)?;
            Ok((real, metadata))
        });
        let (real, metadata) = found.map_err(|error| cannot(&patch.source, origin, &error))?;
        self.check_no_state(&patch.source, origin, &real)?;
        match self.judge(origin, (path, &real), false)? {
            Verdict::Ignored => {
                let shown = self.policy()?.shown(path);
                self.context.printer.note(&format!("{shown} is left out, as your policy says."));
                return Ok(None);
            }
            Verdict::Allowed => {}
            // A line about the pattern is about all that it stands for.
            verdict if real == *path => {
                let line = line_of(written, path);
                self.refuse(origin, (&line, &line), false, verdict)?;
            }
            verdict => self.refuse(origin, (path, &real), false, verdict)?,
        }
        let name = path.file_name().unwrap_or_default().to_owned().into();
        Ok(Some(PatchFile { name, file: host_file(real, &metadata) }))
    }
}

fn is_pattern(path: &Path) -> bool {
    path.file_name().is_some_and(|name| pattern::is_one(name.as_bytes()))
}

/// What a line of the policy names for a file that a patch stands for.
fn line_of(written: &Path, path: &Path) -> PathBuf {
    if is_pattern(written) { written.to_owned() } else { path.to_owned() }
}
