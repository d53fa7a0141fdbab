//! The actor of one exec: the only owner of the connection that is its own.

use std::sync::Arc;
use std::time::Duration;

use minimal_proto::error::Chain;
use minimal_proto::exec::ExecMode;
use minimal_proto::keeper::{ExecStanding, FromKeeper, Hello, ToKeeper};
use minimal_proto::{Ending, ErrorBody, ErrorCode, ExecId};
use minimal_store::ExecDir;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::look::read_end;
use super::{LiveExec, start};
use crate::boxes::Live;
use crate::boxes::actor::LOOK_AGAIN;
use crate::boxes::flow::{Flow, Outcome};
use crate::boxes::line::{Line, Whose};
use crate::boxes::link::{Link, LinkError};
use crate::boxes::serving::{Happening, Serving};

/// How long the keeper of a busy box may be looked for after a lost connection to it, beyond the usual
/// looks: an exec that nobody knows of any more, in a box that lives.
const LOOKS: usize = 30;

/// How long to pause before a keeper is asked again that has too many connections waiting.
const CROWDED: Duration = Duration::from_millis(5);

/// The actor of one exec.
#[derive(Debug)]
struct Actor {
    live: Arc<Live>,
    exec: Arc<LiveExec>,
    serving: Serving,
}

/// How a connection came to its end.
enum Parting {
    Ended(Ending),
    Vanished(LinkError),
}

/// Has an actor serve an exec that the keeper has given this connection to.
///
/// # Errors
/// Its directory cannot be read. The connection is dropped then.
pub(super) async fn serve(
    live: &Arc<Live>,
    link: Link,
    standing: &ExecStanding,
) -> Result<Arc<LiveExec>, ErrorBody> {
    let (id, box_dir) = (standing.exec, Arc::clone(&live.dir));
    let read = move || {
        let dir = ExecDir::open(&box_dir, id)?;
        let file = dir.read_file()?;
        Ok((dir, file))
    };
    let read = tokio::task::spawn_blocking(read).await.expect("reading a record does not panic");
    let whose = Whose { box_id: live.id, name: live.name.clone(), exec: Some(id), tty: false };
    let (dir, file) = read.map_err(|error: minimal_store::ExecDirError| {
        whose.error(ErrorCode::Broken, Chain(&error).to_string())
    })?;
    let whose = Whose { tty: file.command.mode == ExecMode::Tty, ..whose };
    let mut flow = Flow::new(0);
    flow.joined(standing);
    let (line, end) = Line::new(whose, flow);
    let exec = Arc::new(LiveExec {
        file,
        started_at: standing.started_at,
        dir: Arc::new(dir),
        line: Arc::clone(&line),
    });
    let mut serving = Serving::new(line, end, false);
    serving.begin(standing.input_received, standing.input_writer, true);
    live.execs.lock().insert(id, Arc::clone(&exec));
    let actor = Actor { live: Arc::clone(live), exec: Arc::clone(&exec), serving };
    let span = tracing::info_span!("exec", box_id = %live.id, exec = %id);
    tokio::spawn(actor.run(link).instrument(span));
    Ok(exec)
}

/// Connects to the keeper of a box, which says who it is.
///
/// # Errors
/// It does not.
pub(super) async fn connect(live: &Live) -> Result<(Link, Hello), LinkError> {
    let greeting = async {
        let mut link = loop {
            match Link::connect(&live.dir).await {
                Ok(link) => break link,
                // A rush: its queue is full (connect(2)), and it takes from it as fast as it can.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    tokio::time::sleep(CROWDED).await;
                }
                Err(error) => return Err(LinkError::Io(error)),
            }
        };
        let hello = link.hello(live.id).await?;
        Ok((link, hello))
    };
    start::unless_silent(live, greeting).await
}

/// Joins the execs that a keeper has named and that have no actor yet.
pub(in crate::boxes) async fn join_all(live: Arc<Live>, ids: Vec<ExecId>) {
    for id in ids {
        match join(&live, id).await {
            Ok(_) => {}
            // It has ended meanwhile.
            Err(error) if error.code == ErrorCode::NotFound => {}
            Err(error) => {
                // Whoever asks for one of the others joins it then.
                tracing::warn!(exec = %id, error = error.message, "an exec was not joined");
                return;
            }
        }
    }
}

/// The actor of an exec that lives, made now if there is none yet.
///
/// # Errors
/// `not_found`: it does not live; or the keeper cannot be asked.
pub(super) async fn join(live: &Arc<Live>, id: ExecId) -> Result<Arc<LiveExec>, ErrorBody> {
    let _one_at_a_time = live.execs.joining.lock().await;
    if let Some(exec) = live.execs.get(id) {
        return Ok(exec);
    }
    let (link, standing) = ask_to_join(live, id).await?;
    serve(live, link, &standing).await
}

