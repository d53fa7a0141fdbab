//! `min box execs`

use minimal_proto::Timestamp;
use minimal_proto::api::{ExecList, ExecRecord};
use minimal_proto::exec::ExecMode;
use minimal_sdk::ExecQuery;

use crate::args::{ExecsArgs, Format};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::{Table, age, ending_in_words, on_one_line};

/// How many are listed without `--all`: a screen's worth.
const FEW: u32 = 20;
/// The longest page that is asked for.
const PAGE: u32 = 1_000;

/// The longest command line in a table, in characters.
const LONGEST: usize = 60;

/// Lists a box's execs.
pub(super) async fn run(context: &Context, args: &ExecsArgs) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let of = client.get(&args.one.address).await?;
    let mut execs: Vec<ExecRecord> = Vec::new();
    let mut query = ExecQuery { limit: Some(if args.all { PAGE } else { FEW }), after: None };
    let next = loop {
        let page = client.execs(of.id, query).await?;
        execs.extend(page.execs);
        match page.next {
            Some(next) if args.all => query.after = Some(next),
            next => break next,
        }
    };
    match context.printer.format() {
        Format::Table => {
            context.printer.data(table(&execs, Timestamp::now()).as_bytes())?;
            if next.is_some() {
                context.printer.note(&format!("The last {FEW}; --all lists every one."));
            }
        }
        Format::Json => {
            let schema = "min/v1/exec-list".to_owned();
            context.printer.json(&ExecList { schema, execs, next })?;
        }
        Format::Jsonl => {
            execs.iter().try_for_each(|record| context.printer.json_line(record))?;
        }
    }
    Ok(Exit::Done)
}

fn table(execs: &[ExecRecord], now: Timestamp) -> String {
    let mut table = Table::new(&["ID", "STATE", "ENDING", "MODE", "AGE", "COMMAND"]);
    for record in execs {
        table.row([
            record.id.short(),
            record.state.to_string(),
            record.ending.as_ref().map(ending_in_words).unwrap_or_default(),
            mode(record.mode).to_owned(),
            age(now.since(record.created_at)),
            command(record),
        ]);
    }
    table.render()
}

/// A mode in a word.
pub(super) const fn mode(mode: ExecMode) -> &'static str {
    match mode {
        ExecMode::Attached => "attached",
        ExecMode::Detached => "detached",
        ExecMode::Tty => "tty",
    }
}

/// The command line on a line, cut where it is too long for one.
fn command(record: &ExecRecord) -> String {
    let words: Vec<String> = record.argv.iter().map(|word| word.to_lossy()).collect();
    let line = on_one_line(&words.join(" "));
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exec_is_a_line_whatever_its_arguments() {
        let record = |argv: &[&str], ending: serde_json::Value| -> ExecRecord {
            serde_json::from_value(serde_json::json!({
                "schema": "min/v1/exec", "id": "01909a31-0000-7000-8000-00000badcafe",
                "box": "01909a30-0000-7000-8000-0000deadbeef", "argv": argv, "mode": "detached",
                "user": null, "state": if ending.is_null() { "running" } else { "exited" },
                "ending": ending, "created_at": "2026-01-02T03:04:05.000000Z",
                "started_at": null, "ended_at": null, "log": {"bytes": 0, "dropped_bytes": 0},
            }))
            .unwrap()
        };
        let ending = serde_json::json!({
            "reason": "exit", "exit_code": 9, "signal": null, "signal_number": null,
            "core_dumped": false, "at": "2026-01-02T03:04:05.000006Z", "observed_by": "keeper",
            "detail": {},
        });
        let long = "x".repeat(100);
        let execs = [
            record(&["sh", "-c", "a\nb"], serde_json::Value::Null),
            record(&["echo", &long], ending),
        ];
        let now = "2026-01-02T03:05:05.000000Z".parse().unwrap();
        let expected = format!(
            "ID        STATE    ENDING  MODE      AGE  COMMAND\n\
             0badcafe  running          detached  1m   sh -c a\\nb\n\
             0badcafe  exited   exit 9  detached  1m   echo {}…\n",
            "x".repeat(LONGEST - 5)
        );
        assert_eq!(table(&execs, now), expected);
    }
}
