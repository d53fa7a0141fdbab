//! What has streams: a box, or an exec in it.

use std::fmt;

use minimal_proto::{BoxId, ExecId};

use crate::query::Target;

/// A box, or an exec in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The box.
    pub box_id: BoxId,
    /// The exec in it; none: the box itself.
    pub exec: Option<ExecId>,
}

impl From<BoxId> for Subject {
    fn from(box_id: BoxId) -> Self {
        Self { box_id, exec: None }
    }
}

impl From<(BoxId, ExecId)> for Subject {
    fn from((box_id, exec): (BoxId, ExecId)) -> Self {
        Self { box_id, exec: Some(exec) }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.exec {
            Some(exec) => write!(f, "exec {exec} of box {}", self.box_id),
            None => write!(f, "box {}", self.box_id),
        }
    }
}

impl Subject {
    /// Its path, and what follows.
    pub(crate) fn target(self, rest: &str) -> Target {
        let address = self.box_id.to_string();
        match self.exec {
            Some(exec) => Target::of_exec(&address, &exec.to_string(), rest),
            None => Target::of_box(&address, rest),
        }
    }
}
