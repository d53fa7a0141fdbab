//! Birth: from a plan to a running entrypoint.
//!
//! ```text
//! keeper ──clone into new namespaces──▶ init: waits ◀─ maps written, release
//!                                       init: assembles a blank box, reports, waits on its lifeline
//!        ── when there is a spec ─────▶ init: locks its byte of the box's life.lock
//! keeper ──fork──▶ joiner: enters init's namespaces, takes the plan's steps
//!                     └──clone(CLONE_PARENT)──▶ entrypoint ──exec     (the keeper's own child)
//! ```
//!
//! The keeper is the kernel's parent of init and entrypoint, so it reads how both ended itself.

mod again;
mod blank;
mod door;
mod entering;
mod given;
mod identity;
mod init;
mod joiner;
mod mounts;
mod on_host;
mod own_files;
mod params;
mod patches;
mod probing;
mod pty;
mod report;
mod rootfs;
mod system_layers;
mod view;
mod way_in;
mod workspace;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use minimal_linux::Child;
use minimal_linux::creds::GroupsKept;
use minimal_linux::exec::Program;
use minimal_linux::fork::Network;
use minimal_linux::landlock;
use minimal_proto::ending::StartFault;
use minimal_proto::keeper::{Enforcement, Missing, Start};
use minimal_proto::spec::{EnvSource, NetworkMode};
use minimal_proto::{ByteString, TerminalSize};
use minimal_store::{BoxDir, LifeLock, hook};

pub(crate) use again::Again;
pub(crate) use blank::Blank;
pub(crate) use door::Door;
pub(crate) use entering::{Entered, Entering};
use identity::Identity;
use workspace::Meanwhile;

pub(crate) use init::{END_WHEN_EMPTY, HANG_UP_ALL, TERM_ALL};
pub(crate) use own_files::sweep as sweep_blanks;
pub(crate) use pty::resize;
use pty::{Terminal, Terminals};
use system_layers::SystemLayers;
pub(crate) use way_in::WayIn;
pub(crate) use workspace::make_common_maps;

use crate::assemble::GivenMounts;
use crate::control::Connection;
use crate::etc::Account;
use crate::limits::{self, Cgroups, InForce};
use crate::peers::Peers;
use crate::plan::{self, Given, Plan, base_environment};
use crate::policy::Filters;
use crate::shared_root::SharedRoot;
use crate::streams::Ends;

/// How long entering the box and executing the program may take.
const EXEC_LIMIT: Duration = Duration::from_secs(30);

/// A box that runs.
#[derive(Debug)]
pub(crate) struct Newborn<'a> {
    /// The first process of the box's pid namespace.
    pub(crate) init: Child,
    /// Our end of what init waits on: it ends with us.
    pub(crate) lifeline: OwnedFd,
    /// The entrypoint, if it has one.
    pub(crate) entrypoint: Option<Child>,
    /// Our ends of its pipes.
    pub(crate) ends: Ends,
    /// What it takes to execute it again, if that may ever be.
    pub(crate) again: Option<Again>,
    /// How further programs get into it.
    pub(crate) way_in: WayIn<'a>,
    /// What isolation is in force.
    pub(crate) enforcement: Enforcement,
}

/// A birth that failed. Nothing of the box runs any more.
#[derive(Debug)]
pub(crate) struct BirthError {
    /// How it counts.
    pub(crate) fault: StartFault,
    /// What was attempted.
    pub(crate) step: String,
    /// On what, and why it failed.
    pub(crate) message: String,
    /// The kernel's answer.
    pub(crate) errno: Option<i32>,
}

impl BirthError {
    pub(crate) fn new(step: &str, error: &io::Error) -> Self {
        let errno = error.raw_os_error();
        let message = format!("cannot {step}: {error}");
        Self { fault: StartFault::Other, step: step.to_owned(), message, errno }
    }
}

/// Names the step an I/O error belongs to.
fn at(step: &str) -> impl FnOnce(io::Error) -> BirthError + '_ {
    move |error| BirthError::new(step, &error)
}

