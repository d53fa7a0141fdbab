//! The way into a box: a short-lived child of the keeper that enters the box's namespaces and makes
//! the entrypoint there as the keeper's own child.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use minimal_linux::exec::{ExecFault, Program};
use minimal_linux::fork::{Forked, Network, exit_now, fork, fork_sibling};
use minimal_linux::seccomp::Filter;
use minimal_linux::{Child, creds, fds, landlock, limits, namespaces, signals};
use minimal_proto::ending::StartFault;
use minimal_store::hook;
use rustix::thread::CapabilitySet;

use super::identity::Identity;
use super::{BirthError, at, readable_unless_stopped};
use crate::assemble::{Assembly, GivenMounts};
use crate::plan::Plan;
use crate::walls::{self, Wall};

/// A report of joiner or entrypoint: a tag, a detail, and a number (pid or errno), so small that a
/// write to a pipe is whole (pipe(7), PIPE_BUF).
type Record = [u8; 6];

const ENTRYPOINT_PID: u8 = 1;
const ABOUT_TO_EXEC: u8 = 2;
const STEP_FAILED: u8 = 3;
const EXEC_FAILED: u8 = 4;
const PLAN_FAILED: u8 = 5;

/// Steps of joiner and entrypoint, by the number in a report.
const STEPS: [&str; 6] = [
    "hide the process that enters the box",
    "enter the box's namespaces",
    "make the entrypoint's process",
    "become the user",
    "enter the working directory",
    "drop privileges",
];

/// What to execute, and how.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    /// The program, laid out.
    pub(super) program: &'a Program,
    /// Where it is searched.
    pub(super) path: &'a [u8],
    /// What is done in the box before, and where it starts.
    pub(super) plan: &'a Plan,
    /// As whom.
    pub(super) identity: &'a Identity,
    /// Whose network the box is in.
    pub(super) network: Network,
    /// What it may not ask of the kernel.
    pub(super) filters: &'a [&'a Filter],
    /// Whose the box's system is.
    pub(super) init_id: u32,
    /// How many processes its user may have, where no control group says.
    pub(super) process_limit: Option<u64>,
}

/// Starts a program in the box whose init this is, with these as its descriptors 0, 1 and 2.
pub(super) fn start(
    init: &Child,
    order: &Order<'_>,
    given: GivenMounts,
    streams: [BorrowedFd<'_>; 3],
    limit: Duration,
) -> Result<Child, BirthError> {
    hook::point("keeper.birth.before_exec").map_err(at("enter the box"))?;
    let inside = hook::ahead("keeper.birth.inside");
    let (reader, writer) = io::pipe().map_err(at("make a pipe"))?;
    let mut joiner = match fork().map_err(at("make the process that enters the box"))? {
        Forked::Child => {
            drop(reader);
            let failure = join_and_execute(init, order, given, streams, (&writer, &inside));
            report(&writer, &failure);
            exit_now(127)
        }
        Forked::Parent(child) => child,
    };
    // The last unmount of an overlay writes its file system's pages to disk: not ours to wait for.
    drop((writer, given, inside));
    let outcome = Outcome::read(reader, Instant::now() + limit);
    // A joiner that hangs must not outlive the attempt.
    joiner.signal(minimal_proto::Signal::KILL).ok();
    joiner.reap().map_err(at("wait for the process that entered the box"))?;
    let mut entrypoint = outcome.entrypoint.transpose().map_err(at("watch the entrypoint"))?;
    let failure = match (outcome.failure, &entrypoint) {
        (None, Some(_)) if outcome.about_to_exec => match hook::point("keeper.birth.after_exec") {
            Ok(()) => return Ok(entrypoint.take().expect("it was just there")),
            Err(error) => BirthError::new("execute the program", &error),
        },
        (None, _) => BirthError::new(
            "execute the program",
            &io::Error::other("its process was killed before it could"),
        ),
        (Some(failure), _) => failure.into_error(order),
    };
    if let Some(mut entrypoint) = entrypoint {
        entrypoint.signal(minimal_proto::Signal::KILL).ok();
        entrypoint.reap().ok();
    }
    Err(failure)
}

/// What stopped joiner or entrypoint.
enum Failure {
    Step(usize, i32),
    Plan(usize, i32),
    Exec(ExecFault),
    Stopped,
    Limit,
}

fn step(number: usize) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Step(number, error.raw_os_error().unwrap_or(0))
}

