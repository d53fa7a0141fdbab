//! `min show`

use minimal_proto::Ending;
use minimal_proto::api::{BoxRecord, Entrypoint, EntrypointState, ExecRecord, LogFigures};

use super::execs::mode;
use crate::args::{Format, ShowArgs};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::{Table, ending_in_words, on_one_line, size};
use crate::run::address;

/// Shows the record of a box, or of an exec in it.
pub(super) async fn run(context: &Context, args: &ShowArgs) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let record = client.get_measured(&args.one.address).await?;
    if let Some(exec) = &args.exec.exec {
        let exec = client.exec(record.id, exec).await?;
        match context.printer.format() {
            Format::Table => context.printer.data(exec_table(&record, &exec).as_bytes())?,
            Format::Json | Format::Jsonl => context.printer.json(&exec)?,
        }
        return Ok(Exit::Done);
    }
    match context.printer.format() {
        Format::Table => context.printer.data(table(&record).as_bytes())?,
        Format::Json | Format::Jsonl => context.printer.json(&record)?,
    }
    Ok(Exit::Done)
}

fn table(record: &BoxRecord) -> String {
    let mut table = Table::plain();
    let mut row = row_of(&mut table);
    row("id", Some(record.id.to_string()));
    row("name", record.name.as_ref().map(ToString::to_string));
    row("state", record.state.map(|state| state.to_string()));
    row("health", Some(record.health.to_string()));
    row("why", record.health_reason.clone());
    if let Some(ending) = &record.ending {
        ending_rows(&mut row, ending);
    }
    row("paused", record.paused.then(|| "yes".to_owned()));
    row("program", record.program.clone());
    if let Some(entrypoint) = &record.entrypoint {
        row("entrypoint", entrypoint_in_words(entrypoint));
        row(
            "ready",
            entrypoint.ready.map(|ready| if ready { "yes" } else { "not yet" }.to_owned()),
        );
        row("restarts", (entrypoint.restarts > 0).then(|| entrypoint.restarts.to_string()));
    }
    row("project", record.project_root.as_ref().map(|root| on_one_line(&root.to_lossy())));
    row("host", Some(format!("{} ({})", record.host, record.provider)));
    row("lives", (record.lives > 1).then(|| record.lives.to_string()));
    row("created", record.created_at.map(|time| time.to_string()));
    row("started", record.started_at.map(|time| time.to_string()));
    row("ended", record.ended_at.map(|time| time.to_string()));
    for exec in &record.execs {
        row("exec", Some(exec.to_string()));
    }
    log_rows(&mut row, record.log);
    row("disk", record.disk_bytes.map(size));
    if let Some(enforcement) = &record.enforcement {
        row("namespaces", Some(enforcement.namespaces.join(", ")));
        row("users", Some(enforcement.users.clone()));
        row("uids", Some(uids(&enforcement.uid_map)));
        row("install", (enforcement.install != "none").then(|| enforcement.install.clone()));
        row("network", Some(enforcement.network.clone()));
        for limit in &enforcement.limits {
            let max = match limit.what.as_str() {
                "ram" => size(limit.max),
                _ => limit.max.to_string(),
            };
            row(&limit.what, Some(format!("at most {max} ({})", limit.by)));
        }
        for missing in &enforcement.missing {
            row("missing", Some(format!("{}: {}", missing.what, missing.why)));
        }
    }
    drop(row);
    table.render()
}

/// What an entrypoint does, where that is not what one expects of a box that runs.
fn entrypoint_in_words(entrypoint: &Entrypoint) -> Option<String> {
    match (entrypoint.state, &entrypoint.returned) {
        (EntrypointState::Running, _) => None,
        (EntrypointState::None, _) => Some("none".to_owned()),
        (EntrypointState::Returned, None) => Some("returned".to_owned()),
        (EntrypointState::Returned, Some(how)) => {
            Some(format!("returned: {}", ending_in_words(how)))
        }
    }
}

/// Adds rows to a table, of what there is.
fn row_of(table: &mut Table) -> impl FnMut(&str, Option<String>) {
    |name, value| {
        if let Some(value) = value {
            table.row([name.to_owned(), value]);
        }
    }
}

fn ending_rows(row: &mut impl FnMut(&str, Option<String>), ending: &Ending) {
    row("ending", Some(ending_in_words(ending)));
    let said = |key: &str| ending.detail().get(key).and_then(serde_json::Value::as_str);
    row("step", said("step").map(str::to_owned));
    row("reason", said("message").map(str::to_owned));
    row("status", Some(ending.shell_status().to_string()));
}

fn log_rows(row: &mut impl FnMut(&str, Option<String>), log: LogFigures) {
    row("log", Some(size(log.bytes)));
    row("dropped", (log.dropped_bytes > 0).then(|| size(log.dropped_bytes)));
}

fn exec_table(of: &BoxRecord, record: &ExecRecord) -> String {
    let mut table = Table::plain();
    let mut row = row_of(&mut table);
    row("id", Some(record.id.to_string()));
    row("box", Some(address(of)));
    row("state", Some(record.state.to_string()));
    if let Some(ending) = &record.ending {
        ending_rows(&mut row, ending);
    }
    for word in &record.argv {
        row("argument", Some(on_one_line(&word.to_lossy())));
    }
    row("mode", Some(mode(record.mode).to_owned()));
    row("user", record.user.clone());
    row("created", Some(record.created_at.to_string()));
    row("started", record.started_at.map(|time| time.to_string()));
    row("ended", record.ended_at.map(|time| time.to_string()));
    log_rows(&mut row, record.log);
    drop(row);
    table.render()
}

/// The uid map in words: which of the box's are which of the host's.
fn uids(map: &[(u32, u32, u32)]) -> String {
    let range = |first: u32, count: u32| match count {
        0 | 1 => first.to_string(),
        _ => format!("{first}-{}", first.saturating_add(count - 1)),
    };
    let line = |(inside, outside, count): &(u32, u32, u32)| {
        let verb = if *count == 1 { "is" } else { "are" };
        format!("{} {verb} {}", range(*inside, *count), range(*outside, *count))
    };
    let lines: Vec<_> = map.iter().map(line).collect();
    format!("{} on the host", lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_map_is_told_in_words() {
        assert_eq!(
            uids(&[(0, 100_000, 1000), (1000, 7, 1)]),
            "0-999 are 100000-100999, 1000 is 7 on the host"
        );
    }
}
