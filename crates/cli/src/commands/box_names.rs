//! The names of boxes, for completion scripts.

use std::sync::Arc;
use std::time::Duration;

use minimal_proto::api::BriefList;
use minimal_sdk::{Client, ListQuery, SocketConnector};

use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// How long a person waits for a completion without noticing.
const BUDGET: Duration = Duration::from_millis(120);

/// More names are no help to anyone.
const MOST: u32 = 500;

/// Prints the names of the newest boxes, one a line; of a box without one the short id. Nothing if no
/// daemon answers in time: none is started for it, and nobody is there to read an error.
pub(super) async fn run(context: &Context) -> Result<Exit, Failure> {
    let Ok(paths) = context.paths() else { return Ok(Exit::Done) };
    let client = Client::new(Arc::new(SocketConnector::new(paths.socket())));
    let query = ListQuery { limit: Some(MOST), ..ListQuery::default() };
    let Ok(Ok(BriefList { boxes, .. })) =
        tokio::time::timeout(BUDGET, client.brief_list(&query)).await
    else {
        return Ok(Exit::Done);
    };
    let names: std::collections::BTreeSet<String> = boxes
        .iter()
        .map(|named| named.name.as_ref().map_or_else(|| named.id.short(), ToString::to_string))
        .collect();
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    context.printer.data(text.as_bytes())?;
    Ok(Exit::Done)
}
