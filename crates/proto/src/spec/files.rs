//! Section `files`: what a box sees of the host's files.

use serde::{Deserialize, Serialize};

use crate::ByteString;

/// Section `files`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FilesSection {
    /// Where its system directories come from.
    #[serde(default)]
    pub rootfs: Rootfs,
    /// What is at `/workbench`.
    pub workspace: Workspace,
    /// What a copied workspace leaves out: names of files and directories at any depth, or paths
    /// below the project with a `/` in them; `*` and `?` stand for parts of names.
    #[serde(default)]
    pub workspace_exclude: Vec<String>,
    /// A host that cannot make this workspace does not start the box. Else an overlay that cannot be
    /// laid over the project becomes a copy of it, and the record says so.
    #[serde(default)]
    pub workspace_required: bool,
    /// The caller's project on the host, absolute and without symbolic links; also what `min ls`
    /// filters by.
    pub project_root: Option<ByteString>,
    /// The repository that the project is a worktree or submodule of, where it lies outside the
    /// project.
    #[serde(default)]
    pub repository: Option<Repository>,
    /// Files and directories of the host that the box sees, in order.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Files of the host that are copied into the box before its first life, in order.
    #[serde(default)]
    pub patches: Vec<Patch>,
}

/// Where a box's system directories come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rootfs {
    /// From the host.
    #[default]
    Host,
    /// From this directory of the host: absolute, below the caller's home with `~/`, or relative to
    /// the project.
    Path(ByteString),
}

/// A file or directory of the host that the box sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// On the host: absolute, below the caller's home with `~/`, or relative to the project. The
    /// spec holds it as it was written, so that it is the same for everybody.
    pub source: ByteString,
    /// In the box, absolute.
    pub dest: ByteString,
    /// What the box can do to it.
    pub mode: MountMode,
}

/// What a box can do to what it sees of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum MountMode {
    /// Read it.
    Ro,
    /// Change it on the host.
    Rw,
    /// Change it for itself: nothing on the host changes.
    Overlay,
}

impl MountMode {
    /// The word of the spec.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ro => "ro",
            Self::Rw => "rw",
            Self::Overlay => "overlay",
        }
    }
}

/// Files of the host that are copied into the box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// On the host, as of a mount; in its last part `*` and `?` stand for parts of names.
    pub source: ByteString,
    /// In the box, absolute, and in what is its own: its home, `/tmp`, and `/workbench` unless that is
    /// the real project. With a `*` or `?` in the source it is the directory for what matches.
    pub dest: ByteString,
}

/// A git repository outside the project. The box has it at this same path, in the way in which it
/// has the project at `/workbench`; and where the project is on the host, it has a link to there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Repository {
    /// The directory that is shown: absolute and without symbolic links.
    pub directory: ByteString,
    /// The project's own part: the directory itself, or one below it. Absolute.
    pub git_dir: ByteString,
}

/// What a box has at `/workbench`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Workspace {
    /// An empty directory of its own.
    #[default]
    None,
    /// The project, with the box's changes in a layer of its own: nothing on the host changes.
    Overlay,
    /// A copy of the project as it was at the start: nothing on the host changes, and no later
    /// change on the host shows.
    Copy,
    /// The project itself, read-write.
    Bind,
}

impl Workspace {
    /// The word of the spec and of the record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Overlay => "overlay",
            Self::Copy => "copy",
            Self::Bind => "bind",
        }
    }
}
