//! Execs, as the loop of the box runs them.

use std::time::Duration;

use minimal_proto::error::Chain;
use minimal_proto::event::{ExecExited, ExecStarted, ExecsNotListed};
use minimal_proto::exec::{EXEC_LOG_MAX, ExecFile, ExecMode};
use minimal_proto::keeper::{ExecStart, FromKeeper, ToKeeper};
use minimal_proto::{ByteString, ErrorBody, ErrorCode, EventData, Timestamp};
use minimal_store::{BoxDir, ExecDir, ExecDirError, LogWriter, exec_dir, hook};
use rustix::io::Errno;

use super::{DRAIN, Keeper};
use crate::birth::BirthError;
use crate::control::Connection;
use crate::exec::{Exec, Terms};
use crate::streams::{Ends, Streams};

/// How many execs of a life have events. The records of all are complete.
const LISTED: u64 = 1000;
/// How much of a command an event shows, in bytes.
const SHOWN: usize = 4 << 10;

impl Keeper<'_> {
    /// Makes the connection that of an exec, as its first message asks.
    pub(super) fn hand_over(&mut self, connection: Connection, message: ToKeeper) {
        // Whoever asked has given up: nothing is run.
        if connection.is_gone() {
            return;
        }
        // Whoever takes it has it.
        let mut connection = Some(connection);
        let done = match message {
            ToKeeper::JoinExec { exec } => {
                self.execs.join(&mut connection, exec);
                let message = format!("no exec {exec} runs in the box");
                Err(ErrorBody::new(ErrorCode::NotFound, message))
            }
            ToKeeper::Exec(start) => self.run(&mut connection, *start),
            // Nothing else makes a connection an exec's.
            _ => return,
        };
        if let (Some(connection), Err(error)) = (connection, done) {
            self.execs.farewell(connection, &[FromKeeper::Refused { error }]);
        }
    }

    fn run(
        &mut self,
        connection: &mut Option<Connection>,
        start: ExecStart,
    ) -> Result<(), ErrorBody> {
        let key = start.idempotency_key.map(|key| (key, start.request_digest));
        if let Some((key, digest)) = &key {
            self.execs.repeat(connection, key, digest.as_deref())?;
            if connection.is_none() {
                return Ok(());
            }
        }
        self.execs.admit()?;
        if self.paused.is_some() {
            let message = "nothing can be run in the box: it is paused";
            return Err(ErrorBody::new(ErrorCode::WrongState, message)
                .with_hint("`min unpause` has it go on"));
        }
        let ended = || ErrorBody::new(ErrorCode::WrongState, "the box has ended");
        let init = self.init.as_ref().ok_or_else(ended)?;
        let file = ExecFile {
            schema: exec_dir::FILE_SCHEMA.to_owned(),
            id: start.exec,
            box_id: self.execs.box_id,
            life: self.execs.life,
            command: start.command,
            created_at: Timestamp::now(),
            idempotency_key: key.as_ref().map(|(key, _)| key.clone()),
            request_digest: key.as_ref().and_then(|(_, digest)| digest.clone()),
        };
        let (dir, log) = make_dir(&self.hosted.dir, &file)?;
        let command = &file.command;
        let terms = Terms {
            id: file.id,
            mode: command.mode,
            timeout: command.timeout_ms.map(Duration::from_millis),
            grace: command.stop_grace_ms.map_or(self.execs.grace, Duration::from_millis),
            key,
            shown: shown(&command.argv),
            user: command.user.clone(),
        };
        let pinned = command.mode == ExecMode::Attached;
        let cgroups = &self.hosted.cgroups;
        let entered = hook::point("keeper.exec.before_enter")
            .map_err(|error| BirthError::new("enter the box", &error))
            .and_then(|()| {
                let way = (cgroups, self.execs.door());
                self.execs.way_in.enter(init, way, command, &start.values)
            });
        let (entering, ends) = match entered {
            Ok((entering, ends)) => (Ok(entering), ends),
            Err(error) => (Err(error), Ends::default()),
        };
        let streams = Streams::new(ends, log, pinned)
            .map_err(|error| refusal(error.raw_os_error(), &error.to_string()))?;
        let exec = match entering {
            // What cannot be read now is told when it matters, at an end that needs it.
            Ok(entering) => {
                let oom_kills = cgroups.oom_kills().ok().flatten().unwrap_or(u64::MAX);
                Exec::entering(terms, dir, streams, entering, oom_kills)
            }
            Err(error) => Exec::failed(terms, dir, streams, &error),
        };
        self.execs.take(exec, connection.take());
        self.was_entered = true;
        Ok(())
    }

    /// Opens a door to a box that execs enter, and closes it when they do not. Not while one is being
    /// sent in: what it was given is not to be in the memory of a process that lasts.
    pub(super) fn mind_the_door(&mut self) {
        self.execs.close_door(std::time::Instant::now(), &self.hosted.cgroups);
        if std::mem::take(&mut self.was_entered)
            && !self.execs.closed
            && let Some(init) = &self.init
        {
            self.execs.keep_door(init, &self.hosted.cgroups);
        }
    }

    /// Tells of what has become of execs in this turn: starts, endings, faults.
    pub(super) fn follow_execs(&mut self) {
        for at in 0..self.execs.live.len() {
            let news = self.execs.live[at].take_news();
            self.execs.reap_later(news.leftovers);
            for fault in news.faults {
                let what = format!("a fault of the exec {}", self.execs.live[at].id());
                self.hosted.log.error(&self.hosted.dir, &what, &fault);
            }
            if news.started {
                self.list_start(at);
            }
            let exec = &mut self.execs.live[at];
            exec.answer();
            exec.tell();
        }
        let saved = self.execs.save();
        for (id, cause) in saved.faults {
            let what = format!(
                "the ending of the exec {id} cannot be written; it is kept and tried again"
            );
            self.hosted.log.error(&self.hosted.dir, &what, &cause);
        }
        for (exec, end) in saved.over {
            if exec.is_listed() {
                self.append(EventData::ExecExited(ExecExited {
                    exec: exec.id(),
                    ending: end.ending.clone(),
                }));
            }
            self.execs.tell_end(exec, end);
        }
    }

    fn list_start(&mut self, at: usize) {
        if self.execs.listed == LISTED {
            self.execs.listed += 1;
            self.append(EventData::ExecsNotListed(ExecsNotListed { listed: LISTED }));
        }
        if self.execs.listed > LISTED {
            return;
        }
        self.execs.listed += 1;
        let exec = &mut self.execs.live[at];
        let started: ExecStarted = exec.list();
        self.append(EventData::ExecStarted(started));
    }

    /// Brings the endings of all execs to disk, and tells them, once nothing is left in the box.
    pub(super) fn end_execs(&mut self) {
        self.execs.box_has_ended(DRAIN, &mut self.buffer, &self.hosted.cgroups);
        loop {
            self.follow_execs();
            let Some(due) = self.execs.due().filter(|_| !self.execs.live.is_empty()) else { break };
            self.peers.serve_until(self.listener.as_ref(), due);
        }
    }
}

