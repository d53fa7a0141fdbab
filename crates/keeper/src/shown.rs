//! What a plan shows of the host by its spec's `files.mounts`, and what it copies by `files.patches`.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use minimal_proto::spec::MountMode;
use minimal_proto::{ByteString, Spec, pattern};

/// A file or directory of the host's that is shown to a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Which of the spec's mounts it is.
    pub index: usize,
    /// On the host, as far as it is known: below a home with `~`.
    pub source: PathBuf,
    /// In the box, absolute.
    pub dest: PathBuf,
    /// What the box can do to it.
    pub mode: MountMode,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            MountMode::Ro => "read-only",
            MountMode::Rw => "itself, read-write",
            MountMode::Overlay => "the box keeps its changes in a layer of its own",
        };
        write!(f, "show the host's {} at {}: {mode}", self.source.display(), self.dest.display())
    }
}

/// Files of the host that are copied into a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patched {
    /// On the host, as far as it is known: below a home with `~`. Its last part may be a pattern.
    pub source: PathBuf,
    /// In the box, absolute: where the copy is, or the directory of several.
    pub dest: PathBuf,
}

impl Patched {
    /// Whether it stands for any number of files.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        self.source.file_name().is_some_and(|name| pattern::is_one(name.as_bytes()))
    }
}

impl fmt::Display for Patched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let within = if self.is_pattern() { "into" } else { "to" };
        write!(f, "copy the host's {} {within} {}", self.source.display(), self.dest.display())
    }
}

/// The patches, in order.
pub(crate) fn patches(spec: &Spec) -> Vec<Patched> {
    let patches = spec.files.patches.iter();
    patches
        .map(|patch| Patched {
            source: on_the_host(spec, &patch.source),
            dest: PathBuf::from(patch.dest.as_os_str()),
        })
        .collect()
}

/// Where a path of the spec leads on the host: a relative one is below the project, one with `~` stays
/// as it is.
pub(crate) fn on_the_host(spec: &Spec, written: &ByteString) -> PathBuf {
    let path = |path: &ByteString| PathBuf::from(path.as_os_str());
    if written.as_bytes().starts_with(b"~/") || written.as_bytes() == b"~" {
        return path(written);
    }
    // An absolute path replaces the project's.
    spec.files.project_root.as_ref().map(path).unwrap_or_default().join(written.as_os_str())
}

/// The mounts in the order in which they are made: what is in another comes after it.
pub(crate) fn mounts(spec: &Spec) -> Vec<Shown> {
    let mounts = spec.files.mounts.iter().enumerate();
    let mut mounts: Vec<_> = mounts
        .map(|(index, mount)| Shown {
            index,
            source: on_the_host(spec, &mount.source),
            dest: PathBuf::from(mount.dest.as_os_str()),
            mode: mount.mode,
        })
        .collect();
    mounts.sort_by(|one, other| one.dest.cmp(&other.dest));
    mounts
}

/// Whether one of these mounts, in their order, has its place in another that is the host's own files.
pub(crate) fn is_in_hosts_own(mounts: &[Shown], at: usize) -> bool {
    let dest = &mounts[at].dest;
    let nearest = mounts[..at].iter().rev().find(|it| dest.starts_with(&it.dest));
    nearest.is_some_and(|it| it.mode == MountMode::Rw)
}

#[cfg(test)]
mod tests {
    use minimal_proto::spec::{Mount, Workspace};

    use super::*;
    use crate::plan::{Given, Plan, Step};

    #[test]
    fn a_mount_comes_after_what_it_is_in() {
        let of = |workspace| {
            let mut spec = Spec::task(vec!["true".into()]);
            spec.files.project_root = Some("/p".into());
            spec.files.workspace = workspace;
            let mount = |source: &str, dest: &str| Mount {
                source: source.into(),
                dest: dest.into(),
                mode: MountMode::Ro,
            };
            spec.files.mounts =
                vec![mount("a", "/workbench/x/y"), mount("~/b", "/b"), mount("/c", "/workbench/x")];
            Plan::for_spec(&spec, &"n".parse().unwrap())
        };
        let plan = of(Workspace::Overlay);
        let shown = |source: &str, dest: &str, index| Shown {
            index,
            source: source.into(),
            dest: dest.into(),
            mode: MountMode::Ro,
        };
        let expected = [
            shown("~/b", "/b", 1),
            shown("/c", "/workbench/x", 2),
            shown("/p/a", "/workbench/x/y", 0),
        ];
        assert!(plan.steps.ends_with(&expected.clone().map(Step::Mount)), "{:?}", plan.steps);
        let room = plan.steps.iter().position(|it| *it == Step::MakeRoomFor(expected[0].clone()));
        let given = |step: &Step| matches!(step, Step::Give(Given::Project(_), _));
        assert!(room.is_some() && room < plan.steps.iter().position(given));
        assert!(!plan.steps.contains(&Step::MakeRoomFor(expected[1].clone())), "it is the box's");
        // Nothing is made in the project itself.
        let found = Step::Find("/workbench/x".into());
        assert!(!plan.steps.contains(&found));
        assert!(of(Workspace::Bind).steps.contains(&found));
    }

    #[test]
    fn the_nearest_mount_says_whose_a_place_is() {
        let shown =
            |dest: &str, mode| Shown { index: 0, source: "/s".into(), dest: dest.into(), mode };
        let mounts = [
            shown("/d", MountMode::Rw),
            shown("/d/a", MountMode::Overlay),
            shown("/d/a/b", MountMode::Ro),
            shown("/d/c", MountMode::Ro),
            shown("/e", MountMode::Ro),
        ];
        let own: Vec<_> = (0..mounts.len()).map(|at| is_in_hosts_own(&mounts, at)).collect();
        assert_eq!(own, [false, true, false, true, false]);
    }
}
