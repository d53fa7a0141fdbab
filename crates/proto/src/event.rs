//! Events: what happened to a box, in order. The record is the fold of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::exec::ExecMode;
use crate::keeper::Enforcement;
use crate::{BoxId, BoxName, ByteString, Ending, ExecId, Timestamp};

/// One line of a box's journal. JSON: `{schema, seq, ts, box, parent, type, data}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// 1 for the first event of a box, then without a gap.
    pub seq: u64,
    /// When it was written, by the wall clock.
    pub ts: Timestamp,
    /// The box.
    pub box_id: BoxId,
    /// The box that made this one; none for now.
    pub parent: Option<BoxId>,
    /// What happened.
    pub data: EventData,
}

/// What happened. The names on the wire are those of [`EventData::type_name`].
#[derive(Clone, Debug, PartialEq)]
pub enum EventData {
    /// The box got its directory.
    Created(Created),
    /// The entrypoint was executed, or a box without one is complete.
    Started(Started),
    /// The entrypoint of a box that lives until it is stopped returned; data is how, as of an ending,
    /// flat.
    EntrypointReturned(Ending),
    /// It was executed again.
    Restarted(Restarted),
    /// The box is ready for others, as its probe says.
    Ready,
    /// Everything in the box stands still.
    Paused,
    /// It goes on.
    Unpaused,
    /// A client began to read, or write, the box's streams.
    Attached(ClientNote),
    /// It left.
    Detached(ClientNote),
    /// Something beside the entrypoint failed.
    Degraded(Degraded),
    /// The name changed.
    Renamed(Renamed),
    /// A stop was asked for.
    StopRequested(StopRequested),
    /// A further command was executed in the box.
    ExecStarted(ExecStarted),
    /// It ended.
    ExecExited(ExecExited),
    /// No further command of this life has events: there were very many. Their records are complete.
    ExecsNotListed(ExecsNotListed),
    /// The box ended after it had started; data is the ending, flat.
    Exited(Ending),
    /// The box never started; data is the ending, flat.
    Failed(Ending),
    /// A further life begins, or is to.
    Resumed(Resumed),
    /// It did not: the box is as it was before `resumed`. Data is how its start failed, as of an
    /// ending, flat.
    ResumeFailed(Ending),
    /// An event of a later version, kept as it was.
    Unknown {
        /// Its type.
        type_name: String,
        /// Its data.
        data: Value,
    },
}

/// Data of `created`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The name it was given.
    pub name: BoxName,
    /// Reaped by the daemon once its ending is known to its creator, or 60 s after it.
    #[serde(default)]
    pub remove: bool,
    /// The idempotency key of the request, if it had one.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    /// SHA-256 (hex) of the request's body without values, to tell a repeat from another request.
    #[serde(default)]
    pub request_digest: Option<String>,
    /// The digest of its spec, as the daemon has it. Absent in journals of earlier builds.
    #[serde(default)]
    pub spec_digest: Option<String>,
    /// The same as the client had it, if it has sent one.
    #[serde(default)]
    pub client_digest: Option<String>,
    /// Where its sources on the host were: what was judged for the first life holds for later ones.
    /// Absent if it has none, and in journals of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sources: Option<Sources>,
}

/// Paths of the host, without symbolic links, that whoever made a box has found for its spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// Of each of `files.mounts`, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<ByteString>,
    /// Of `files.rootfs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rootfs: Option<ByteString>,
}

/// Data of `started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Which life this is; 1 for the first.
    pub life: u32,
    /// The boot this happened in (`/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// The keeper's pid on the host, for people; nothing signals it by this number.
    pub keeper_pid: i32,
    /// What isolation is in force.
    pub enforcement: Enforcement,
}

/// Data of `resumed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// Which life begins; 2 for the first that is resumed.
    pub life: u32,
    /// Where its output begins: bytes from the start of the output.
    pub log_begin: u64,
    /// How the life before ended, without detail.
    pub former: Ending,
}

/// Data of `restarted`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restarted {
    /// How often in this life, this time included.
    pub restarts: u32,
}

/// Data of `attached` and `detached`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClientNote {
    /// Whether it wrote input.
    pub input: bool,
}

/// Data of `degraded`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Degraded {
    /// What failed and why, for people.
    pub cause: String,
}

/// Data of `renamed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Renamed {
    /// The name before.
    pub from: BoxName,
    /// The name now.
    pub to: BoxName,
}

/// Data of `stop_requested`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopRequested {
    /// KILL at once, without TERM.
    pub force: bool,
    /// How long after TERM the rest is killed, in milliseconds.
    pub grace_ms: u64,
}

/// Data of `exec_started`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecStarted {
    /// Which.
    pub exec: ExecId,
    /// Program and arguments; of very long ones the first 4 KiB.
    pub argv: Vec<ByteString>,
    /// Whose it is.
    pub mode: ExecMode,
    /// Who runs it; null: whoever runs the entrypoint.
    #[serde(default)]
    pub user: Option<String>,
    /// Whether its streams are a terminal.
    #[serde(default)]
    pub tty: bool,
}

/// Data of `exec_exited`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecExited {
    /// Which.
    pub exec: ExecId,
    /// How.
    pub ending: Ending,
}

