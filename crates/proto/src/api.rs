//! Bodies of the HTTP API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exec::{ExecCommand, ExecMode};
use crate::keeper::Enforcement;
use crate::spec::Builtin;
use crate::{
    BoxId, BoxName, ByteString, Ending, ExecId, Health, Signal, Spec, State, TerminalSize,
    Timestamp,
};

/// The API's version; a client of another one is told.
pub const API_VERSION: u32 = 1;

/// The header with which a create is made repeatable.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// `POST /v1/boxes`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateBox {
    /// The complete spec.
    pub spec: Spec,
    /// The digest that the client has of it: SHA-256 of its bytes in the form of RFC 8785, base64url
    /// without padding. The daemon has its own, and refuses a box whose two differ.
    #[serde(default)]
    pub digest: Option<String>,
    /// A value for each variable whose source is `given`. In memory only: never stored or logged.
    #[serde(default)]
    pub values: BTreeMap<String, ByteString>,
    /// How to start.
    #[serde(default)]
    pub start: StartOptions,
}

/// How a box is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartOptions {
    /// Whether the entrypoint's stdin takes input; else it is empty from the start.
    #[serde(default)]
    pub input: bool,
    /// Whether the creator reads all output: nothing it has not read is dropped.
    #[serde(default)]
    pub pin: bool,
    /// Whether the daemon reaps the box once the creator knows its ending, or 60 s after it.
    #[serde(default)]
    pub remove: bool,
    /// Which directory the caller means by `files.project_root`: a daemon whose mounts are not the
    /// caller's may find another one under that path, and refuses the start then.
    #[serde(default)]
    pub project: Option<FileId>,
    /// Of a box with a terminal: how large that is at first. Absent: 80 x 24.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// What the sources of `files.mounts` are for the caller, one for each in order. Empty: they are
    /// looked for by whoever makes the box, in the home that the list of users names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<HostFile>,
    /// What each of `files.patches` stands for, in order. Empty: as of mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Vec<PatchFile>>,
    /// The same of the directory that `files.rootfs` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<HostFile>,
}

/// One of the files or directories that a patch copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PatchFile {
    /// What it is called where it was found: its name in the box, if the patch is a pattern.
    pub name: ByteString,
    /// What it is.
    pub file: HostFile,
}

/// A file or directory of the host, as the caller has found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostFile {
    /// Where it is: absolute and without symbolic links.
    pub path: ByteString,
    /// Which one it is: whatever else is found at the path is refused. Absent: whichever is there; in
    /// a further life it may be another than in the first.
    #[serde(default)]
    pub file: Option<FileId>,
}

/// A file of a host, whatever it is called (stat(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileId {
    /// `st_dev`: the file system.
    pub device: u64,
    /// `st_ino`: the file in it.
    pub inode: u64,
}

/// A box, as `GET /v1/boxes/{box}` and `min show -o json` give it. Schema `min/v1/box`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BoxRecord {
    /// Always `min/v1/box`.
    pub schema: String,
    /// The box.
    pub id: BoxId,
    /// Its name; absent for a broken directory.
    pub name: Option<BoxName>,
    /// Its type; absent for a broken directory.
    #[serde(rename = "type")]
    pub box_type: Option<BoxName>,
    /// The built-in type that it is or is derived from; absent for a broken directory, and in
    /// answers of earlier builds.
    #[serde(default)]
    pub root_type: Option<Builtin>,
    /// Where it is in its life; absent for a broken directory.
    pub state: Option<State>,
    /// Whether this can be relied on.
    pub health: Health,
    /// Why `health` is not `ok`.
    pub health_reason: Option<String>,
    /// How it ended; null until then.
    pub ending: Option<Ending>,
    /// The box that made it.
    pub parent: Option<BoxId>,
    /// The caller's project.
    pub project_root: Option<ByteString>,
    /// Who offers the host; `local0`.
    pub provider: String,
    /// The host.
    pub host: String,
    /// When its directory was made.
    pub created_at: Option<Timestamp>,
    /// When its entrypoint was executed.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How many lives it has had.
    pub lives: u32,
    /// Where in its log the output of its present life begins, or of its last: bytes from the start.
    #[serde(default)]
    pub log_begin: u64,
    /// The digest of its spec as the daemon has it; null in records of earlier builds.
    #[serde(default)]
    pub spec_digest: Option<String>,
    /// The same as the client that made it had it; null if it has sent none.
    #[serde(default)]
    pub client_digest: Option<String>,
    /// Always `none` for now.
    pub identity: String,
    /// The program, for listings; never its arguments. Null without an entrypoint.
    pub program: Option<String>,
    /// What its entrypoint does; null unless the box runs, and in answers of earlier builds.
    #[serde(default)]
    pub entrypoint: Option<Entrypoint>,
    /// Whether everything in it stands still.
    #[serde(default)]
    pub paused: bool,
    /// What isolation is in force; null before the start.
    pub enforcement: Option<Enforcement>,
    /// Execs that run now.
    pub execs: Vec<ExecId>,
    /// The log.
    pub log: LogFigures,
    /// What its directory holds, in bytes; null where it was not measured (listings).
    pub disk_bytes: Option<u64>,
}

