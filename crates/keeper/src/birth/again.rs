//! What it takes to execute an entrypoint once more in the box it was born in.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use minimal_linux::Child;
use minimal_proto::ByteString;
use minimal_proto::keeper::Start;
use minimal_proto::spec::RestartPolicy;
use rustix::fs::MemfdFlags;

use super::{BirthError, Entering, WayIn, at};
use crate::limits::Cgroups;

/// An entrypoint that can be executed again.
#[derive(Debug)]
pub(crate) struct Again {
    argv: Vec<ByteString>,
    /// The values it was given, in a file that is nowhere on a disk. Whoever is forked for an exec
    /// closes it first, and so has none of them in its memory.
    values: File,
    /// It writes to the pipes of the run before: what that has left in the box still may.
    outputs: [OwnedFd; 2],
}

impl Again {
    /// What is needed for the entrypoint of this start, if it may ever be executed again. `outputs`
    /// are the ends of its pipes that it writes to.
    pub(super) fn of(start: &Start, outputs: [OwnedFd; 2]) -> io::Result<Option<Self>> {
        let execution = &start.spec.execution;
        if execution.restart.policy == RestartPolicy::Never || execution.exec.is_empty() {
            return Ok(None);
        }
        let mut values =
            File::from(rustix::fs::memfd_create("minimal-values", MemfdFlags::CLOEXEC)?);
        let mut bytes = serde_json::to_vec(&start.values).map_err(io::Error::from)?;
        let written = values.write_all(&bytes);
        bytes.fill(0);
        written?;
        Ok(Some(Self { argv: execution.exec.clone(), values, outputs }))
    }

    /// Sends it on its way into the box whose init this is.
    pub(crate) fn enter(
        &mut self,
        way_in: &WayIn<'_>,
        init: &Child,
        cgroups: &Cgroups,
    ) -> Result<Entering, BirthError> {
        let values = self.values().map_err(at("read the values it was given"))?;
        let null = File::open("/dev/null").map_err(at("open its input"))?;
        let [stdout, stderr] = &self.outputs;
        let streams = [null.as_fd(), stdout.as_fd(), stderr.as_fd()];
        way_in.enter_again(init, cgroups, &self.argv, &values, streams)
    }

    fn values(&mut self) -> io::Result<BTreeMap<String, ByteString>> {
        self.values.rewind()?;
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut self.values, &mut bytes)?;
        let values = serde_json::from_slice(&bytes).map_err(io::Error::from);
        bytes.fill(0);
        values
    }
}