fn make_dir(dir: &BoxDir, file: &ExecFile) -> Result<(ExecDir, LogWriter), ErrorBody> {
    hook::point("keeper.exec.before_dir")
        .map_err(|error| refusal(error.raw_os_error(), &error.to_string()))?;
    ExecDir::create(dir, file, EXEC_LOG_MAX).map_err(|error| {
        let errno = match &error {
            ExecDirError::Write { source, .. } => source.raw_os_error(),
            _ => None,
        };
        refusal(errno, &Chain(&error).to_string())
    })
}

/// Why an exec is refused whose directory could not be made.
fn refusal(errno: Option<i32>, cause: &str) -> ErrorBody {
    let code = match errno.map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC | Errno::DQUOT) => ErrorCode::NoSpace,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => ErrorCode::NoResources,
        _ => ErrorCode::Internal,
    };
    ErrorBody::new(code, format!("cannot make the record of the exec: {cause}"))
}

/// As much of a command as an event shows.
fn shown(argv: &[ByteString]) -> Vec<ByteString> {
    let mut left = SHOWN;
    let mut shown = Vec::new();
    for argument in argv {
        let bytes = argument.as_bytes();
        let some = bytes.len().min(left);
        shown.push(ByteString::from(bytes[..some].to_vec()));
        left -= some;
        if left == 0 {
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_shows_the_beginning_of_a_long_command() {
        let argv = [ByteString::from("cat"), ByteString::from("x".repeat(10_000)), "y".into()];
        let shown = shown(&argv);
        assert_eq!(shown.len(), 2);
        assert_eq!(shown.iter().map(|it| it.as_bytes().len()).sum::<usize>(), SHOWN);
        assert_eq!(super::shown(&argv[..1]), argv[..1]);
    }
}
