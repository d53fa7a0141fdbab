//! The way into a box: a short-lived child of the keeper that enters the box's namespaces and makes
//! the program's process there as the keeper's own child.

use std::io::{self, PipeWriter, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use minimal_linux::exec::Program;
use minimal_linux::fork::{Network, exit_now, fork_sibling};
use minimal_linux::seccomp::Filter;
use minimal_linux::{Child, creds, fds, landlock, limits, namespaces, signals};
use minimal_store::hook::{self, Ahead};
use rustix::thread::CapabilitySet;

use super::entering::{Failure, Report};
use super::identity::capabilities_of;
use crate::assemble::{Assembly, GivenMounts};
use crate::limits::Cgroups;
use crate::plan::Step;
use crate::walls::{self, Wall};

/// Steps of joiner and program, by the number in a report.
pub(super) const STEPS: [&str; 8] = [
    "hide the process that enters the box",
    "enter the box's namespaces",
    "make the program's process",
    "become the user",
    ENTER_DIRECTORY,
    "drop privileges",
    "enter the box's control groups",
    "take the terminal",
];
/// The number of the one of [`STEPS`] in which a process is made.
pub(super) const MAKE_PROCESS: usize = 2;
/// The one of [`STEPS`] that depends on what was asked for.
pub(super) const ENTER_DIRECTORY: &str = "enter the working directory";

/// What to execute, and how.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    /// The program, laid out. None: a box without one is made complete.
    pub(super) program: Option<&'a Program>,
    /// Where it is searched.
    pub(super) path: &'a [u8],
    /// What is done in the box before.
    pub(super) steps: &'a [Step],
    /// Where it starts.
    pub(super) working_directory: &'a Path,
    /// As whom: ids of the box.
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Whose network the box is in.
    pub(super) network: Network,
    /// What it may not ask of the kernel.
    pub(super) filters: &'a [&'a Filter],
    /// Whose the box's system is.
    pub(super) init_id: u32,
    /// How many processes its user may have, where no control group says.
    pub(super) process_limit: Option<u64>,
    /// Whose control groups it is to be in, if whoever is forked for it may not be.
    pub(super) cgroups: Option<&'a Cgroups>,
    /// Whether its streams are a terminal, which it is to control.
    pub(super) terminal: bool,
}

fn step(number: usize) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Step(number, error.raw_os_error().unwrap_or(0))
}

