//! What it takes to run a further program in a box: the same as for its entrypoint, but for the
//! values that were given to that one alone.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use minimal_linux::Child;
use minimal_linux::exec::Program;
use minimal_linux::fork::Network;
use minimal_linux::seccomp::Filter;
use minimal_proto::exec::{ExecCommand, ExecMode};
use minimal_proto::keeper::Start;
use minimal_proto::spec::EnvSource;
use minimal_proto::{BoxId, BoxName, ByteString};
use std::collections::BTreeMap;

use super::door::Door;
use super::entering::Entering;
use super::identity::Identity;
use super::joiner::Order;
use super::pty::Terminals;
use super::{BirthError, Pipes, at, lay_out, probing};
use crate::etc::{Account, Accounts};
use crate::limits::Cgroups;
use crate::plan::{self, WORKBENCH, base_environment};
use crate::policy::Filters;
use crate::shared_root::SharedRoot;
use crate::streams::Ends;
use crate::users::BOX_USER;

/// How long entering the box and executing the program may take. A process in the box can stop the
/// one that enters (it may be the same user's), so this is what somebody waits at most for that.
const LIMIT: Duration = Duration::from_secs(10);

/// The way into a box that runs.
#[derive(Debug)]
pub(crate) struct WayIn<'a> {
    nursery: &'a SharedRoot,
    terminals: Terminals,
    /// Whom the box knows by name, if its system is not the host's.
    accounts: Option<Accounts>,
    box_id: BoxId,
    name: BoxName,
    /// Who runs the entrypoint.
    user: String,
    /// Where it started, if the spec says.
    cwd: Option<ByteString>,
    /// Whether it has a file of params.
    has_params: bool,
    /// The spec's own variables.
    variables: BTreeMap<String, ByteString>,
    network: Network,
    /// Whether the box can write to something that is the host's.
    writes_to_host: bool,
    process_limit: Option<u64>,
}

