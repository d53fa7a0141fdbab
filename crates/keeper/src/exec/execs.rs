//! All execs of a box that live, and what is remembered of those that do not.

use std::time::{Duration, Instant};

use minimal_linux::Child;
use minimal_proto::exec::ExecEnd;
use minimal_proto::keeper::{ExecStanding, FromKeeper};
use minimal_proto::{BoxId, ErrorBody, ErrorCode, ExecId, Signal};
use minimal_store::exec_dir::Unsaved;
use minimal_store::hook;
use rustix::process::{Resource, getrlimit};

use super::{Exec, ExecSlots, RETRY, Stage};
use crate::birth::{Door, WayIn};
use crate::control::Connection;
use crate::limits::Cgroups;
use crate::saving::FAREWELL;
use crate::watch::{Slot, Watch, Woken};

/// How long a key outlives its exec.
const KEY_KEPT: Duration = Duration::from_secs(60);

/// How long the door of a box is kept open that nobody enters: a person comes back within that, and a
/// box that nobody comes back to gets the memory back.
const DOOR_KEPT: Duration = Duration::from_secs(5 * 60);

/// Descriptors that an exec takes at most: its directory, three of its log, two processes, three
/// pipes, one for the report of its start, and two connections.
const DESCRIPTORS: u64 = 12;
/// Descriptors kept for the box itself and for connections that are no exec's yet.
const KEPT: u64 = 128;

/// The execs of a box.
#[derive(Debug)]
pub(crate) struct Execs<'a> {
    pub(crate) way_in: WayIn<'a>,
    pub(crate) box_id: BoxId,
    /// Which life of the box.
    pub(crate) life: u32,
    /// Between TERM and KILL, where a request does not say.
    pub(crate) grace: Duration,
    pub(crate) live: Vec<Exec>,
    /// How many of this life have events.
    pub(crate) listed: u64,
    /// The box is being ended: nothing more is run.
    pub(crate) closed: bool,
    /// The way in for who comes next, and when it is closed if nobody does.
    door: Option<(Door, Option<Instant>)>,
    finished: Vec<Finished>,
    leftovers: Vec<Child>,
    farewells: Vec<(Connection, Instant)>,
}

/// One that has ended and whose key is still known.
#[derive(Debug)]
struct Finished {
    key: String,
    digest: Option<String>,
    until: Option<Instant>,
    standing: ExecStanding,
    end: ExecEnd,
}

/// What became of endings that were to be brought to disk.
#[derive(Debug, Default)]
pub(crate) struct Saved {
    /// They are there, or have no place any more.
    pub(crate) over: Vec<(Exec, ExecEnd)>,
    /// They could not be written, for the first time, and why.
    pub(crate) faults: Vec<(ExecId, String)>,
}

/// Where a wait finds them.
#[derive(Debug)]
pub(crate) struct ExecsSlots {
    live: Vec<ExecSlots>,
    leftovers: Vec<Slot>,
    farewells: Vec<Slot>,
}

impl<'a> Execs<'a> {
    pub(crate) fn new(way_in: WayIn<'a>, box_id: BoxId, life: u32, grace: Duration) -> Self {
        Self {
            way_in,
            box_id,
            life,
            grace,
            live: Vec::new(),
            listed: 0,
            closed: false,
            door: None,
            finished: Vec::new(),
            leftovers: Vec::new(),
            farewells: Vec::new(),
        }
    }

    /// The ids of those that live.
    pub(crate) fn ids(&self) -> Vec<ExecId> {
        self.live.iter().map(|exec| exec.terms.id).collect()
    }

    /// Whether the process of one is in the box.
    pub(crate) fn run(&self) -> bool {
        self.live.iter().any(|exec| exec.child_pid().is_some())
    }

    /// Refuses one more, if there may be none.
    pub(crate) fn admit(&self) -> Result<(), ErrorBody> {
        if self.closed {
            return Err(ErrorBody::new(
                ErrorCode::WrongState,
                "the box is being ended: nothing more is run in it",
            ));
        }
        // Without a limit there is none to reach.
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = descriptors.saturating_sub(KEPT) / DESCRIPTORS;
        if self.live.len() as u64 >= most {
            let message = format!(
                "{most} execs run in the box, as many as its keeper can hold with {descriptors} open files"
            );
            return Err(ErrorBody::new(ErrorCode::NoResources, message).with_hint(
                "wait for some to end, or raise the limit of open files (ulimit -n) for the daemon",
            ));
        }
        Ok(())
    }

