//! Serving a box over a connection to its keeper: what is not about its streams.

use std::time::Duration;

use minimal_proto::error::Chain;
use minimal_proto::keeper::FromKeeper;
use tokio::time::Instant;

use super::{Actor, Parting, no_keeper};
use crate::boxes::clocks::{ANSWER_LIMIT, pace};
use crate::boxes::conclude::{Absence, Conclusion};
use crate::boxes::line::Command;
use crate::boxes::link::Link;
use crate::boxes::serving::Happening;

impl Actor {
    /// Serves until the connection ends.
    pub(super) async fn serve(&mut self, mut link: Link) -> Parting {
        loop {
            let pace = pace(self.host.live_boxes());
            match self.serving.next(&mut link, Some(pace)).await {
                Happening::Message(message) => {
                    self.answers();
                    if self.on_message(message).await {
                        return Parting::Ended;
                    }
                }
                Happening::Command(Command::GiveUp { reply }) => {
                    let given_up = self.give_up_start(&mut link).await;
                    // Whoever asked may have left.
                    reply.send(given_up).ok();
                    if given_up {
                        return Parting::Ended;
                    }
                }
                Happening::Command(_) => {}
                Happening::Silence(false) => self.answers(),
                Happening::Silence(true) => {
                    let limit = ANSWER_LIMIT.as_secs();
                    let fault = format!("its keeper has not answered for {limit} s");
                    tracing::warn!(fault, "unresponsive");
                    self.view.send_modify(|view| view.fault = Some(fault.into()));
                }
                Happening::Vanished(error) => return Parting::Vanished(error),
            }
        }
    }

    /// The keeper is there.
    fn answers(&self) {
        self.view.send_if_modified(|view| view.fault.take().is_some());
    }

    /// Takes up a message. Whether it was the last one.
    async fn on_message(&mut self, message: FromKeeper) -> bool {
        match message {
            FromKeeper::Hello(hello) => self.greeted(&hello, false),
            FromKeeper::Event { event } => self.apply(&event).await,
            FromKeeper::Ended { ending: _, log_end } => {
                self.serving.end.flow.send_modify(|flow| flow.log_end = log_end);
                return true;
            }
            // An exec's answers come on its own connection; the rest is about streams.
            _ => {}
        }
        false
    }

    /// Gives up a start that takes too long. Whether it is certain that nothing of it will run: a
    /// keeper that has not taken its lock finds the ending, and leaves. Another finds the stop, when
    /// it looks for one right before the command, or after.
    async fn give_up_start(&mut self, link: &mut Link) -> bool {
        self.serving.kill(link);
        let message = "its keeper has not begun in time, and the start was given up".to_owned();
        let absence = Absence::NotMade { step: "start", message, errno: None };
        match self.conclude_as(absence).await {
            Ok(Conclusion::Ended { record, log, .. }) => {
                self.take_over(*record, log);
                true
            }
            Ok(Conclusion::Alive(_)) => false,
            Err(error) => {
                tracing::error!(error = %Chain(&error), "a start could not be given up");
                false
            }
        }
    }

    /// Answers commands for a while in which there is no keeper to ask. While it is still being
    /// looked for they wait: for it, or for the box's end.
    pub(super) async fn answer_without_keeper(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        if self.view.borrow().fault.is_none() {
            return tokio::time::sleep_until(until).await;
        }
        let error = no_keeper(&self.live, &self.view.borrow());
        self.serving.answer_without_keeper(until, &error).await;
    }
}
