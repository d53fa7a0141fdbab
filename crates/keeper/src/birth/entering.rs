//! A program on its way into a box, as the keeper sees it: what joiner and program report through a
//! pipe that the exec closes.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use minimal_linux::Child;
use minimal_linux::exec::{ExecFault, Program};
use minimal_linux::fork::{Forked, exit_now, fork};
use minimal_proto::Signal;
use minimal_proto::ending::StartFault;

use super::door::Door;
use super::joiner::{self, ENTER_DIRECTORY, Order, STEPS};
use super::{BirthError, at};
use crate::assemble::GivenMounts;

/// A report as it is written: a tag, a detail, and a number (pid or errno), so small that a write to
/// a pipe is whole (pipe(7), PIPE_BUF).
type Record = [u8; RECORD];
const RECORD: usize = 6;

const PID: u8 = 1;
const ABOUT_TO_EXEC: u8 = 2;
const STEP_FAILED: u8 = 3;
const EXEC_FAILED: u8 = 4;
const PLAN_FAILED: u8 = 5;
const JOINER: u8 = 6;
const FURNISHED: u8 = 7;

/// What joiner and program say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The process that enters the box is made, by somebody else than the keeper.
    Joiner(i32),
    /// The program's process is made.
    Pid(i32),
    /// Everything but the exec is done.
    AboutToExec,
    /// The box is complete, and nothing is to be executed.
    Furnished,
    /// Something went wrong, and nothing runs.
    Failed(Failure),
}

/// What stopped joiner or program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// One of [`STEPS`], with an errno.
    Step(usize, i32),
    /// A step of the plan, with an errno.
    Plan(usize, i32),
    /// The exec itself.
    Exec(ExecFault),
}

