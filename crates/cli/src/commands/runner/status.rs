//! `min runner status`

use std::path::PathBuf;

use minimal_proto::ErrorCode;
use serde_json::json;

use super::install::installed;
use super::place::{self, Record};
use crate::args::{Format, RunnerStatusArgs};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Table;

/// Shows the runners of this machine. Asks nobody: what they say of themselves is on disk, and whether
/// they run is in their locks.
pub(in super::super) fn run(context: &Context, args: &RunnerStatusArgs) -> Result<Exit, Failure> {
    let state_dir = &context.paths()?.state_dir;
    let found = place::records(state_dir).map_err(|error| {
        let message = format!("list the runners in `{}`", state_dir.display());
        Failure::new(ErrorCode::Internal, message).because(&error)
    })?;
    let mut records = Vec::new();
    for found in found {
        match found {
            Ok(record) if args.name.as_ref().is_none_or(|name| name.as_str() == record.name) => {
                records.push(record);
            }
            Ok(_) => {}
            Err((name, error)) => {
                context.printer.warn(&format!("the record of runner `{name}` is broken: {error}"));
            }
        }
    }
    if let (Some(name), []) = (&args.name, &records[..]) {
        let message = format!("no runner called `{name}` has run on this machine");
        return Err(Failure::new(ErrorCode::NotFound, message));
    }
    let unit = |record: &Record| installed(context, &record.name);
    let with_unit = |record: &Record| {
        let mut value = json!(record);
        value["unit"] = json!(unit(record));
        value
    };
    match context.printer.format() {
        Format::Table if records.is_empty() => context.printer.note("No runner has run here."),
        Format::Table => context.printer.data(table(&records, unit).as_bytes())?,
        Format::Json => {
            let list = json!({"schema": "min/v1/runner-list", "runners": records.iter().map(with_unit).collect::<Vec<_>>()});
            context.printer.json(&list)?;
        }
        Format::Jsonl => {
            for record in &records {
                context.printer.json(&with_unit(record))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn table(records: &[Record], unit: impl Fn(&Record) -> Option<PathBuf>) -> String {
    let mut table = Table::new(&["NAME", "STATE", "SINCE", "HUB", "PID", "UNIT", "LAST ERROR"]);
    for record in records {
        table.row([
            record.name.clone(),
            record.state.as_str().to_owned(),
            record.since.to_string(),
            record.hub.clone(),
            record.pid.to_string(),
            unit(record).map(|path| path.display().to_string()).unwrap_or_default(),
            record.error.clone().unwrap_or_default(),
        ]);
    }
    table.render()
}