    /// Gives the connection to the exec of an earlier request with this key, if there is one.
    ///
    /// # Errors
    /// The key is another request's.
    pub(crate) fn repeat(
        &mut self,
        connection: &mut Option<Connection>,
        key: &str,
        digest: Option<&str>,
    ) -> Result<(), ErrorBody> {
        let check = |own: Option<&str>| {
            if own == digest {
                return Ok(());
            }
            let message = format!("the idempotency key `{key}` was used for another exec");
            Err(ErrorBody::new(ErrorCode::KeyReused, message))
        };
        let is_it = |exec: &&mut Exec| exec.terms.key.as_ref().is_some_and(|(own, _)| own == key);
        if let Some(exec) = self.live.iter_mut().find(is_it) {
            check(exec.terms.key.as_ref().and_then(|(_, digest)| digest.as_deref()))?;
            if let Some(connection) = connection.take() {
                exec.join(connection);
            }
            return Ok(());
        }
        let now = Instant::now();
        self.finished.retain(|it| it.until.is_some_and(|until| until > now));
        if let Some(finished) = self.finished.iter().find(|it| it.key == key) {
            check(finished.digest.as_deref())?;
            let standing = finished.standing.clone();
            let (ending, log_end) = (finished.end.ending.clone(), standing.log_end);
            if let Some(connection) = connection.take() {
                let last = [FromKeeper::Exec(standing), FromKeeper::Ended { ending, log_end }];
                self.farewell(connection, &last);
            }
        }
        Ok(())
    }

    /// Gives the connection to an exec that lives, if it does.
    pub(crate) fn join(&mut self, connection: &mut Option<Connection>, id: ExecId) {
        if let Some(exec) = self.live.iter_mut().find(|exec| exec.terms.id == id)
            && let Some(connection) = connection.take()
        {
            exec.join(connection);
        }
    }

    /// The door, if it is open.
    pub(crate) fn door(&self) -> Option<&Door> {
        self.door.as_ref().map(|(door, _)| door)
    }

    /// Keeps a door open to a box that is entered: the next who comes gets in at once.
    pub(crate) fn keep_door(&mut self, init: &Child, cgroups: &Cgroups) {
        if !cgroups.are_left() {
            return;
        }
        let until = Instant::now().checked_add(DOOR_KEPT);
        if let Some((_, kept_until)) = &mut self.door {
            *kept_until = until;
            return;
        }
        // Without one everybody gets in as the first did.
        if let Ok(door) = Door::open(&self.way_in, init, cgroups) {
            cgroups.make_room(true);
            self.door = Some((door, until));
        }
    }

    /// Closes it, if it is time to, or has ended.
    pub(crate) fn close_door(&mut self, now: Instant, cgroups: &Cgroups) {
        let is_due = |(door, until): &mut (Door, Option<Instant>)| {
            until.is_some_and(|at| at <= now) || door.has_ended()
        };
        if let Some((door, _)) = self.door.take_if(is_due) {
            self.reap_later(vec![door.close()]);
            cgroups.make_room(false);
        }
    }

    /// Takes one in, with the connection that asked for it.
    pub(crate) fn take(&mut self, mut exec: Exec, connection: Option<Connection>) {
        exec.connections.extend(connection);
        self.live.push(exec);
    }

    /// Sends the last messages, and lets go of the connection once they are sent.
    pub(crate) fn farewell(&mut self, mut connection: Connection, messages: &[FromKeeper]) {
        for message in messages {
            connection.send(message);
        }
        self.farewells.push((connection, Instant::now() + FAREWELL));
    }