/// The joiner of a box's entrypoint, and in its child that until its exec. Returns only what went
/// wrong; the joiner itself ends here once its child is made.
pub(super) fn begin_the_box(
    init: &Child,
    order: &Order<'_>,
    given: GivenMounts,
    streams: [BorrowedFd<'_>; 3],
    writer: &PipeWriter,
) -> Failure {
    failure((|| {
        let inside = hook::ahead("keeper.birth.inside");
        // Before the first moment in which anything in the box could see us.
        walls::hide().map_err(step(0))?;
        namespaces::join(init, order.network).map_err(step(1))?;
        finish(order, given)?;
        let Some(program) = order.program else {
            write(writer, Report::Furnished);
            exit_now(0)
        };
        make_sibling(writer)?;
        become_user(order)?;
        execute((program, order), streams, (writer, &inside))
    })())
}

/// The same for a further program, in a box in which anybody may be by now.
pub(super) fn enter_the_box(
    init: &Child,
    order: &Order<'_>,
    streams: [BorrowedFd<'_>; 3],
    writer: &PipeWriter,
) -> Failure {
    failure((|| {
        if let Some(cgroups) = order.cgroups {
            // First: from inside there is no way to them.
            cgroups.step_in().map_err(step(6))?;
        }
        let inside = hook::ahead("keeper.exec.inside");
        let [stdin, stdout, stderr] = streams;
        // Nobody could look at them in us, and nobody needs to try. Our copies of what the keeper
        // holds would also hide from others that it has closed its own.
        let mut needed = vec![stdin, stdout, stderr, writer.as_fd(), init.as_fd()];
        needed.extend(inside.fds());
        fds::close_all_except(&needed).map_err(step(0))?;
        walls::hide().map_err(step(0))?;
        namespaces::join(init, order.network).map_err(step(1))?;
        // What entering gave us may have made us visible again; and so may the change of user. Both
        // come before the child is made, which is the first of us that a process of the box can
        // see: it is hidden from its first moment on, and never anybody else's than that user's.
        walls::hide().map_err(step(0))?;
        become_user(order)?;
        // With room for ourselves, who count until the child is made.
        limits::set_for_box(order.process_limit.map(|limit| limit.saturating_add(1)));
        make_sibling(writer)?;
        let program = order.program.ok_or(Failure::Step(MAKE_PROCESS, 0))?;
        execute((program, order), streams, (writer, &inside))
    })())
}

fn failure(outcome: Result<std::convert::Infallible, Failure>) -> Failure {
    match outcome {
        Ok(never) => match never {},
        Err(failure) => failure,
    }
}

/// Makes a child of the keeper's, in which this returns. The joiner says its pid and ends.
fn make_sibling(writer: &PipeWriter) -> Result<(), Failure> {
    if let Some(pid) = fork_sibling().map_err(step(MAKE_PROCESS))? {
        write(writer, Report::Pid(pid));
        exit_now(0);
    }
    Ok(())
}

/// Makes the blank box that of the plan. Nobody else is in it yet.
fn finish(order: &Order<'_>, given: GivenMounts) -> Result<(), Failure> {
    // As its init made the rest. The change made us visible again.
    creds::make_files_as(order.init_id, order.init_id)
        .and_then(|()| walls::hide())
        .map_err(step(1))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let mut assembly = Assembly::entered(given).map_err(step(1))?;
    for (number, step) in order.steps.iter().enumerate() {
        assembly
            .take(step)
            .map_err(|error| Failure::Plan(number, error.raw_os_error().unwrap_or(0)))?;
    }
    Ok(())
}

fn become_user(order: &Order<'_>) -> Result<(), Failure> {
    walls::give_up_groups()
        .and_then(|_kept| creds::become_user(order.uid, order.gid))
        // The change of user made us visible again.
        .and_then(|_done| walls::hide())
        .map_err(step(3))
}

/// From the child's first moment to its exec. Returns only what went wrong.
fn execute(
    (program, order): (&Program, &Order<'_>),
    streams: [BorrowedFd<'_>; 3],
    (writer, inside): (&PipeWriter, &Ahead),
) -> Result<std::convert::Infallible, Failure> {
    // Its own session and group: a signal for it reaches it and its children, and nobody else.
    rustix::process::setsid().map_err(|error| step(3)(error.into()))?;
    if order.terminal {
        // Of a session without one, by its leader: it becomes that of both, and we its foreground.
        rustix::process::ioctl_tiocsctty(streams[0]).map_err(|error| step(7)(error.into()))?;
    }
    rustix::process::chdir(order.working_directory).map_err(|error| step(4)(error.into()))?;
    let privileges = || -> io::Result<()> {
        for (stream, number) in streams.into_iter().zip(0..) {
            fds::set_standard(stream, number)?;
        }
        walls::close_on_exec()?;
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        limits::set_for_box(order.process_limit);
        let capabilities = capabilities_of(order.uid);
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
    privileges().map_err(step(5))?;
    inside.pass();
    if !write(writer, Report::AboutToExec) {
        // It was given up, or there is no keeper: nothing is executed of which nobody knows.
        exit_now(127);
    }
    Err(Failure::Exec(program.execute(order.path)))
}

/// Says something to the keeper. Whether somebody was there to hear it.
pub(super) fn write(mut writer: &PipeWriter, report: Report) -> bool {
    writer.write_all(&report.encode()).is_ok()
}