/// Makes the box and executes its entrypoint, unless the daemon gives that up before.
pub(crate) fn give_birth<'a>(
    start: &Start,
    box_dir: &BoxDir,
    life_lock: &LifeLock,
    cgroups: &mut Cgroups,
    nursery: &'a SharedRoot,
    (blank, peers): (Option<Blank>, &mut Peers),
) -> Result<Newborn<'a>, BirthError> {
    // First: init takes its lock while we do the rest. What was made ahead may have come to harm
    // since, and is then made anew. A further life has directories of its own.
    let network = plan::network(start.spec.network.mode);
    let fits = start.life == 1 && network == Network::Own;
    let ahead = blank.filter(|_| fits).and_then(|mut blank| {
        blank.give_to(box_dir, life_lock).ok()?;
        Some(blank)
    });
    let plan = Plan::for_spec(&start.spec, &start.name);
    let root = rootfs::prepare(&plan, start.options.rootfs.as_ref(), box_dir, nursery.users)?;
    let accounts = root.as_ref().map_or(&nursery.accounts, |root| &root.accounts);
    let identity = Identity::find(&start.spec.execution.user, accounts, nursery.users)?;
    let program = match start.spec.execution.exec.is_empty() {
        true => None,
        false => Some(
            program(start, &identity.account).map_err(at("lay out arguments and environment"))?,
        ),
    };
    let mut meanwhile = Meanwhile { peers, cgroups };
    let mut given =
        given::prepare((&plan, start), &identity, box_dir, nursery.users, &mut meanwhile)?;
    let system = SystemLayers::prepare(&identity, &plan, box_dir, nursery, &mut meanwhile)?;
    given.mounts.extend(system.mounts);
    let own_accounts = root.map(|root| {
        given.mounts.push((Given::Root, root.mount));
        given.missing.extend(root.missing);
        root.accounts
    });
    // After a copy, which may take long and is no part of the box.
    let limits = limits::set(&start.spec.machine, cgroups, &nursery.limits, nursery.users)?;
    let mut blank = match ahead.filter(|blank| blank.await_lock().is_ok()) {
        Some(blank) => blank,
        None => {
            let mut blank = Blank::now(box_dir, network, nursery)?;
            blank.give_to(box_dir, life_lock).map_err(at("tell the box's init whose it is"))?;
            blank.await_lock()?;
            blank
        }
    };
    blank.write_files(&plan).map_err(at("write the box's name in its /etc"))?;
    let terminals = blank.take_terminals()?;
    let size = start.spec.io.pty_enabled.then(|| start.options.terminal.unwrap_or_default());
    let pipes = Pipes::make(size, start.options.input, &terminals, &identity)?;
    let Filters { every, bind } = &nursery.filters;
    let filters = if given.writes { vec![bind, every] } else { vec![every] };
    let order = joiner::Order {
        program: program.as_ref().map(|(program, _)| program),
        path: program.as_ref().map_or(&[], |(_, path)| path.as_slice()),
        steps: &plan.steps,
        working_directory: &plan.working_directory,
        uid: identity.account.uid,
        gid: identity.account.gid,
        network,
        filters: &filters,
        init_id: nursery.users.init_id(),
        process_limit: limits.process_limit,
        // They have it from us, who are in them still.
        cgroups: None,
        terminal: size.is_some(),
    };
    let process_limit = limits.process_limit;
    let again = pipes.again(start).map_err(at("keep what it takes to start it again"))?;
    // The last moment in which nothing of the command has run.
    last_look(peers, life_lock)?;
    let entrypoint = execute(blank.init(), &order, given.mounts, pipes.inner())?;
    let ends = pipes.into_outer();
    let way = (nursery, terminals);
    let (init, lifeline, assembled) = blank.into_parts();
    let left_out = nursery.left_out.iter().cloned().chain(assembled.left_out);
    let left_out = left_out.chain(groups_kept(assembled.groups)).chain(system.left_out);
    let mode = start.spec.network.mode;
    let mut enforcement = enforcement(nursery, &identity, mode, system.install, left_out, limits);
    enforcement.workspace = Some(given.workspace.as_str().to_owned());
    enforcement.missing.extend(given.missing);
    Ok(Newborn {
        init,
        lifeline,
        entrypoint,
        // Nobody writes to those of a box without an entrypoint.
        ends: if program.is_some() { ends } else { Ends::default() },
        again,
        way_in: WayIn::of_box(start, way, own_accounts, given.writes, process_limit),
        enforcement,
    })
}

