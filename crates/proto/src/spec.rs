//! The spec: what a box was created from, complete and frozen.
//!
//! It holds no values of the caller's environment: those travel beside it
//! ([`crate::api::CreateBox::values`]) and are never stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{BoxName, ByteString};

/// A box's spec. JSON: schema `min/v1/spec`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Always `min/v1/spec`.
    pub schema: SpecSchema,
    /// Identity and lifetime.
    #[serde(rename = "box")]
    pub identity: IdentitySection,
    /// What runs.
    pub execution: ExecutionSection,
    /// Streams and the log.
    pub io: IoSection,
    /// What it sees of the host's files.
    pub files: FilesSection,
    /// What it reaches.
    pub network: NetworkSection,
    /// What it may use of the machine.
    #[serde(default)]
    pub machine: MachineSection,
}

/// The one schema there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SpecSchema {
    /// Version 1.
    #[serde(rename = "min/v1/spec")]
    V1,
}

/// Section `box`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IdentitySection {
    /// The name asked for; without one the daemon names the box after its program.
    pub name: Option<BoxName>,
    /// The box's type.
    #[serde(rename = "type")]
    pub box_type: BoxType,
    /// When the box ends.
    pub lifetime: Lifetime,
}

/// Types of boxes. Behaviour reads settings, never this word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BoxType {
    /// A command that runs once.
    Task,
}

/// When a box ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// When its entrypoint returns.
    UntilComplete,
}

/// Section `execution`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ExecutionSection {
    /// Program and arguments, at least one, none with a NUL byte. Never a shell line.
    pub exec: Vec<ByteString>,
    /// Where it starts, in the box. Absent: the workspace. Relative: below the workspace.
    pub cwd: Option<ByteString>,
    /// Who runs it: a name that the box's `/etc/passwd` has, or a uid. One that the box has no user
    /// for fails the start.
    #[serde(default = "box_user")]
    pub user: String,
    /// Environment by name.
    pub env: BTreeMap<String, EnvSource>,
    /// Ended with reason `timeout` after this many milliseconds, counted from its start on the
    /// monotonic clock. Absent: never.
    pub timeout_ms: Option<u64>,
    /// How long a stop or timeout waits between TERM and KILL, in milliseconds.
    pub stop_grace_ms: u64,
}

/// Default of [`ExecutionSection::user`].
pub const DEFAULT_USER: &str = "box";

fn box_user() -> String {
    DEFAULT_USER.to_owned()
}

/// Where a variable's value comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EnvSource {
    /// The value, which is not a secret: it is stored.
    Value(ByteString),
    /// Given at start, in memory only.
    Given,
}

/// Section `io`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct IoSection {
    /// Bytes of output kept; past it the oldest go, except the first MiB.
    pub log_max: u64,
}

/// Section `files`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FilesSection {
    /// What is at `/workbench`.
    pub workspace: Workspace,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Workspace {
    /// An empty directory of its own.
    None,
    /// The project, with the box's changes in a layer of its own: nothing on the host changes.
    Overlay,
    /// A copy of the project as it was at the start: nothing on the host changes, and no later
    /// change on the host shows.
    Copy,
    /// The project itself, read-write.
    Bind,
}

/// Section `network`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NetworkSection {
    /// How the box is connected.
    pub mode: NetworkMode,
}

/// How a box is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NetworkMode {
    /// A network of its own with loopback only.
    None,
    /// The host's network, as the caller has it: its addresses, its ports, its loopback.
    HostIp,
}

impl NetworkMode {
    /// The word of spec and record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::HostIp => "host_ip",
        }
    }
}

/// Section `machine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MachineSection {
    /// Bytes of memory, swap included.
    pub ram: Limit,
    /// Processes and threads at a time.
    pub pids: Limit,
}

/// A limit, and whether the box may run without it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    /// The most there may be.
    pub max: Max,
    /// A host that cannot enforce it does not start the box. Else the record names it as missing.
    pub required: bool,
}

