//! `min host show` and `min host stop`

use std::time::Duration;

use minimal_proto::api::{BoxRecord, HostInfo, Isolation, StopBox};
use minimal_proto::{ErrorCode, State};
use minimal_sdk::{CallError, Client, ListQuery};
use minimal_store::{BoxDir, LifeLock};
use serde_json::json;
use tokio::time::Instant;

use super::several::{ask_each, tell};
use crate::args::{Format, HostStopArgs};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Table;
use crate::run::address;

/// How long the keepers of boxes that have ended are waited for, and how often it is looked.
const KEEPERS_LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// Shows the daemon and its machine.
pub(super) async fn show(context: &Context) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let host = client.host().await?;
    match context.printer.format() {
        Format::Table => context.printer.data(table(&host).as_bytes())?,
        Format::Json | Format::Jsonl => {
            let mut value = json!(host);
            value["schema"] = json!("min/v1/host");
            context.printer.json(&value)?;
        }
    }
    Ok(Exit::Done)
}

fn table(host: &HostInfo) -> String {
    let mut table = Table::plain();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("host", format!("{} ({})", host.host, host.provider));
    row("daemon", format!("pid {}, since {}", host.version.pid, host.started_at));
    row("version", format!("{} (build {})", host.version.version, host.version.build));
    row("state", host.state_dir.to_lossy());
    row(
        "isolation",
        match &host.isolation {
            Isolation::Available { users } => format!("available, users: {users}"),
            Isolation::Unavailable { reason } => format!("unavailable: {reason}"),
        },
    );
    for (state, count) in host.boxes.iter().filter(|(_, count)| **count > 0) {
        row(state, count.to_string());
    }
    table.render()
}

/// Stops the daemon, and before it, if asked to, every box.
pub(super) async fn stop(context: &Context, args: &HostStopArgs) -> Result<Exit, Failure> {
    let running = daemon::if_running(context).await?;
    let client = match running {
        Some(client) => client,
        // Boxes may run without a daemon; only one can end them.
        None if args.boxes && context.paths()?.state_dir.exists() => {
            daemon::contact(context).await?
        }
        None => {
            context.printer.note("No daemon was running.");
            return Ok(Exit::Done);
        }
    };
    let worst = match args.boxes {
        true => stop_boxes(context, &client, args.force).await?,
        false => Exit::Done,
    };
    match client.step_down().await {
        Ok(()) | Err(CallError::Lost { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    daemon::wait_until_gone(context).await?;
    context.printer.note(match args.boxes {
        true => "The daemon has stopped.",
        false => "The daemon has stopped; boxes run on.",
    });
    Ok(worst)
}

async fn stop_boxes(context: &Context, client: &Client, force: bool) -> Result<Exit, Failure> {
    let states = State::ALL.into_iter().filter(|state| !state.is_ended()).collect();
    let query = ListQuery { states, broken: true, limit: Some(10_000), ..ListQuery::default() };
    let mut worst = Exit::Done;
    // More than a page of boxes that run is beyond any host; those that are made meanwhile are
    // not what was asked for.
    let records: Vec<BoxRecord> = client.list(&query).await?.boxes;
    let answers = ask_each(&records, |record| {
        let (client, id) = (client.clone(), record.id);
        async move { client.stop(id, StopBox { force, grace_ms: None }).await }
    })
    .await;
    for (record, answer) in records.iter().zip(answers) {
        match answer.map_err(Failure::from) {
            Ok(_) => {}
            // Removed meanwhile; or nobody keeps what cannot be read.
            Err(failure) if [ErrorCode::NotFound, ErrorCode::Broken].contains(&failure.code) => {}
            Err(failure) => {
                let attempt = format!("stop box {}", address(record));
                worst = worst.or_worse(tell(context, &failure.while_trying(attempt)));
            }
        }
    }
    keepers_gone(context, &records).await?;
    Ok(worst)
}

/// Waits until the keepers of boxes that have ended are gone, too: they clean up after them.
async fn keepers_gone(context: &Context, records: &[BoxRecord]) -> Result<(), Failure> {
    let state_dir = &context.paths()?.state_dir;
    let until = Instant::now() + KEEPERS_LIMIT;
    for record in records {
        let path = state_dir.join("boxes").join(record.id.to_string());
        // Deleted, or not readable: then nothing shows whether anybody is there.
        let Ok(dir) = BoxDir::open(&path) else { continue };
        let Ok(lock) = LifeLock::open(&dir) else { continue };
        while lock.holders().is_ok_and(|holders| !holders.nobody()) && Instant::now() < until {
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(())
}
