//! Input of one session, in the order of the wire, apart from its output: a command that does not
//! read must not hold up what it prints.

use std::sync::Arc;

use serde_json::Map;
use tokio::sync::mpsc;

use super::link::Link;
use super::{Runner, answers};
use crate::contract::Sandbox;

/// The request, and bytes; none: the end of the input.
type Piece = (u64, Option<Vec<u8>>);

/// Hands pieces on and answers each.
#[derive(Debug)]
pub(super) struct Input {
    pieces: mpsc::UnboundedSender<Piece>,
}

impl Input {
    /// Of a command. Its task ends when this is dropped and all is handed on.
    pub(super) fn of<S: Sandbox + 'static>(
        runner: &Arc<Runner<S>>,
        command: &S::Command,
        link: &Link,
    ) -> Self {
        let (pieces, mut receiver) = mpsc::unbounded_channel::<Piece>();
        let (runner, command, link) = (Arc::clone(runner), command.clone(), link.clone());
        drop(tokio::spawn(async move {
            while let Some((id, data)) = receiver.recv().await {
                let answer = match &data {
                    Some(data) => runner.sandbox.write_stdin(&command, data).await,
                    None => runner.sandbox.close_stdin(&command).await,
                };
                let result = answer.map(|()| Map::new()).map_err(|error| answers::refusal(&error));
                link.reply(id, result).await;
            }
        }));
        Self { pieces }
    }

    pub(super) fn put(&self, id: u64, data: Option<Vec<u8>>) {
        // Its task lives for as long as this.
        drop(self.pieces.send((id, data)));
    }
}