/// How much a limit allows. JSON: a number, or `"auto"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "MaxJson", into = "MaxJson")]
pub enum Max {
    /// What keeps the host alive, by its size; the record says how much that was.
    #[default]
    Auto,
    /// This much.
    At(u64),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum MaxJson {
    Number(u64),
    Word(MaxWord),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MaxWord {
    Auto,
}

impl From<MaxJson> for Max {
    fn from(json: MaxJson) -> Self {
        match json {
            MaxJson::Number(number) => Self::At(number),
            MaxJson::Word(MaxWord::Auto) => Self::Auto,
        }
    }
}

impl From<Max> for MaxJson {
    fn from(max: Max) -> Self {
        match max {
            Max::At(number) => Self::Number(number),
            Max::Auto => Self::Word(MaxWord::Auto),
        }
    }
}

/// The least [`MachineSection::ram`]: what is ours in a box takes up to 2 MiB of it, and what a
/// shell needs is below the rest.
pub const MIN_RAM: u64 = 8 << 20;

/// Default of [`ExecutionSection::stop_grace_ms`].
pub const DEFAULT_STOP_GRACE_MS: u64 = 10_000;
/// Default of [`IoSection::log_max`]: 256 MiB.
pub const DEFAULT_LOG_MAX: u64 = 256 << 20;

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

impl Spec {
    /// A task that runs `exec` with every default.
    #[must_use]
    pub fn task(exec: Vec<ByteString>) -> Self {
        Self {
            schema: SpecSchema::V1,
            identity: IdentitySection {
                name: None,
                box_type: BoxType::Task,
                lifetime: Lifetime::UntilComplete,
            },
            execution: ExecutionSection {
                exec,
                cwd: None,
                user: box_user(),
                env: BTreeMap::new(),
                timeout_ms: None,
                stop_grace_ms: DEFAULT_STOP_GRACE_MS,
            },
            io: IoSection { log_max: DEFAULT_LOG_MAX },
            files: FilesSection {
                workspace: Workspace::None,
                workspace_required: false,
                project_root: None,
                repository: None,
            },
            network: NetworkSection { mode: NetworkMode::None },
            machine: MachineSection::default(),
        }
    }

    /// Checks what the types cannot say. `values` are the names given at start.
    ///
    /// # Errors
    /// What is wrong, naming the key, for `invalid_spec`.
    pub fn check<'a>(
        &self,
        values: impl Iterator<Item = (&'a String, &'a ByteString)>,
    ) -> Result<(), SpecError> {
        let execution = &self.execution;
        let Some(program) = execution.exec.first() else { return Err(SpecError::NoProgram) };
        if program.as_bytes().is_empty() {
            return Err(SpecError::EmptyProgram);
        }
        let has_nul = |text: &ByteString| text.as_bytes().contains(&0);
        if let Some(index) = execution.exec.iter().position(has_nul) {
            return Err(SpecError::Nul { key: format!("execution.exec[{index}]") });
        }
        if execution.cwd.as_ref().is_some_and(has_nul) {
            return Err(SpecError::Nul { key: "execution.cwd".to_owned() });
        }
        if !is_user(&execution.user) {
            return Err(SpecError::User { user: execution.user.clone() });
        }
        let mut given = std::collections::BTreeSet::new();
        for (name, value) in values {
            if has_nul(value) {
                return Err(SpecError::Nul { key: format!("the value of {name}") });
            }
            if !matches!(execution.env.get(name), Some(EnvSource::Given)) {
                return Err(SpecError::UnusedValue { name: name.clone() });
            }
            given.insert(name.as_str());
        }
        for (name, source) in &execution.env {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(SpecError::EnvName { name: name.clone() });
            }
            match source {
                EnvSource::Given if !given.contains(name.as_str()) => {
                    return Err(SpecError::MissingValue { name: name.clone() });
                }
                EnvSource::Value(value) if has_nul(value) => {
                    return Err(SpecError::Nul { key: format!("execution.env.{name}") });
                }
                EnvSource::Given | EnvSource::Value(_) => {}
            }
        }
        if execution.timeout_ms == Some(0) {
            return Err(SpecError::ZeroTimeout);
        }
        let needs_project = match self.files.workspace {
            Workspace::None => false,
            Workspace::Overlay | Workspace::Copy | Workspace::Bind => true,
        };
        if needs_project && self.files.project_root.is_none() {
            return Err(SpecError::NoProject);
        }
        let is_path = |path: &ByteString| !has_nul(path) && path.as_bytes().first() == Some(&b'/');
        if !self.files.project_root.as_ref().is_none_or(is_path) {
            return Err(SpecError::ProjectRoot);
        }
        let is_repository = |it: &Repository| is_path(&it.directory) && is_path(&it.git_dir);
        if !self.files.repository.as_ref().is_none_or(is_repository) {
            return Err(SpecError::Repository);
        }
        if self.files.repository.is_some() && !needs_project {
            return Err(SpecError::LoneRepository);
        }
        match self.machine.ram.max {
            Max::At(bytes) if bytes < MIN_RAM => return Err(SpecError::LittleRam { bytes }),
            Max::At(_) | Max::Auto => {}
        }
        if self.machine.pids.max == Max::At(0) {
            return Err(SpecError::ZeroPids);
        }
        Ok(())
    }
}

/// Whether it can be a user's name (useradd(8) takes up to 32 bytes) or number.
fn is_user(user: &str) -> bool {
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, ':' | '/' | ',');
    (1..=32).contains(&user.len()) && user.chars().all(fits) && !user.starts_with(['-', '+'])
}