/// Executes the entrypoint, and waits until it is; or makes a box without one complete.
fn execute(
    init: &Child,
    order: &joiner::Order<'_>,
    given: GivenMounts,
    streams: [std::os::fd::BorrowedFd<'_>; 3],
) -> Result<Option<Child>, BirthError> {
    hook::point("keeper.birth.before_exec").map_err(at("enter the box"))?;
    let deadline = Instant::now() + EXEC_LIMIT;
    let mut entering = Entering::begin_the_box(init, order, given, streams, deadline)?;
    let mut furnished = false;
    let entered = loop {
        let now = Instant::now();
        if let Some(error) = entering.fault(now) {
            break entering.give_up(error);
        }
        match readable_before(entering.as_fd(), entering.due()) {
            Ok(true) if entering.advance() => {
                furnished = order.program.is_none() && entering.has_furnished();
                break entering.finish();
            }
            Ok(_) => {}
            Err(error) => break entering.give_up(at("wait for the program's start")(error)),
        }
    };
    for mut process in entered.leftovers {
        process.reap().map_err(at("wait for the process that entered the box"))?;
    }
    let mut entrypoint = if furnished { None } else { Some(entered.outcome?) };
    if let Err(error) = hook::point("keeper.birth.after_exec") {
        if let Some(entrypoint) = &mut entrypoint {
            entrypoint.signal(minimal_proto::Signal::KILL).ok();
            entrypoint.reap().ok();
        }
        return Err(BirthError::new("execute the program", &error));
    }
    Ok(entrypoint)
}

/// Right before the command: whether the daemon has given the start up, which then never happens;
/// else notes on disk that it may have happened.
fn last_look(peers: &mut Peers, lock: &LifeLock) -> Result<(), BirthError> {
    if peers.connections.iter_mut().any(Connection::asks_for_stop) {
        let why = io::Error::other("the start was given up before that");
        return Err(BirthError::new("execute the program", &why));
    }
    lock.mark_begun()
        .map_err(|error| BirthError::new("note that the program starts", &error.into()))
}

/// What to say of the caller's groups, if a box has them.
fn groups_kept(groups: GroupsKept) -> Option<(String, String)> {
    let why = "a namespace with one user cannot give up the caller's groups";
    (groups == GroupsKept::Yes).then(|| ("supplementary_groups".to_owned(), why.to_owned()))
}

fn enforcement(
    nursery: &SharedRoot,
    identity: &Identity,
    mode: NetworkMode,
    install: &str,
    left_out: impl Iterator<Item = (String, String)>,
    in_force: InForce,
) -> Enforcement {
    let mut missing: Vec<_> = left_out.map(|(what, why)| Missing { what, why }).collect();
    let network = plan::network(mode);
    if network == Network::Makers && !landlock::can_scope_sockets() {
        missing.push(Missing {
            what: "abstract_sockets".to_owned(),
            why:
                "this kernel cannot keep a box on the host's network from the abstract sockets of \
                  others (Landlock of Linux 6.12)"
                    .to_owned(),
        });
    }
    if identity.is_root() && in_force.process_limit.is_some() {
        missing.push(Missing {
            what: "pids".to_owned(),
            why: "it is counted by user, and root of the box may become any".to_owned(),
        });
    }
    missing.extend(in_force.missing);
    Enforcement {
        namespaces: network.namespaces().iter().map(|name| (*name).to_owned()).collect(),
        users: nursery.users.as_str().to_owned(),
        uid_map: nursery.uid_map.iter().map(|it| (it.inside, it.outside, it.count)).collect(),
        network: mode.as_str().to_owned(),
        workspace: None,
        no_new_privs: true,
        seccomp: true,
        capabilities: identity.capability_names(),
        limits: in_force.limits,
        install: install.to_owned(),
        freezer: in_force.freezer,
        missing,
    }
}

/// Lays out the entrypoint, and the path it is searched on.
fn program(start: &Start, account: &Account) -> io::Result<(Program, Vec<u8>)> {
    let execution = &start.spec.execution;
    let mut variables = Vec::new();
    for (name, source) in &execution.env {
        let value = match source {
            EnvSource::Value(value) => value,
            EnvSource::Given => start
                .values
                .get(name)
                .ok_or_else(|| io::Error::other(format!("no value was given for {name}")))?,
        };
        variables.push((name.as_str(), value));
    }
    let has_params = !start.spec.params.is_empty();
    let base = base_environment(start.box_id, &start.name, account, has_params);
    lay_out(&execution.exec, base, variables)
}

/// Lays out what is executed with these variables over the base ones, later over earlier, and the
/// path it is searched on.
fn lay_out<'a>(
    argv: &[ByteString],
    base: Vec<(String, String)>,
    variables: impl IntoIterator<Item = (&'a str, &'a ByteString)>,
) -> io::Result<(Program, Vec<u8>)> {
    let mut environment: std::collections::BTreeMap<Vec<u8>, Vec<u8>> =
        base.into_iter().map(|(name, value)| (name.into_bytes(), value.into_bytes())).collect();
    for (name, value) in variables {
        environment.insert(name.as_bytes().to_vec(), value.as_bytes().to_vec());
    }
    let path = environment.get(b"PATH".as_slice()).cloned().unwrap_or_default();
    let program = Program::new(
        argv.iter().map(ByteString::as_bytes),
        environment.iter().map(|(name, value)| (name.as_slice(), value.as_slice())),
    )?;
    Ok((program, path))
}