/// The actor of an exec that somebody else may have joined; else it has this connection.
///
/// # Errors
/// Its directory cannot be read.
pub(super) async fn adopt(
    live: &Arc<Live>,
    link: Link,
    standing: &ExecStanding,
) -> Result<Arc<LiveExec>, ErrorBody> {
    let _one_at_a_time = live.execs.joining.lock().await;
    match live.execs.get(standing.exec) {
        Some(exec) => Ok(exec),
        None => serve(live, link, standing).await,
    }
}

async fn ask_to_join(live: &Live, id: ExecId) -> Result<(Link, ExecStanding), ErrorBody> {
    let unreachable = |error: LinkError| start::unreachable(live, &error);
    let (mut link, _) = connect(live).await.map_err(unreachable)?;
    link.send(&ToKeeper::JoinExec { exec: id });
    let answered = async {
        loop {
            match link.next().await? {
                FromKeeper::Exec(standing) => return Ok(Ok(standing)),
                FromKeeper::Refused { error } => return Ok(Err(error)),
                _ => {}
            }
        }
    };
    let standing = start::unless_silent(live, answered).await.map_err(unreachable)??;
    Ok((link, standing))
}

impl Actor {
    async fn run(mut self, mut link: Link) {
        let outcome = loop {
            let error = match self.serve(&mut link).await {
                Parting::Ended(ending) => break Outcome::Ended(Arc::new(ending)),
                Parting::Vanished(error) => error,
            };
            self.serving.leave_seats();
            self.serving.link_lost();
            // Closed before a new one is asked for: the keeper must not take both for ours.
            drop(link);
            match self.find_again(error).await {
                Ok(again) => link = again,
                Err(outcome) => break outcome,
            }
        };
        if let Outcome::Ended(ending) = &outcome {
            tracing::debug!(reason = %ending.reason(), exit_code = ending.exit_code(), "ended");
            if let Some(end) = ending.detail().get("log_end").and_then(serde_json::Value::as_u64) {
                self.serving.end.flow.send_modify(|flow| flow.log_end = end);
            }
        }
        // Told before it is out of the table: who does not find it there finds its ending on disk.
        self.serving.finish(outcome);
        self.live.execs.lock().remove(&self.exec.file.id);
    }

    async fn serve(&mut self, link: &mut Link) -> Parting {
        loop {
            // The box's own connection shows whether the keeper is there.
            match self.serving.next(link, None).await {
                Happening::Message(FromKeeper::Ended { ending, log_end }) => {
                    self.serving.end.flow.send_modify(|flow| flow.log_end = log_end);
                    return Parting::Ended(ending);
                }
                Happening::Vanished(error) => return Parting::Vanished(error),
                // There is nothing else about an exec.
                Happening::Message(_) | Happening::Command(_) | Happening::Silence(_) => {}
            }
        }
    }

    /// With no connection: learns from the disk how it ended, or joins it again.
    async fn find_again(&mut self, lost: LinkError) -> Result<Link, Outcome> {
        tracing::debug!(error = %Chain(&lost), "no connection to the keeper");
        let id = self.exec.file.id;
        for look in 0.. {
            // Before the disk is read: what its end has brought there is seen then.
            let fate = self.live.line.flow.borrow().outcome.clone();
            match read_end(&self.exec.dir, !matches!(fate, Outcome::Open)).await {
                Ok(Some(end)) => return Err(Outcome::Ended(Arc::new(end.ending))),
                Ok(None) => {}
                Err(error) => {
                    let error = self.whose().error(ErrorCode::Broken, Chain(&error).to_string());
                    return Err(Outcome::Unknown(Arc::new(error)));
                }
            }
            match fate {
                Outcome::Open => {}
                Outcome::Ended(ending) => {
                    let end = ExecDir::lost(ending.at());
                    return Err(Outcome::Ended(Arc::new(end.ending)));
                }
                Outcome::Unknown(error) => return Err(Outcome::Unknown(error)),
            }
            let why = match ask_to_join(&self.live, id).await {
                Ok((link, standing)) => {
                    self.serving.begin(standing.input_received, standing.input_writer, true);
                    self.serving.end.flow.send_modify(|flow| flow.joined(&standing));
                    return Ok(link);
                }
                // The keeper lives, and it has never been said how the exec ended.
                Err(error) if error.code == ErrorCode::NotFound && look >= LOOKS => {
                    let message = format!("how {} ended was not written down", self.whose());
                    let error = self.whose().error(ErrorCode::ExitUnknown, message);
                    return Err(Outcome::Unknown(Arc::new(error)));
                }
                Err(error) => error,
            };
            let pause = LOOK_AGAIN[look.min(LOOK_AGAIN.len() - 1)];
            let until = Instant::now() + pause;
            let mut of_box = self.live.line.flow.clone();
            tokio::select! {
                () = self.serving.answer_without_keeper(until, &why) => {}
                // Its end is the exec's.
                _ = of_box.wait_for(|flow| !flow.is_open()) => {}
            }
        }
        unreachable!("the looks have no end of their own")
    }

    fn whose(&self) -> &Whose {
        &self.exec.line.whose
    }
}