/// The entrypoint of a box that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Entrypoint {
    /// What it does.
    pub state: EntrypointState,
    /// How it returned, the last time it did; null if it has not.
    pub returned: Option<Ending>,
    /// How often it was started again in this life.
    pub restarts: u32,
    /// Whether the box's probe has found it ready; null without a probe.
    #[serde(default)]
    pub ready: Option<bool>,
}

/// What an entrypoint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum EntrypointState {
    /// It runs.
    Running,
    /// It has returned, and the box lives on until it is stopped.
    Returned,
    /// There is none: the box is a place for execs.
    None,
}

/// `GET /v1/boxes?brief=true`. Schema `min/v1/box-list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BriefList {
    /// Always `min/v1/box-list`.
    pub schema: String,
    /// Newest first.
    pub boxes: Vec<BriefRecord>,
    /// Give it as `after` for the next page; null on the last.
    pub next: Option<BoxId>,
}

/// Sizes of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogFigures {
    /// Output bytes so far, dropped ones included: the log's end offset.
    pub bytes: u64,
    /// Output bytes that are no longer kept.
    pub dropped_bytes: u64,
}

/// What a listing shows of a box: some of its record's fields, under the same names. `GET
/// /v1/boxes?brief=true` gives these, a quarter of the bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BriefRecord {
    /// The box.
    pub id: BoxId,
    /// Its name; absent for a broken directory.
    pub name: Option<BoxName>,
    /// Its type; absent for a broken directory.
    #[serde(rename = "type")]
    pub box_type: Option<BoxName>,
    /// Where it is in its life; absent for a broken directory.
    pub state: Option<State>,
    /// Whether this can be relied on.
    pub health: Health,
    /// How it ended, without detail; null until then.
    pub ending: Option<Ending>,
    /// The host.
    pub host: String,
    /// When its directory was made.
    pub created_at: Option<Timestamp>,
}

impl From<BoxRecord> for BriefRecord {
    fn from(record: BoxRecord) -> Self {
        Self {
            id: record.id,
            name: record.name,
            box_type: record.box_type,
            state: record.state,
            health: record.health,
            ending: record.ending.map(Ending::without_detail),
            host: record.host,
            created_at: record.created_at,
        }
    }
}

/// `GET /v1/boxes`. Schema `min/v1/box-list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BoxList {
    /// Always `min/v1/box-list`.
    pub schema: String,
    /// Newest first.
    pub boxes: Vec<BoxRecord>,
    /// Give it as `after` for the next page; null on the last.
    pub next: Option<BoxId>,
}

/// `POST /v1/boxes/{box}/resume`: a further life of a box that has ended, from its stored spec and its
/// kept files. Answers with its record once it runs. A start that fails leaves the box as it was, and is
/// answered with `start_failed`, whose details have `ending`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ResumeBox {
    /// Which life this is to begin: one more than the record's `lives`. That makes the request
    /// repeatable: a box that has had this life is answered for as it is. Absent: the next one; a box
    /// that runs is answered for as it is.
    #[serde(default)]
    pub life: Option<u32>,
    /// A value for each variable whose source is `given`: those of former lives were never stored. In
    /// memory only.
    #[serde(default)]
    pub values: BTreeMap<String, ByteString>,
    /// How to start. Where the sources of `files.mounts` and `files.rootfs` are, is known from the
    /// first life, and `remove` means nothing.
    #[serde(default)]
    pub start: StartOptions,
}

