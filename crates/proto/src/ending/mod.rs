//! How a box or an exec ended.
//!
//! An ending holds a reason and, for all reasons but `lost` and `start_failed`, what the kernel
//! said: an exit code or a signal, never both and never neither. There is no default and no way to
//! make one up: [`Observed`] comes from `linux`'s wait, or from a wire or disk where a keeper put it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use crate::{Signal, State, Timestamp};

/// What `waitid(2)` said of a process that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// It returned this code.
    Exit(ExitCode),
    /// This signal ended it.
    Signal(TerminatingSignal),
}

/// A code that a process was seen to return. Only made by [`Observed::from_wait`] and by reading
/// an ending that was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitCode(u8);

/// A signal that was seen to end a process, and whether it dumped core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminatingSignal {
    signal: Signal,
    core_dumped: bool,
}

/// The three ways a child can be reported ended by `waitid(2)`: its `si_code` and `si_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// `CLD_EXITED`.
    Exited(u8),
    /// `CLD_KILLED`.
    Killed(Signal),
    /// `CLD_DUMPED`.
    Dumped(Signal),
}

impl TerminatingSignal {
    /// Which.
    #[must_use]
    pub const fn signal(self) -> Signal {
        self.signal
    }
}

impl Observed {
    /// Takes the kernel's word. Called by `linux::wait` and nowhere else; a lint holds that.
    #[must_use]
    pub const fn from_wait(outcome: WaitOutcome) -> Self {
        match outcome {
            WaitOutcome::Exited(code) => Self::Exit(ExitCode(code)),
            WaitOutcome::Killed(signal) => {
                Self::Signal(TerminatingSignal { signal, core_dumped: false })
            }
            WaitOutcome::Dumped(signal) => {
                Self::Signal(TerminatingSignal { signal, core_dumped: true })
            }
        }
    }

    /// What a shell reports for it: the code, or 128 + signal.
    #[must_use]
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Exit(ExitCode(code)) => code,
            Self::Signal(TerminatingSignal { signal, .. }) => {
                // 1 to 64, so the sum fits.
                128 + u8::try_from(signal.number()).expect("a signal number is at most 64")
            }
        }
    }
}

/// Why a box or exec is not running any more (`docs/reference/wire.md`, "Endings").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The entrypoint returned by itself.
    Exit,
    /// A signal that was not part of a stop ended it.
    Signal,
    /// It ran past its timeout and was ended.
    Timeout,
    /// The kernel killed it for memory.
    Oom,
    /// It wrote past its disk limit.
    Disk,
    /// A service that was not ready in time, or used up its restarts.
    NotReady,
    /// A stop was requested, and signalled before the end was seen.
    Stopped,
    /// Its keeper or host is gone and nobody saw the end.
    Lost,
    /// It never started.
    StartFailed,
    /// (exec) Its client left.
    ClientLost,
    /// (exec) Its box ended under it.
    BoxEnded,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::Exit,
        Self::Signal,
        Self::Timeout,
        Self::Oom,
        Self::Disk,
        Self::NotReady,
        Self::Stopped,
        Self::Lost,
        Self::StartFailed,
        Self::ClientLost,
        Self::BoxEnded,
    ];

    /// Whether an ending of this reason carries what the kernel said.
    #[must_use]
    pub const fn is_observed(self) -> bool {
        !matches!(self, Self::Lost | Self::StartFailed)
    }

    /// The state of a box that ended for this reason.
    #[must_use]
    pub const fn state(self) -> State {
        match self {
            Self::Exit
            | Self::Signal
            | Self::Timeout
            | Self::Oom
            | Self::Disk
            | Self::NotReady
            | Self::ClientLost
            | Self::BoxEnded => State::Exited,
            Self::Stopped | Self::Lost => State::Stopped,
            Self::StartFailed => State::Failed,
        }
    }

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Exit => "exit",
            Self::Signal => "signal",
            Self::Timeout => "timeout",
            Self::Oom => "oom",
            Self::Disk => "disk",
            Self::NotReady => "not_ready",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
            Self::StartFailed => "start_failed",
            Self::ClientLost => "client_lost",
            Self::BoxEnded => "box_ended",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Who saw the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Observer {
    /// The box's keeper, from the kernel.
    Keeper,
    /// The daemon, from the absence of a keeper.
    Daemon,
}

/// How a start failed, in the detail of a `start_failed` ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartFault {
    /// No such program on the box's PATH, or at the path given.
    NotFound,
    /// There is such a file, but it cannot be executed: a directory, no permission, a missing
    /// interpreter, an unknown format.
    NotExecutable,
    /// Anything else: a mount, a namespace, a limit.
    Other,
}

/// An ending. See the module's text for what it always and never holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    reason: Reason,
    observed: Option<Observed>,
    at: Timestamp,
    observed_by: Observer,
    detail: Map<String, Value>,
}

impl Ending {
    /// An ending the kernel reported.
    ///
    /// # Panics
    /// If `reason` is one that nobody observes (`lost`, `start_failed`): a bug in the caller.
    #[must_use]
    pub fn observed(reason: Reason, observed: Observed, at: Timestamp) -> Self {
        assert!(reason.is_observed(), "an ending of reason {reason} carries no code");
        Self {
            reason,
            observed: Some(observed),
            at,
            observed_by: Observer::Keeper,
            detail: Map::new(),
        }
    }