/// The joiner, and in its child the entrypoint until its exec. Returns only what went wrong; the
/// joiner itself ends here once its child is made.
fn join_and_execute(
    init: &Child,
    order: &Order<'_>,
    given: GivenMounts,
    streams: [BorrowedFd<'_>; 3],
    (writer, inside): (&io::PipeWriter, &hook::Ahead),
) -> Failure {
    let attempt = || -> Result<std::convert::Infallible, Failure> {
        // Before the first moment in which anything in the box could see us.
        walls::hide().map_err(step(0))?;
        namespaces::join(init, order.network).map_err(step(1))?;
        finish(order, given)?;
        if let Some(pid) = fork_sibling().map_err(step(2))? {
            let mut record: Record = [ENTRYPOINT_PID, 0, 0, 0, 0, 0];
            record[2..].copy_from_slice(&pid.to_le_bytes());
            write(writer, record);
            exit_now(0);
        }
        become_entrypoint(order, streams)?;
        inside.pass();
        write(writer, [ABOUT_TO_EXEC, 0, 0, 0, 0, 0]);
        Err(Failure::Exec(order.program.execute(order.path)))
    };
    match attempt() {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

/// Makes the blank box that of the plan. Nobody else is in it yet.
fn finish(order: &Order<'_>, given: GivenMounts) -> Result<(), Failure> {
    // As its init made the rest. The change made us visible again.
    creds::make_files_as(order.init_id, order.init_id)
        .and_then(|()| walls::hide())
        .map_err(step(1))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut assembly = Assembly::entered(given).map_err(step(1))?;
    for (number, step) in order.plan.steps.iter().enumerate() {
        assembly
            .take(step)
            .map_err(|error| Failure::Plan(number, error.raw_os_error().unwrap_or(0)))?;
    }
    Ok(())
}

fn become_entrypoint(order: &Order<'_>, streams: [BorrowedFd<'_>; 3]) -> Result<(), Failure> {
    let user = || -> io::Result<()> {
        let account = &order.identity.account;
        walls::give_up_groups()?;
        creds::become_user(account.uid, account.gid)?;
        // The change of user made us visible again.
        walls::hide()?;
        // Its own session and group: a signal for it reaches it and its children, and nobody else.
        rustix::process::setsid()?;
        Ok(())
    };
    user().map_err(step(3))?;
    rustix::process::chdir(&order.plan.working_directory).map_err(|error| step(4)(error.into()))?;
    let privileges = || -> io::Result<()> {
        for (stream, number) in streams.into_iter().zip(0..) {
            fds::set_standard(stream, number)?;
        }
        walls::close_on_exec()?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        limits::set_for_box(order.process_limit);
        let capabilities = order.identity.capabilities();
        signals::reset();
        if Wall::Capabilities.stands() {
            creds::drop_privileges(capabilities, capabilities)?;
        } else {
            creds::drop_privileges(CapabilitySet::all(), CapabilitySet::all())?;
        }
        let reaches_sockets = order.network == Network::Makers && Wall::AbstractSockets.stands();
        if reaches_sockets && landlock::can_scope_sockets() {
            landlock::scope_sockets()?;
        }
        // Last: it forbids much of what was done here. It needs no_new_privs.
        if Wall::SystemCalls.stands() {
            order.filters.iter().try_for_each(|filter| filter.install())
        } else {
            Ok(())
        }
    };
    privileges().map_err(step(5))
}

fn write(mut writer: &io::PipeWriter, record: Record) {
    // Without a keeper there is nobody to tell, and the box ends with it.
    writer.write_all(&record).ok();
}

fn report(writer: &io::PipeWriter, failure: &Failure) {
    let (tag, detail, number) = match *failure {
        Failure::Step(number, errno) => {
            (STEP_FAILED, u8::try_from(number).expect("there are six steps"), errno)
        }
        Failure::Plan(number, errno) => {
            (PLAN_FAILED, u8::try_from(number).unwrap_or(u8::MAX), errno)
        }
        Failure::Exec(fault) => {
            let (detail, errno) = match fault {
                ExecFault::NotFound => (0, 0),
                ExecFault::Directory => (1, 0),
                ExecFault::NoPermission => (2, 0),
                ExecFault::NoInterpreter => (3, 0),
                ExecFault::BadFormat => (4, 0),
                ExecFault::Other(errno) => (5, errno),
            };
            (EXEC_FAILED, detail, errno)
        }
        Failure::Stopped | Failure::Limit => return,
    };
    let mut record: Record = [tag, detail, 0, 0, 0, 0];
    record[2..].copy_from_slice(&number.to_le_bytes());
    write(writer, record);
}

/// Everything the pipe said.
struct Outcome {
    entrypoint: Option<io::Result<Child>>,
    about_to_exec: bool,
    failure: Option<Failure>,
}

impl Outcome {
    /// Reads until the pipe ends: by the exec, which closes it, or by the death of all who hold it.
    fn read(mut reader: io::PipeReader, deadline: Instant) -> Self {
        let mut outcome = Self { entrypoint: None, about_to_exec: false, failure: None };
        let mut record: Record = [0; 6];
        loop {
            // What is in the box may stop it: it is one of its users, and will be one of its processes.
            let entrypoint = outcome.entrypoint.as_ref().and_then(|it| it.as_ref().ok());
            match readable_unless_stopped(reader.as_fd(), entrypoint, deadline) {
                Ok(()) => {}
                Err(error) => {
                    let is_late = error.kind() == io::ErrorKind::TimedOut;
                    outcome.failure = Some(if is_late { Failure::Limit } else { Failure::Stopped });
                    return outcome;
                }
            }
            if reader.read_exact(&mut record).is_err() {
                return outcome;
            }
            let [tag, detail, number @ ..] = record;
            let number = i32::from_le_bytes(number);
            match tag {
                ENTRYPOINT_PID => outcome.entrypoint = Some(Child::adopt(number)),
                ABOUT_TO_EXEC => outcome.about_to_exec = true,
                STEP_FAILED => outcome.failure = Some(Failure::Step(usize::from(detail), number)),
                PLAN_FAILED => outcome.failure = Some(Failure::Plan(usize::from(detail), number)),
                EXEC_FAILED => {
                    outcome.failure = Some(Failure::Exec(match detail {
                        0 => ExecFault::NotFound,
                        1 => ExecFault::Directory,
                        2 => ExecFault::NoPermission,
                        3 => ExecFault::NoInterpreter,
                        4 => ExecFault::BadFormat,
                        _ => ExecFault::Other(number),
                    }));
                }
                _ => {}
            }
        }
    }
}

impl Failure {
    fn into_error(self, order: &Order<'_>) -> BirthError {
        match self {
            Self::Stopped => BirthError::new(
                "execute the program",
                &io::Error::other("its process was stopped by a signal before it could"),
            ),
            Self::Limit => BirthError::new("enter the box", &io::ErrorKind::TimedOut.into()),
            Self::Step(number, errno) => {
                let step = STEPS.get(number).copied().unwrap_or("enter the box");
                let error = answer(errno);
                let mut failed = BirthError::new(step, &error);
                if number == 4 {
                    let cwd = order.plan.working_directory.display();
                    failed.message = format!("cannot {step} {cwd} in the box: {error}");
                }
                failed
            }
            Self::Plan(number, errno) => {
                let step = order.plan.steps.get(number).map(ToString::to_string);
                BirthError::new(step.as_deref().unwrap_or("enter the box"), &answer(errno))
            }
            Self::Exec(fault) => exec_error(fault, &shortened(order.program.name()), order.path),
        }
    }
}

/// The longest name in a message, in characters: more than any file's (255 bytes) is no help.
const LONGEST_NAME: usize = 255;

fn shortened(name: String) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// Zero: it was none of the kernel's answers, and none is told.
fn answer(errno: i32) -> io::Error {
    match errno {
        0 => io::Error::other("the kernel did not say why"),
        errno => io::Error::from_raw_os_error(errno),
    }
}

fn exec_error(fault: ExecFault, name: &str, path: &[u8]) -> BirthError {
    let (counted, errno, why) = match fault {
        ExecFault::NotFound if name.contains('/') => (
            StartFault::NotFound,
            rustix::io::Errno::NOENT.raw_os_error(),
            "there is no such file in the box".to_owned(),
        ),
        ExecFault::NotFound => (
            StartFault::NotFound,
            rustix::io::Errno::NOENT.raw_os_error(),
            format!("no such program on the box's PATH ({})", String::from_utf8_lossy(path)),
        ),
        ExecFault::Directory => (
            StartFault::NotExecutable,
            rustix::io::Errno::ACCESS.raw_os_error(),
            "it is a directory".to_owned(),
        ),
        ExecFault::NoPermission => (
            StartFault::NotExecutable,
            rustix::io::Errno::ACCESS.raw_os_error(),
            "the box's user may not execute it".to_owned(),
        ),
        ExecFault::NoInterpreter => (
            StartFault::NotExecutable,
            rustix::io::Errno::NOENT.raw_os_error(),
            "the interpreter it names is not in the box".to_owned(),
        ),
        ExecFault::BadFormat => (
            StartFault::NotExecutable,
            rustix::io::Errno::NOEXEC.raw_os_error(),
            "it is neither a program of this machine nor a script with a `#!` line".to_owned(),
        ),
        ExecFault::Other(errno) => {
            (StartFault::Other, errno, io::Error::from_raw_os_error(errno).to_string())
        }
    };
    BirthError {
        fault: counted,
        step: "execute the program".to_owned(),
        message: format!("cannot execute `{name}`: {why}"),
        errno: Some(errno),
    }
}