/// What is wrong with a spec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No argv.
    #[error("execution.exec is empty: name a program to run")]
    NoProgram,
    /// `""` as program.
    #[error("execution.exec[0] is an empty text: name a program to run")]
    EmptyProgram,
    /// A NUL byte, which no argument, path or variable can hold (execve(2)).
    #[error("{key} holds a NUL byte, which the kernel cannot pass on")]
    Nul {
        /// Where.
        key: String,
    },
    /// Neither a name nor a number.
    #[error("`{user}` is neither a user's name nor a uid (execution.user)")]
    User {
        /// What was given.
        user: String,
    },
    /// A variable's name is empty or has `=` in it.
    #[error("`{name}` cannot be a variable's name")]
    EnvName {
        /// The name.
        name: String,
    },
    /// A variable whose value must be given was not.
    #[error("no value was given for the variable {name}")]
    MissingValue {
        /// The name.
        name: String,
    },
    /// A value was given that no variable asks for.
    #[error("a value was given for {name}, which the spec does not ask for")]
    UnusedValue {
        /// The name.
        name: String,
    },
    /// A timeout of nothing.
    #[error("execution.timeout_ms is zero: leave it out for no timeout")]
    ZeroTimeout,
    /// A workspace that shows a project, without one.
    #[error("files.workspace shows the project, but there is no files.project_root")]
    NoProject,
    /// Not an absolute path.
    #[error("files.project_root is not an absolute path")]
    ProjectRoot,
    /// Not an absolute path.
    #[error("files.repository holds a path that is not absolute")]
    Repository,
    /// A repository without the project it belongs to.
    #[error("files.repository comes with the project, but files.workspace is none")]
    LoneRepository,
    /// Less memory than [`MIN_RAM`].
    #[error("machine.ram is {bytes} bytes: a box needs at least 8MiB to start")]
    LittleRam {
        /// How much.
        bytes: u64,
    },
    /// No process at all.
    #[error("machine.pids is zero: a box has at least one process")]
    ZeroPids,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spec: &Spec) -> Result<(), SpecError> {
        spec.check(BTreeMap::new().iter())
    }

    #[test]
    fn each_wrong_spec_is_told_apart() {
        assert_eq!(check(&Spec::task(vec![])), Err(SpecError::NoProgram));
        assert_eq!(check(&Spec::task(vec!["".into()])), Err(SpecError::EmptyProgram));
        let nul = Spec::task(vec!["a".into(), "b\0c".into()]);
        assert_eq!(check(&nul), Err(SpecError::Nul { key: "execution.exec[1]".into() }));
        for user in ["", "a b", "a:b", "-1", "+x", "a/b", "a,b", "caf\u{e9}", &"x".repeat(33)] {
            let mut wrong = Spec::task(vec!["a".into()]);
            wrong.execution.user = user.to_owned();
            assert_eq!(check(&wrong), Err(SpecError::User { user: user.to_owned() }));
        }
        let mut given = Spec::task(vec!["a".into()]);
        given.execution.env.insert("TOKEN".into(), EnvSource::Given);
        assert_eq!(check(&given), Err(SpecError::MissingValue { name: "TOKEN".into() }));
        let values = BTreeMap::from([("TOKEN".to_owned(), ByteString::from("x"))]);
        assert_eq!(given.check(values.iter()), Ok(()));
        assert_eq!(
            Spec::task(vec!["a".into()]).check(values.iter()),
            Err(SpecError::UnusedValue { name: "TOKEN".into() })
        );
    }

    #[test]
    fn a_limit_is_a_number_or_auto() {
        let mut spec = Spec::task(vec!["a".into()]);
        let mut json = serde_json::to_value(&spec).unwrap();
        let auto = serde_json::json!({"max": "auto", "required": false});
        assert_eq!(json["machine"], serde_json::json!({"ram": auto, "pids": auto}));
        json["machine"] = serde_json::json!({"ram": {"max": 67_108_864, "required": true}});
        spec.machine.ram = Limit { max: Max::At(64 << 20), required: true };
        assert_eq!(serde_json::from_value::<Spec>(json.clone()).unwrap(), spec);
        for wrong in [serde_json::json!("much"), serde_json::json!(-1), serde_json::json!(0.5)] {
            json["machine"]["ram"]["max"] = wrong;
            serde_json::from_value::<Spec>(json.clone()).unwrap_err();
        }
        // A spec of before there were limits.
        json.as_object_mut().unwrap().remove("machine");
        assert_eq!(
            serde_json::from_value::<Spec>(json).unwrap().machine,
            MachineSection::default()
        );
        spec.machine.ram.max = Max::At(4096);
        assert_eq!(check(&spec), Err(SpecError::LittleRam { bytes: 4096 }));
        spec.machine = MachineSection::default();
        spec.machine.pids.max = Max::At(0);
        assert_eq!(check(&spec), Err(SpecError::ZeroPids));
    }

    #[test]
    fn json_round_trips() {
        let spec = Spec::task(vec!["echo".into(), vec![0xff].into()]);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), spec);
    }
}
