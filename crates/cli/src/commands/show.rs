//! `min show`

use minimal_proto::api::BoxRecord;

use crate::args::{Format, OneBox};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::{Table, ending_in_words, on_one_line, size};

/// Shows one box's record.
pub(super) async fn run(context: &Context, args: &OneBox) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let record = client.get(&args.address).await?;
    match context.printer.format() {
        Format::Table => context.printer.data(table(&record).as_bytes())?,
        Format::Json | Format::Jsonl => context.printer.json(&record)?,
    }
    Ok(Exit::Done)
}

fn table(record: &BoxRecord) -> String {
    let mut table = Table::plain();
    let mut row = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            table.row([name.to_owned(), value]);
        }
    };
    row("id", Some(record.id.to_string()));
    row("name", record.name.as_ref().map(ToString::to_string));
    row("state", record.state.map(|state| state.to_string()));
    row("health", Some(record.health.to_string()));
    row("why", record.health_reason.clone());
    if let Some(ending) = &record.ending {
        row("ending", Some(ending_in_words(ending)));
        let said = |key: &str| ending.detail().get(key).and_then(serde_json::Value::as_str);
        row("step", said("step").map(str::to_owned));
        row("reason", said("message").map(str::to_owned));
        row("status", Some(ending.shell_status().to_string()));
    }
    row("program", record.program.clone());
    row("project", record.project_root.as_ref().map(|root| on_one_line(&root.to_lossy())));
    row("host", Some(format!("{} ({})", record.host, record.provider)));
    row("created", record.created_at.map(|time| time.to_string()));
    row("started", record.started_at.map(|time| time.to_string()));
    row("ended", record.ended_at.map(|time| time.to_string()));
    row("log", Some(size(record.log.bytes)));
    let dropped = record.log.dropped_bytes;
    row("dropped", (dropped > 0).then(|| size(dropped)));
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
