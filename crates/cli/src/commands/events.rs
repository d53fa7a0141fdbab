//! `min events`

use minimal_proto::Event;
use serde_json::json;

use crate::args::{EventsArgs, Format};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::event_in_words;

/// Prints what has happened to a box.
pub(super) async fn run(context: &Context, args: &EventsArgs) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let record = client.get(&args.one.address).await?;
    let mut events = client.events(record.id, args.follow).await?;
    let mut kept = Vec::new();
    while let Some(event) = events.next().await? {
        match context.printer.format() {
            Format::Table => context.printer.line(&line(&event))?,
            // One value needs an end; what is followed has it only later.
            Format::Json if !args.follow => kept.push(event),
            Format::Json | Format::Jsonl => context.printer.json_line(&event)?,
        }
    }
    if context.printer.format() == Format::Json && !args.follow {
        context.printer.json(&json!({"schema": "min/v1/event-list", "events": kept}))?;
    }
    Ok(Exit::Done)
}

fn line(event: &Event) -> String {
    let text = format!(
        "{}  {:>3}  {:<14}  {}",
        event.ts,
        event.seq,
        event.data.type_name(),
        event_in_words(event)
    );
    text.trim_end().to_owned()
}