/// `POST /v1/boxes/{box}/stop`. Answers when the box has ended, with its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StopBox {
    /// KILL at once.
    #[serde(default)]
    pub force: bool,
    /// Milliseconds between TERM and KILL; absent: as the spec says.
    #[serde(default)]
    pub grace_ms: Option<u64>,
}

/// `POST /v1/boxes/{box}/signal`: to the entrypoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignalBox {
    /// Which.
    pub signal: Signal,
}

/// `POST /v1/boxes/{box}/execs`: run a command in a running box. Answers with its record, 201, once the
/// program was executed or could not be. Repeatable by [`IDEMPOTENCY_KEY`] for as long as the exec
/// lives, and a minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateExec {
    /// What to run.
    #[serde(flatten)]
    pub command: ExecCommand,
    /// A value for each of `variables`. In memory only: never stored or logged.
    #[serde(default)]
    pub values: BTreeMap<String, ByteString>,
}

/// An exec, as `GET /v1/boxes/{box}/execs/{exec}` and `min exec -d -o json` give it. Schema
/// `min/v1/exec`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecRecord {
    /// Always `min/v1/exec`.
    pub schema: String,
    /// The exec.
    pub id: ExecId,
    /// Its box.
    #[serde(rename = "box")]
    pub box_id: BoxId,
    /// Program and arguments.
    pub argv: Vec<ByteString>,
    /// Whose it is.
    pub mode: ExecMode,
    /// Who runs it; null: whoever runs the entrypoint.
    pub user: Option<String>,
    /// `running` until it has ended; then as for a box.
    pub state: State,
    /// How it ended; null until then.
    pub ending: Option<Ending>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its program was executed; null if it was not, or nobody knows.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Its log.
    pub log: LogFigures,
}

/// `GET /v1/boxes/{box}/execs`. Schema `min/v1/exec-list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecList {
    /// Always `min/v1/exec-list`.
    pub schema: String,
    /// Newest first.
    pub execs: Vec<ExecRecord>,
    /// Give it as `after` for the next page; null on the last.
    pub next: Option<ExecId>,
}

/// `GET /v1/boxes/{box}/execs/{exec}/wait`: how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExecWaitAnswer {
    /// The exec.
    pub id: ExecId,
    /// Its box.
    #[serde(rename = "box")]
    pub box_id: BoxId,
    /// How it ended.
    pub ending: Ending,
}

/// `GET /v1/version`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct VersionInfo {
    /// The product's version.
    pub version: String,
    /// Which build of it: the executable's identity. A client of another build takes over.
    pub build: String,
    /// [`API_VERSION`].
    pub api: u32,
    /// The keeper protocol it speaks.
    pub keeper_protocol: u32,
    /// The daemon's pid, for people.
    pub pid: i32,
}

/// `GET /v1/host`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HostInfo {
    /// The host's name.
    pub host: String,
    /// Its provider.
    pub provider: String,
    /// The daemon.
    pub version: VersionInfo,
    /// Where the state is.
    pub state_dir: ByteString,
    /// Since when the daemon runs.
    pub started_at: Timestamp,
    /// Boxes by state.
    pub boxes: BTreeMap<String, u64>,
    /// What this host can isolate, or why it cannot.
    pub isolation: Isolation,
}

/// Whether this host can isolate boxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Isolation {
    /// It can.
    Available {
        /// `range` (root daemon) or `single` (one user).
        users: String,
    },
    /// It cannot.
    Unavailable {
        /// What was attempted and the kernel's answer.
        reason: String,
    },
}

/// `GET /v1/boxes/{box}/wait`: the box and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WaitAnswer {
    /// The box.
    pub id: BoxId,
    /// How it ended.
    pub ending: Ending,
}

/// Answer of `POST /v1/cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Cancelled {
    /// Whether a start was given up: the request that makes the box then answers with a failed start.
    /// Else there is no such box, or it runs, or it has ended.
    pub cancelled: bool,
}