/// A program's streams.
enum Pipes {
    /// Three, each with an end to read and one to write.
    Plain(PlainPipes),
    /// One terminal.
    Terminal(Terminal),
}

impl Pipes {
    /// A terminal, of a program that is to have one of this size, or pipes.
    fn make(
        terminal: Option<TerminalSize>,
        input: bool,
        terminals: &Terminals,
        identity: &Identity,
    ) -> Result<Self, BirthError> {
        match terminal {
            Some(size) => {
                let made = terminals.make(size, identity);
                made.map(Self::Terminal).map_err(at("make a terminal"))
            }
            None => PlainPipes::new(input, identity).map(Self::Plain).map_err(at("make pipes")),
        }
    }

    /// What it takes to execute the entrypoint of this start again, if it ever may be.
    fn again(&self, start: &Start) -> io::Result<Option<Again>> {
        match self {
            Self::Plain(pipes) => Again::of(start, pipes.writing_ends()?),
            // A terminal ends with whom it was made for.
            Self::Terminal(_) => Ok(None),
        }
    }

    /// The ends the program gets, as its descriptors 0, 1 and 2.
    fn inner(&self) -> [std::os::fd::BorrowedFd<'_>; 3] {
        match self {
            Self::Plain(pipes) => pipes.inner(),
            Self::Terminal(terminal) => terminal.inner(),
        }
    }

    /// The ends we keep.
    fn into_outer(self) -> Ends {
        match self {
            Self::Plain(pipes) => pipes.into_outer(),
            Self::Terminal(terminal) => terminal.into_outer(),
        }
    }
}

/// Three streams: for each the reading and the writing end.
struct PlainPipes {
    stdin: Option<(OwnedFd, OwnedFd)>,
    null: Option<OwnedFd>,
    stdout: (OwnedFd, OwnedFd),
    stderr: (OwnedFd, OwnedFd),
}

impl PlainPipes {
    fn new(input: bool, identity: &Identity) -> io::Result<Self> {
        let pipe = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            identity.own(read.as_fd())?;
            Ok((read, write))
        };
        let stdin = if input { Some(pipe()?) } else { None };
        let null = match stdin {
            Some(_) => None,
            None => Some(OwnedFd::from(std::fs::File::open("/dev/null")?)),
        };
        Ok(Self { stdin, null, stdout: pipe()?, stderr: pipe()? })
    }

    /// The ends the program gets, as its descriptors 0, 1 and 2.
    fn inner(&self) -> [std::os::fd::BorrowedFd<'_>; 3] {
        let stdin = match (&self.stdin, &self.null) {
            (Some((read, _)), _) => read.as_fd(),
            (None, Some(null)) => null.as_fd(),
            (None, None) => unreachable!("one of the two is made"),
        };
        [stdin, self.stdout.1.as_fd(), self.stderr.1.as_fd()]
    }

    /// The ends a program writes to, once more.
    fn writing_ends(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.stdout.1.try_clone()?, self.stderr.1.try_clone()?])
    }

    /// The ends we keep. The others are closed: a program's end is the end of its output.
    fn into_outer(self) -> Ends {
        Ends {
            stdin: self.stdin.map(|(_, write)| write),
            stdout: Some(self.stdout.0),
            stderr: Some(self.stderr.0),
            terminal: None,
        }
    }
}

/// How long something may seem to hang before it is asked whether a signal has stopped it: longer than
/// a start takes as a rule, and no wait to a person.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Waits until `fd` can be read, the time is over, or whoever writes to it is found stopped.
///
/// # Errors
/// `TimedOut`, that it is stopped, or what poll(2) says.
fn readable_unless_stopped(
    fd: std::os::fd::BorrowedFd<'_>,
    writer: Option<&Child>,
    deadline: Instant,
) -> io::Result<()> {
    loop {
        if readable_before(fd, deadline.min(Instant::now() + LOOK_EVERY))? {
            return Ok(());
        }
        if writer.is_some_and(|writer| writer.is_stopped().unwrap_or(false)) {
            return Err(io::Error::other("a signal has stopped it"));
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

/// Waits until `fd` can be read or the time is over.
fn readable_before(fd: std::os::fd::BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
