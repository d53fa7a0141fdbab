//! Section `machine`: what a box may use of the machine.

use serde::{Deserialize, Serialize};

/// Section `machine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct MachineSection {
    /// Bytes of memory, swap included.
    pub ram: Limit,
    /// Processes and threads at a time.
    pub pids: Limit,
    /// Processor time, in thousandths of a processor: 1500 is one and a half. `auto`: no limit.
    pub cpus: Limit,
    /// Bytes that its own files and layers may take. `auto`: no limit.
    pub disk: Limit,
    /// The processor it needs. Absent: any.
    pub cpu_arch: Option<Arch>,
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
pub(crate) enum MaxJson {
    Number(u64),
    Word(MaxWord),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MaxWord {
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

/// A processor, as `uname -m` calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arch {
    /// 64-bit x86.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
    /// 64-bit RISC-V.
    Riscv64,
}

impl Arch {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Riscv64 => "riscv64",
        }
    }
}