/// Data of `execs_not_listed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecsNotListed {
    /// How many of this life have events.
    pub listed: u64,
}

impl EventData {
    /// The word on the wire.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Created(_) => "created",
            Self::Started(_) => "started",
            Self::EntrypointReturned(_) => "entrypoint_returned",
            Self::Restarted(_) => "restarted",
            Self::Ready => "ready",
            Self::Paused => "paused",
            Self::Unpaused => "unpaused",
            Self::Attached(_) => "attached",
            Self::Detached(_) => "detached",
            Self::Degraded(_) => "degraded",
            Self::Renamed(_) => "renamed",
            Self::StopRequested(_) => "stop_requested",
            Self::ExecStarted(_) => "exec_started",
            Self::ExecExited(_) => "exec_exited",
            Self::ExecsNotListed(_) => "execs_not_listed",
            Self::Exited(_) => "exited",
            Self::Failed(_) => "failed",
            Self::Resumed(_) => "resumed",
            Self::ResumeFailed(_) => "resume_failed",
            Self::Unknown { type_name, .. } => type_name,
        }
    }

    fn to_value(&self) -> Result<Value, serde_json::Error> {
        match self {
            Self::Created(data) => serde_json::to_value(data),
            Self::Started(data) => serde_json::to_value(data),
            Self::Restarted(data) => serde_json::to_value(data),
            Self::Ready | Self::Paused | Self::Unpaused => {
                Ok(Value::Object(serde_json::Map::new()))
            }
            Self::Attached(data) | Self::Detached(data) => serde_json::to_value(data),
            Self::Degraded(data) => serde_json::to_value(data),
            Self::Renamed(data) => serde_json::to_value(data),
            Self::StopRequested(data) => serde_json::to_value(data),
            Self::ExecStarted(data) => serde_json::to_value(data),
            Self::ExecExited(data) => serde_json::to_value(data),
            Self::ExecsNotListed(data) => serde_json::to_value(data),
            Self::Resumed(data) => serde_json::to_value(data),
            Self::EntrypointReturned(ending)
            | Self::Exited(ending)
            | Self::Failed(ending)
            | Self::ResumeFailed(ending) => serde_json::to_value(ending),
            Self::Unknown { data, .. } => Ok(data.clone()),
        }
    }

    /// The event of this type with this data.
    ///
    /// # Errors
    /// The data is not of the type's form.
    pub fn from_parts(type_name: String, data: Value) -> Result<Self, serde_json::Error> {
        Ok(match type_name.as_str() {
            "created" => Self::Created(serde_json::from_value(data)?),
            "started" => Self::Started(serde_json::from_value(data)?),
            "entrypoint_returned" => Self::EntrypointReturned(serde_json::from_value(data)?),
            "restarted" => Self::Restarted(serde_json::from_value(data)?),
            "ready" => Self::Ready,
            "paused" => Self::Paused,
            "unpaused" => Self::Unpaused,
            "attached" => Self::Attached(serde_json::from_value(data)?),
            "detached" => Self::Detached(serde_json::from_value(data)?),
            "degraded" => Self::Degraded(serde_json::from_value(data)?),
            "renamed" => Self::Renamed(serde_json::from_value(data)?),
            "stop_requested" => Self::StopRequested(serde_json::from_value(data)?),
            "exec_started" => Self::ExecStarted(serde_json::from_value(data)?),
            "exec_exited" => Self::ExecExited(serde_json::from_value(data)?),
            "execs_not_listed" => Self::ExecsNotListed(serde_json::from_value(data)?),
            "exited" => Self::Exited(serde_json::from_value(data)?),
            "failed" => Self::Failed(serde_json::from_value(data)?),
            "resumed" => Self::Resumed(serde_json::from_value(data)?),
            "resume_failed" => Self::ResumeFailed(serde_json::from_value(data)?),
            _ => Self::Unknown { type_name, data },
        })
    }
}

/// The JSON form. `type` and `data` stand beside the rest rather than being a tagged enum, so that
/// an event of a later version still reads.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct EventJson {
    schema: String,
    seq: u64,
    ts: Timestamp,
    #[serde(rename = "box")]
    box_id: BoxId,
    #[serde(default)]
    parent: Option<BoxId>,
    #[serde(rename = "type")]
    type_name: String,
    data: Value,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EventJson {
            schema: "min/v1/event".to_owned(),
            seq: self.seq,
            ts: self.ts,
            box_id: self.box_id,
            parent: self.parent,
            type_name: self.data.type_name().to_owned(),
            data: self.data.to_value().map_err(serde::ser::Error::custom)?,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = EventJson::deserialize(deserializer)?;
        Ok(Self {
            seq: json.seq,
            ts: json.ts,
            box_id: json.box_id,
            parent: json.parent,
            data: EventData::from_parts(json.type_name, json.data).map_err(de::Error::custom)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_later_version_survives_a_round_trip() {
        let json = serde_json::json!({
            "schema": "min/v1/event", "seq": 4, "ts": "2026-01-02T03:04:05.000006Z",
            "box": "01909a30-0000-7000-8000-0000deadbeef", "parent": null,
            "type": "port_exposed", "data": {"port": 80},
        });
        let event: Event = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(event.data.type_name(), "port_exposed");
        assert_eq!(serde_json::to_value(&event).unwrap(), json);
    }
}