    /// The end that nobody saw.
    #[must_use]
    pub fn lost(at: Timestamp, detail: Map<String, Value>) -> Self {
        Self { reason: Reason::Lost, observed: None, at, observed_by: Observer::Daemon, detail }
    }

    /// A start that did not happen. `step` names what was attempted; `errno` is the kernel's
    /// answer where it gave one.
    #[must_use]
    pub fn start_failed(
        fault: StartFault,
        step: &str,
        message: &str,
        errno: Option<i32>,
        at: Timestamp,
        observed_by: Observer,
    ) -> Self {
        let mut detail = Map::new();
        detail.insert("step".into(), step.into());
        detail.insert("message".into(), message.into());
        if let Some(errno) = errno {
            detail.insert("errno".into(), errno.into());
        }
        detail.insert("fault".into(), serde_json::to_value(fault).expect("a word is JSON"));
        Self { reason: Reason::StartFailed, observed: None, at, observed_by, detail }
    }

    /// Adds a fact to the detail.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.detail.insert(key.to_owned(), value.into());
        self
    }

    /// The same without further facts, for listings.
    #[must_use]
    pub fn without_detail(mut self) -> Self {
        self.detail = Map::new();
        self
    }

    /// Why it ended.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The code it returned, if it returned.
    #[must_use]
    pub fn exit_code(&self) -> Option<u8> {
        match self.observed {
            Some(Observed::Exit(ExitCode(code))) => Some(code),
            Some(Observed::Signal(_)) | None => None,
        }
    }

    /// The signal that ended it, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<Signal> {
        match self.observed {
            Some(Observed::Signal(TerminatingSignal { signal, .. })) => Some(signal),
            Some(Observed::Exit(_)) | None => None,
        }
    }

    /// Whether the kernel said that core was dumped.
    #[must_use]
    pub fn core_dumped(&self) -> bool {
        matches!(self.observed, Some(Observed::Signal(TerminatingSignal { core_dumped: true, .. })))
    }

    /// When it was seen.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Who saw it.
    #[must_use]
    pub fn observed_by(&self) -> Observer {
        self.observed_by
    }

    /// Further facts.
    #[must_use]
    pub fn detail(&self) -> &Map<String, Value> {
        &self.detail
    }

    /// How the start failed, for `start_failed`. Detail of an unknown form counts as `Other`.
    #[must_use]
    pub fn start_fault(&self) -> Option<StartFault> {
        (self.reason == Reason::StartFailed).then(|| {
            self.detail
                .get("fault")
                .and_then(|value| serde_json::from_value(value.clone()).ok())
                .unwrap_or(StartFault::Other)
        })
    }

    /// The state of a box with this ending.
    #[must_use]
    pub fn state(&self) -> State {
        self.reason.state()
    }

    /// The status a shell sees from `run`, `exec`, `wait` and `attach`. The reason decides first,
    /// then the code or signal.
    #[must_use]
    pub fn shell_status(&self) -> u8 {
        match (self.reason, self.observed) {
            (Reason::Timeout, _) => 124,
            (Reason::Oom, _) => 137,
            (Reason::Disk | Reason::NotReady | Reason::Lost, _) => 125,
            (Reason::StartFailed, _) => match self.start_fault() {
                Some(StartFault::NotFound) => 127,
                Some(StartFault::NotExecutable) => 126,
                Some(StartFault::Other) | None => 125,
            },
            (
                Reason::Exit
                | Reason::Signal
                | Reason::Stopped
                | Reason::ClientLost
                | Reason::BoxEnded,
                Some(observed),
            ) => observed.shell_status(),
            // Not constructible here and refused when read; unknown is 125, never a success.
            (
                Reason::Exit
                | Reason::Signal
                | Reason::Stopped
                | Reason::ClientLost
                | Reason::BoxEnded,
                None,
            ) => 125,
        }
    }
}

/// The JSON form, with nulls written out.
#[derive(Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(crate) struct EndingJson {
    reason: Reason,
    exit_code: Option<u8>,
    signal: Option<Signal>,
    signal_number: Option<i32>,
    core_dumped: bool,
    at: Timestamp,
    observed_by: Observer,
    #[serde(default)]
    detail: Map<String, Value>,
}

impl Serialize for Ending {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EndingJson {
            reason: self.reason,
            exit_code: self.exit_code(),
            signal: self.signal(),
            signal_number: self.signal().map(Signal::number),
            core_dumped: self.core_dumped(),
            at: self.at,
            observed_by: self.observed_by,
            detail: self.detail.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ending {
    /// Refuses an ending that holds both a code and a signal, or neither where one must be.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = EndingJson::deserialize(deserializer)?;
        let observed = match (json.exit_code, json.signal) {
            (Some(code), None) => Some(Observed::Exit(ExitCode(code))),
            (None, Some(signal)) => {
                Some(Observed::Signal(TerminatingSignal { signal, core_dumped: json.core_dumped }))
            }
            (None, None) => None,
            (Some(_), Some(_)) => {
                return Err(de::Error::custom("an ending has an exit code or a signal, not both"));
            }
        };
        if json.reason.is_observed() != observed.is_some() {
            return Err(de::Error::custom(format_args!(
                "an ending of reason {} {} an exit code or a signal",
                json.reason,
                if json.reason.is_observed() { "needs" } else { "cannot have" },
            )));
        }
        Ok(Self {
            reason: json.reason,
            observed,
            at: json.at,
            observed_by: json.observed_by,
            detail: json.detail,
        })
    }
}

#[cfg(test)]
mod tests;
