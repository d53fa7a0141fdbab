//! `min box start`

use std::io::IsTerminal as _;

use minimal_proto::api::BoxRecord;
use minimal_proto::{ErrorCode, EventData, Reason};
use minimal_sdk::{CallError, Client};
use serde_json::json;

use super::run::{explained, lost, print_id, started_not, tell_what_is_missing};
use crate::args::StartArgs;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::ending_in_words;
use crate::project::Project;
use crate::project_file;
use crate::run::{self, Signals, Streams, address};

/// Starts a box that runs until it is stopped.
pub(super) async fn run(context: &Context, args: &StartArgs) -> Result<Exit, Failure> {
    let project = Project::find(context.home().as_deref());
    let file = project_file::load(context, project.as_ref()).map_err(run::nothing_was_run)?;
    if let Some(help) = run::help(args.into(), &file).map_err(run::nothing_was_run)? {
        context.printer.data(help.as_bytes())?;
        return Ok(Exit::Done);
    }
    // Nobody waits at its streams.
    let streams = Streams { input: false, pin: false, terminal: None };
    let request = run::request(context, args.into(), &file, project, streams)
        .map_err(run::nothing_was_run)?;
    let mut signals = Signals::listen().map_err(|error| {
        run::nothing_was_run(
            Failure::new(ErrorCode::Internal, "listen for signals").because(&error),
        )
    })?;
    let created = run::create(context, &request, &mut signals).await?;
    let (client, mut record) = (created.client, created.record);
    if let Some(ending) = record.ending.as_ref().filter(|ending| started_not(ending)) {
        return Err(explained(context, &request, &record, ending));
    }
    tell_what_is_missing(context, &args.options, &record);
    if request.spec.execution.ready.is_some() && !args.no_wait {
        record = await_ready(context, &client, record, &mut signals).await?;
    }
    print_id(context, &record)
}

/// Waits until the box is ready. Returns its record as it is then.
pub(super) async fn await_ready(
    context: &Context,
    client: &Client,
    record: BoxRecord,
    signals: &mut Signals,
) -> Result<BoxRecord, Failure> {
    let name = address(&record);
    if std::io::stderr().is_terminal() {
        context
            .printer
            .note(&format!("Waiting until box {name} is ready; Ctrl-C leaves it running."));
    }
    let ready = async {
        let mut events = client.events(record.id, true).await?;
        let mut is_this_life = false;
        while let Some(event) = events.next().await? {
            match event.data {
                EventData::Started(started) => is_this_life = started.life == record.lives,
                _ if !is_this_life => {}
                EventData::Ready => return Ok(true),
                EventData::Exited(_) | EventData::Failed(_) => return Ok(false),
                _ => {}
            }
        }
        Ok::<bool, CallError>(false)
    };
    let came = tokio::select! {
        came = ready => came?,
        signal = signals.next() => {
            let message = format!("interrupted: box {name} runs on, and is not ready yet");
            return Err(Failure::new(ErrorCode::Interrupted, message)
                .hint(format!("`min show {name}` tells when it is, `min stop {name}` ends it"))
                .exit(Exit::Interrupted(signal))
                .detail("box", record.id.to_string()));
        }
    };
    if came {
        return Ok(client.get(&record.id.to_string()).await?);
    }
    let ending = client.wait(record.id, None).await?.ending;
    if ending.reason() == Reason::Lost {
        return Err(lost(&record, &ending));
    }
    let message = format!("box {name} ended before it was ready: {}", ending_in_words(&ending));
    let why = ending.detail().get("message").and_then(serde_json::Value::as_str);
    let failure = Failure::new(ErrorCode::StartFailed, message)
        .exit(Exit::Ending(ending.shell_status()))
        .hint(format!("`min logs {name}` has what it printed"))
        .detail("box", record.id.to_string())
        .detail("ending", json!(ending));
    Err(Failure { causes: why.map(str::to_owned).into_iter().collect(), ..failure })
}