impl<'a> WayIn<'a> {
    /// The way into the box of this start.
    pub(super) fn of_box(
        start: &Start,
        (nursery, terminals): (&'a SharedRoot, Terminals),
        accounts: Option<Accounts>,
        writes_to_host: bool,
        process_limit: Option<u64>,
    ) -> Self {
        let execution = &start.spec.execution;
        let own = execution.env.iter().filter_map(|(name, source)| match source {
            EnvSource::Value(value) => Some((name.clone(), value.clone())),
            // Was the entrypoint's alone, and is not kept.
            EnvSource::Given => None,
        });
        Self {
            nursery,
            terminals,
            accounts,
            box_id: start.box_id,
            name: start.name.clone(),
            user: execution.user.clone(),
            cwd: execution.cwd.clone(),
            has_params: !start.spec.params.is_empty(),
            variables: own.collect(),
            network: plan::network(start.spec.network.mode),
            writes_to_host,
            process_limit,
        }
    }

    /// Sends a program on its way into the box whose init this is. Does not wait for it.
    pub(crate) fn enter(
        &self,
        init: &Child,
        (cgroups, door): (&Cgroups, Option<&Door>),
        command: &ExecCommand,
        values: &BTreeMap<String, ByteString>,
    ) -> Result<(Entering, Ends), BirthError> {
        let user = command.user.as_deref().unwrap_or(&self.user);
        let accounts = self.accounts.as_ref().unwrap_or(&self.nursery.accounts);
        let identity = Identity::find(user, accounts, self.nursery.users)?;
        let mut variables: Vec<_> =
            self.variables.iter().map(|(name, value)| (name.as_str(), value)).collect();
        for name in &command.variables {
            let value = values.get(name).ok_or_else(|| {
                let none = std::io::Error::other(format!("no value was given for {name}"));
                at("lay out arguments and environment")(none)
            })?;
            variables.push((name, value));
        }
        let base = self.base_environment(&identity.account);
        let (program, path) = lay_out(&command.argv, base, variables)
            .map_err(at("lay out arguments and environment"))?;
        let mut working_directory = PathBuf::from(WORKBENCH);
        // Each that is absolute replaces what is before it, and one of its own that is relative is
        // below the workspace.
        if let Some(cwd) = command.cwd.as_ref().or(self.cwd.as_ref()) {
            working_directory.push(cwd.as_os_str());
        }
        let size = (command.mode == ExecMode::Tty).then(|| command.terminal.unwrap_or_default());
        let pipes = Pipes::make(size, command.input, &self.terminals, &identity)?;
        let filters = self.filters();
        let order = Order {
            program: Some(&program),
            path: &path,
            uid: identity.account.uid,
            gid: identity.account.gid,
            terminal: size.is_some(),
            ..self.order(&program, &working_directory, &filters)
        };
        let deadline = Instant::now() + LIMIT;
        // Who cannot be let in that way, for whatever reason, gets in without.
        let through = door
            .map(|door| Entering::through(door, &order, pipes.inner(), deadline))
            .and_then(Result::ok);
        let entering = match through {
            Some(entering) => entering,
            None => {
                let order = Order { cgroups: Some(cgroups), ..order };
                Entering::enter_the_box(init, &order, pipes.inner(), deadline)?
            }
        };
        Ok((entering, pipes.into_outer()))
    }

    /// Sends a program on its way in where and as whom its entrypoint runs. Does not wait for it.
    pub(super) fn enter_again(
        &self,
        init: &Child,
        cgroups: &Cgroups,
        argv: &[ByteString],
        values: &BTreeMap<String, ByteString>,
        streams: [BorrowedFd<'_>; 3],
    ) -> Result<Entering, BirthError> {
        let accounts = self.accounts.as_ref().unwrap_or(&self.nursery.accounts);
        let identity = Identity::find(&self.user, accounts, self.nursery.users)?;
        let variables = self.variables.iter().chain(values);
        let base = self.base_environment(&identity.account);
        let variables = variables.map(|(name, value)| (name.as_str(), value));
        let (program, path) =
            lay_out(argv, base, variables).map_err(at("lay out arguments and environment"))?;
        let mut working_directory = PathBuf::from(WORKBENCH);
        if let Some(cwd) = &self.cwd {
            working_directory.push(cwd.as_os_str());
        }
        let filters = self.filters();
        let order = Order {
            path: &path,
            uid: identity.account.uid,
            gid: identity.account.gid,
            cgroups: Some(cgroups),
            ..self.order(&program, &working_directory, &filters)
        };
        Entering::enter_the_box(init, &order, streams, Instant::now() + LIMIT)
    }

    /// Sends a program on its way in that is to find out whether the box is ready. It hears and says
    /// nothing.
    pub(crate) fn probe(
        &self,
        init: &Child,
        cgroups: &Cgroups,
        argv: &[ByteString],
    ) -> Result<Entering, BirthError> {
        let null = std::fs::File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(at("open its streams"))?;
        self.enter_again(init, cgroups, argv, &BTreeMap::new(), [null.as_fd(); 3])
    }

    /// Has a child connect to a port of the box's loopback. It returns 0, or the errno.
    pub(crate) fn connect(&self, init: &Child, port: u16) -> Result<Child, BirthError> {
        probing::connect(init, self.network, port).map_err(at("make the process that connects"))
    }

    fn base_environment(&self, account: &Account) -> Vec<(String, String)> {
        base_environment(self.box_id, &self.name, account, self.has_params)
    }

    /// What its programs may not ask of the kernel.
    pub(super) fn filters(&self) -> Vec<&'a Filter> {
        let Filters { every, bind } = &self.nursery.filters;
        if self.writes_to_host { vec![bind, every] } else { vec![every] }
    }

    /// What all programs that get in have in common.
    pub(super) fn order<'o>(
        &'o self,
        program: &'o Program,
        working_directory: &'o Path,
        filters: &'o [&'o Filter],
    ) -> Order<'o> {
        Order {
            program: Some(program),
            path: &[],
            steps: &[],
            working_directory,
            uid: BOX_USER,
            gid: BOX_USER,
            network: self.network,
            filters,
            init_id: self.nursery.users.init_id(),
            process_limit: self.process_limit,
            cgroups: None,
            terminal: false,
        }
    }
}
