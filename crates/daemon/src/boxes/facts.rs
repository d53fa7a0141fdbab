//! What the daemon keeps in memory of a spec.

use minimal_proto::spec::BoxType;
use minimal_proto::{ByteString, Spec};

/// The parts of a spec that listings and decisions need. The spec itself stays on disk.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
    /// The program, for listings and logs; never its arguments. Empty without an entrypoint.
    pub(crate) program: String,
    /// How many arguments it has, for logs.
    pub(crate) arguments: usize,
    /// The box's type.
    pub(crate) box_type: BoxType,
    /// The caller's project.
    pub(crate) project_root: Option<ByteString>,
    /// Milliseconds between TERM and KILL.
    pub(crate) stop_grace_ms: u64,
    /// Whether further commands can be run in it.
    pub(crate) exec_enabled: bool,
    /// Whether a probe tells that it is ready.
    pub(crate) has_probe: bool,
    /// Whether its entrypoint has a terminal.
    pub(crate) tty: bool,
}

impl Facts {
    /// Whether it has an entrypoint: no program's name is empty (`Spec::check`).
    pub(crate) fn has_entrypoint(&self) -> bool {
        !self.program.is_empty()
    }
}

/// The longest program in a record, in characters: the longest path there is (PATH_MAX).
const LONGEST_PROGRAM: usize = 4096;

fn program(word: &ByteString) -> String {
    word.to_lossy().chars().take(LONGEST_PROGRAM).collect()
}

impl From<&Spec> for Facts {
    fn from(spec: &Spec) -> Self {
        let mut exec = spec.execution.exec.iter();
        Self {
            program: exec.next().map(program).unwrap_or_default(),
            arguments: exec.len(),
            box_type: spec.identity.box_type.clone(),
            project_root: spec.files.project_root.clone(),
            stop_grace_ms: spec.execution.stop_grace_ms,
            exec_enabled: spec.io.exec_enabled,
            has_probe: spec.execution.ready.is_some(),
            tty: spec.io.pty_enabled,
        }
    }
}