    /// Waits for all of them as well.
    pub(crate) fn watch<'fd>(&'fd self, watch: &mut Watch<'fd>) -> ExecsSlots {
        use rustix::event::PollFlags;
        use std::os::fd::AsFd as _;
        ExecsSlots {
            live: self.live.iter().map(|exec| exec.watch(watch)).collect(),
            leftovers: self
                .leftovers
                .iter()
                .map(|child| watch.add(child.as_fd(), PollFlags::IN))
                .collect(),
            farewells: self.farewells.iter().map(|(it, _)| it.watch(watch)).collect(),
        }
    }

    /// Takes note of what a wait has found.
    pub(crate) fn woken(
        &mut self,
        woken: &Woken,
        slots: &ExecsSlots,
        buffer: &mut [u8],
        cgroups: &Cgroups,
    ) {
        for (exec, slots) in self.live.iter_mut().zip(&slots.live) {
            exec.woken(woken, slots, buffer, cgroups);
        }
        // One that is not waited for here yet is in the next turn.
        let mut ready = slots.leftovers.iter().map(|slot| woken.is_ready(Some(*slot)));
        self.leftovers.retain_mut(|child| {
            !ready.next().unwrap_or(false) || matches!(child.try_reap(), Ok(None))
        });
        for ((connection, _), slot) in self.farewells.iter_mut().zip(&slots.farewells) {
            connection.woken(woken.is_ready(Some(*slot)));
        }
    }

    /// Does what their connections ask, and what is due.
    pub(crate) fn serve(&mut self, buffer: &mut [u8]) {
        let now = Instant::now();
        for exec in &mut self.live {
            exec.serve(buffer);
            if exec.due().is_some_and(|due| due <= now) {
                exec.take_due(now, buffer);
            }
        }
        self.farewells.retain_mut(|(connection, until)| {
            // Whatever it still asks, there is nobody to answer.
            drop(connection.serve(buffer));
            connection.flush();
            connection.wants_to_write() && !connection.is_gone() && *until > now
        });
    }

    /// When [`Execs::serve`] has something to do.
    pub(crate) fn due(&self) -> Option<Instant> {
        let own = self.live.iter().filter_map(Exec::due);
        let door = self.door.iter().filter_map(|(_, until)| *until);
        own.chain(self.farewells.iter().map(|(_, until)| *until)).chain(door).min()
    }

    /// Takes what their children have left to be reaped.
    pub(crate) fn reap_later(&mut self, leftovers: Vec<Child>) {
        for mut child in leftovers {
            if matches!(child.try_reap(), Ok(None)) {
                self.leftovers.push(child);
            }
        }
    }

    /// Pids of all children of ours that are an exec's.
    pub(crate) fn pids(&self) -> impl Iterator<Item = i32> {
        let own = self.live.iter().filter_map(Exec::child_pid);
        own.chain(self.leftovers.iter().map(Child::pid)).chain(self.door().map(Door::pid))
    }

    /// Everything in the box is being signalled.
    pub(crate) fn box_ends(&mut self) {
        self.closed = true;
        self.live.iter_mut().for_each(Exec::box_ends);
    }

    /// Nothing is left in the box.
    pub(crate) fn box_has_ended(&mut self, limit: Duration, buffer: &mut [u8], cgroups: &Cgroups) {
        self.closed = true;
        let until = Instant::now() + limit;
        for exec in &mut self.live {
            let left = until.saturating_duration_since(Instant::now());
            exec.box_has_ended(left, buffer, cgroups);
        }
    }

    /// Brings to disk what endings there are, as far as that is due.
    pub(crate) fn save(&mut self) -> Saved {
        let now = Instant::now();
        let is_due = |exec: &Exec| match &exec.stage {
            Stage::Over { retry_at, .. } => retry_at.is_none_or(|at| at <= now),
            _ => false,
        };
        let due: Vec<usize> = (0..self.live.len()).filter(|at| is_due(&self.live[*at])).collect();
        if due.is_empty() {
            return Saved::default();
        }
        let unsaved: Vec<_> = due
            .iter()
            .filter_map(|at| match &self.live[*at] {
                Exec { dir, stage: Stage::Over { end, .. }, .. } => Some(Unsaved::new(dir, end)),
                _ => None,
            })
            .collect();
        let results = Unsaved::save_all(&unsaved);
        let mut saved = Saved::default();
        // From the last on, so that taking one out leaves the others where they are.
        for (at, result) in due.into_iter().zip(results).rev() {
            let error = match result {
                Err(error) if self.live[at].dir.is_linked() => error,
                // A box or exec whose directory was removed has no place for an ending.
                Ok(()) | Err(_) => {
                    let mut exec = self.live.remove(at);
                    if let Stage::Over { end, .. } =
                        std::mem::replace(&mut exec.stage, Stage::Between)
                    {
                        saved.over.push((exec, *end));
                    }
                    continue;
                }
            };
            let exec = &mut self.live[at];
            if let Stage::Over { retry_at, pause, .. } = &mut exec.stage {
                if retry_at.is_none() {
                    let cause = minimal_proto::error::Chain(&error).to_string();
                    saved.faults.push((exec.terms.id, cause));
                }
                *retry_at = Some(now + *pause);
                *pause = (*pause * 2).min(RETRY.1);
            }
        }
        saved.over.reverse();
        if !saved.over.is_empty() {
            hook::point("keeper.exec.saved").ok();
        }
        saved
    }

    /// Tells everyone of an exec how it ended, and lets go of it.
    pub(crate) fn tell_end(&mut self, mut exec: Exec, end: ExecEnd) {
        let log_end = exec.streams.log_end();
        exec.streams.tell(&mut exec.connections);
        let last = [FromKeeper::Ended { ending: end.ending.clone(), log_end }];
        for connection in std::mem::take(&mut exec.connections) {
            self.farewell(connection, &last);
        }
        hook::point("keeper.exec.told").ok();
        let standing = exec.standing();
        if let Some((key, digest)) = exec.terms.key {
            let until = Instant::now().checked_add(KEY_KEPT);
            self.finished.push(Finished { key, digest, until, standing, end });
        }
    }

    /// Sends what waits to those that were told, for at most so long, and ends what is left of ours.
    pub(crate) fn finish(&mut self, limit: Duration) {
        let door = self.door.take().map(|(door, _)| door.close());
        for mut process in std::mem::take(&mut self.leftovers).into_iter().chain(door) {
            process.signal(Signal::KILL).ok();
            // It is outside of the box, and not in a directory or mount that could hold it.
            process.reap().ok();
        }
        for (connection, _) in self.farewells.drain(..) {
            connection.finish(limit);
        }
    }
}