impl Report {
    pub(super) fn encode(self) -> Record {
        let (tag, detail, number) = match self {
            Self::Joiner(pid) => (JOINER, 0, pid),
            Self::Pid(pid) => (PID, 0, pid),
            Self::AboutToExec => (ABOUT_TO_EXEC, 0, 0),
            Self::Furnished => (FURNISHED, 0, 0),
            Self::Failed(Failure::Step(number, errno)) => {
                (STEP_FAILED, u8::try_from(number).unwrap_or(u8::MAX), errno)
            }
            Self::Failed(Failure::Plan(number, errno)) => {
                (PLAN_FAILED, u8::try_from(number).unwrap_or(u8::MAX), errno)
            }
            Self::Failed(Failure::Exec(fault)) => {
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
        };
        let mut record: Record = [tag, detail, 0, 0, 0, 0];
        record[2..].copy_from_slice(&number.to_le_bytes());
        record
    }

    fn decode(record: Record) -> Option<Self> {
        let [tag, detail, number @ ..] = record;
        let number = i32::from_le_bytes(number);
        Some(match tag {
            JOINER => Self::Joiner(number),
            PID => Self::Pid(number),
            ABOUT_TO_EXEC => Self::AboutToExec,
            FURNISHED => Self::Furnished,
            STEP_FAILED => Self::Failed(Failure::Step(usize::from(detail), number)),
            PLAN_FAILED => Self::Failed(Failure::Plan(usize::from(detail), number)),
            EXEC_FAILED => Self::Failed(Failure::Exec(match detail {
                0 => ExecFault::NotFound,
                1 => ExecFault::Directory,
                2 => ExecFault::NoPermission,
                3 => ExecFault::NoInterpreter,
                4 => ExecFault::BadFormat,
                _ => ExecFault::Other(number),
            })),
            _ => return None,
        })
    }
}

/// How long a start may seem to hang before it is asked whether it was stopped by a signal: longer than
/// one takes as a rule, and no wait to a person.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is said of a program that could not be executed.
#[derive(Debug)]
struct Words {
    program: String,
    path: Vec<u8>,
    working_directory: PathBuf,
    steps: Vec<String>,
}

/// A program on its way in.
#[derive(Debug)]
pub(crate) struct Entering {
    /// The process that enters the box, once it is ours and known.
    joiner: Option<Child>,
    reader: PipeReader,
    /// A record that has not come whole: the kernel keeps records whole, so this is for a pipe that
    /// somebody else writes to.
    part: Vec<u8>,
    /// The program's process, once that is made.
    process: Option<io::Result<Child>>,
    about_to_exec: bool,
    furnished: bool,
    failure: Option<Failure>,
    deadline: Instant,
    /// When to look whether it was stopped.
    look_at: Instant,
    words: Words,
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Entered {
    /// Its process, which has executed the program; or why not.
    pub(crate) outcome: Result<Child, BirthError>,
    /// Processes that have ended, or been killed, and are to be reaped.
    pub(crate) leftovers: Vec<Child>,
}

impl Entering {
    /// Sends the entrypoint on its way into the box whose init this is, with these as its
    /// descriptors 0, 1 and 2.
    pub(super) fn begin_the_box(
        init: &Child,
        order: &Order<'_>,
        given: GivenMounts,
        streams: [BorrowedFd<'_>; 3],
        deadline: Instant,
    ) -> Result<Self, BirthError> {
        Self::fork(order, deadline, |writer| {
            joiner::begin_the_box(init, order, given, streams, writer)
        })
    }

    /// Sends a further program on its way into a box that runs.
    pub(super) fn enter_the_box(
        init: &Child,
        order: &Order<'_>,
        streams: [BorrowedFd<'_>; 3],
        deadline: Instant,
    ) -> Result<Self, BirthError> {
        Self::fork(order, deadline, |writer| joiner::enter_the_box(init, order, streams, writer))
    }

    /// The same, by way of the door.
    ///
    /// # Errors
    /// What [`Door::send`] says.
    pub(super) fn through(
        door: &Door,
        order: &Order<'_>,
        streams: [BorrowedFd<'_>; 3],
        deadline: Instant,
    ) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        door.send(order, streams, writer.as_fd())?;
        Ok(Self::new(None, reader, order, deadline))
    }

    fn fork(
        order: &Order<'_>,
        deadline: Instant,
        join: impl FnOnce(&io::PipeWriter) -> Failure,
    ) -> Result<Self, BirthError> {
        let (reader, writer) = io::pipe().map_err(at("make a pipe"))?;
        rustix::io::ioctl_fionbio(&reader, true)
            .map_err(|errno| at("make a pipe")(errno.into()))?;
        match fork().map_err(at("make the process that enters the box"))? {
            Forked::Child => {
                // The last one is the keeper's: without it, nobody hears us.
                drop(reader);
                let failure = join(&writer);
                joiner::write(&writer, Report::Failed(failure));
                exit_now(127)
            }
            Forked::Parent(joiner) => Ok(Self::new(Some(joiner), reader, order, deadline)),
        }
    }

    fn new(
        joiner: Option<Child>,
        reader: PipeReader,
        order: &Order<'_>,
        deadline: Instant,
    ) -> Self {
        let words = Words {
            program: shortened(order.program.map(Program::name).unwrap_or_default()),
            path: order.path.to_vec(),
            working_directory: order.working_directory.to_owned(),
            steps: order.steps.iter().map(ToString::to_string).collect(),
        };
        Self {
            joiner,
            reader,
            part: Vec::new(),
            process: None,
            about_to_exec: false,
            furnished: false,
            failure: None,
            deadline,
            look_at: Instant::now() + LOOK_EVERY,
            words,
        }
    }

    /// When [`Entering::fault`] may have something to say.
    pub(crate) fn due(&self) -> Instant {
        self.deadline.min(self.look_at)
    }

    /// Why it is to be given up by now, if it is. What is in the box may stop it: it is one of its
    /// users, and will be one of its processes.
    pub(crate) fn fault(&mut self, now: Instant) -> Option<BirthError> {
        let stopped = |process: &io::Result<Child>| {
            process.as_ref().is_ok_and(|process| process.is_stopped().unwrap_or(false))
        };
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            if self.process.as_ref().is_some_and(stopped) {
                let why = "its process was stopped by a signal before it could";
                return Some(BirthError::new("execute the program", &io::Error::other(why)));
            }
        }
        let is_late = now >= self.deadline;
        is_late.then(|| BirthError::new("enter the box", &io::ErrorKind::TimedOut.into()))
    }

    /// Reads what has been said. Whether that was all: the pipe ends by the exec, which closes it, or
    /// by the death of all who hold it.
    pub(crate) fn advance(&mut self) -> bool {
        let mut buffer = [0; 16 * RECORD];
        loop {
            match self.reader.read(&mut buffer) {
                Ok(0) => return true,
                Ok(length) => self.part.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(_) => return true,
            }
            while let Some((record, rest)) = self.part.split_first_chunk::<RECORD>() {
                let report = Report::decode(*record);
                self.part = rest.to_vec();
                match report {
                    // One that cannot be watched has ended, and is reaped when nobody knows it.
                    Some(Report::Joiner(pid)) => self.joiner = Child::adopt(pid).ok(),
                    Some(Report::Pid(pid)) => self.process = Some(Child::adopt(pid)),
                    Some(Report::AboutToExec) => self.about_to_exec = true,
                    Some(Report::Furnished) => self.furnished = true,
                    Some(Report::Failed(failure)) => self.failure = Some(failure),
                    None => {}
                }
            }
        }
    }

    /// Whether a box without a program is complete. Nothing of it is the box's: its joiner is reaped
    /// as one that failed is.
    pub(super) fn has_furnished(&self) -> bool {
        self.furnished && self.failure.is_none()
    }

    /// Takes stock, once everything was said.
    pub(crate) fn finish(self) -> Entered {
        let error = match self.failure {
            Some(failure) => Some(self.words.error(failure)),
            None if self.about_to_exec && self.process.is_some() => None,
            None => Some(BirthError::new(
                "execute the program",
                &io::Error::other("its process was killed before it could"),
            )),
        };
        self.end(error)
    }

    /// Gives it up: whoever is on the way in is killed.
    pub(crate) fn give_up(self, error: BirthError) -> Entered {
        self.end(Some(error))
    }

    fn end(self, error: Option<BirthError>) -> Entered {
        // A joiner that hangs must not outlive the attempt; one that has ended takes no harm.
        let mut leftovers: Vec<Child> = self.joiner.into_iter().collect();
        for joiner in &leftovers {
            joiner.signal(Signal::KILL).ok();
        }
        let process = self.process.transpose();
        let outcome = match (process, error) {
            (Ok(Some(process)), None) => Ok(process),
            (Ok(process), error) => {
                if let Some(process) = process {
                    process.signal(Signal::KILL).ok();
                    leftovers.push(process);
                }
                Err(error.unwrap_or_else(|| {
                    let none = io::Error::other("nobody said which process it is");
                    BirthError::new("watch the program", &none)
                }))
            }
            (Err(why), error) => Err(error.unwrap_or_else(|| at("watch the program")(why))),
        };
        Entered { outcome, leftovers }
    }
}

impl AsFd for Entering {
    /// Readable when something was said.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

impl Words {
    fn error(&self, failure: Failure) -> BirthError {
        match failure {
            Failure::Step(number, errno) => {
                let step = STEPS.get(number).copied().unwrap_or("enter the box");
                let error = answer(errno);
                let mut failed = BirthError::new(step, &error);
                if step == ENTER_DIRECTORY {
                    let cwd = self.working_directory.display();
                    failed.message = format!("cannot {step} {cwd} in the box: {error}");
                }
                failed
            }
            Failure::Plan(number, errno) => {
                let step = self.steps.get(number).map_or("enter the box", String::as_str);
                BirthError::new(step, &answer(errno))
            }
            Failure::Exec(fault) => exec_error(fault, &self.program, &self.path),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_travel_whole() {
        let reports = [
            Report::Joiner(2),
            Report::Pid(4_194_304),
            Report::AboutToExec,
            Report::Furnished,
            Report::Failed(Failure::Step(4, 2)),
            Report::Failed(Failure::Plan(3, 13)),
            Report::Failed(Failure::Exec(ExecFault::NoInterpreter)),
            Report::Failed(Failure::Exec(ExecFault::Other(7))),
        ];
        for report in reports {
            assert_eq!(Report::decode(report.encode()), Some(report));
        }
        assert_eq!(Report::decode([9, 0, 0, 0, 0, 0]), None);
    }
}
