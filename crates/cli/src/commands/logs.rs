//! `min logs`

use std::collections::BTreeMap;

use minimal_proto::stream::Stream;
use minimal_proto::{ByteString, Timestamp};
use minimal_sdk::{LogPiece, LogQuery, LogStart, Subject};
use serde_json::json;

use crate::args::{Format, LogsArgs, Since};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;

/// Prints what a box or an exec has printed: each stream to its own.
pub(super) async fn run(context: &Context, args: &LogsArgs) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let record = client.get(&args.one.address).await?;
    let subject = match &args.exec.exec {
        None => Subject::from(record.id),
        Some(exec) => (record.id, client.exec(record.id, exec).await?.id).into(),
    };
    let start = match (args.tail, args.since) {
        (Some(lines), _) => LogStart::Tail(lines),
        (None, Some(Since::Time(time))) => LogStart::Since(time),
        (None, Some(Since::Ago(ago))) => LogStart::Since(before(Timestamp::now(), ago)),
        (None, None) => LogStart::Beginning,
    };
    let query = LogQuery { start, stream: args.stream.map(Stream::from), follow: args.follow };
    let mut log = client.log(subject, query).await?;
    let mut lines = Lines::default();
    while let Some(piece) = log.next().await? {
        match (piece, context.printer.format()) {
            (LogPiece::Output { stream, time, bytes, .. }, Format::Table) if args.timestamps => {
                context.printer.output(stream, &lines.stamp(stream, time, &bytes))?;
            }
            (LogPiece::Output { stream, bytes, .. }, Format::Table) => {
                context.printer.output(stream, &bytes)?;
            }
            (LogPiece::Output { stream, offset, time, bytes }, Format::Json | Format::Jsonl) => {
                let bytes = ByteString::from(bytes.to_vec());
                context.printer.json_line(&json!({
                    "schema": "min/v1/output", "stream": stream, "offset": offset, "ts": time,
                    "bytes": bytes,
                }))?;
            }
            (LogPiece::Gap { from, to }, Format::Table) => {
                context.printer.warn(&format!("{} bytes are no longer kept here", to - from));
            }
            (LogPiece::Gap { from, to }, Format::Json | Format::Jsonl) => {
                context.printer.json_line(
                    &json!({"schema": "min/v1/output", "gap": {"from": from, "to": to}}),
                )?;
            }
        }
    }
    Ok(Exit::Done)
}

fn before(now: Timestamp, ago: std::time::Duration) -> Timestamp {
    let micros = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(micros))
}

/// Puts a time before each line of each stream.
#[derive(Debug, Default)]
struct Lines {
    inside: BTreeMap<Stream, bool>,
}

impl Lines {
    fn stamp(&mut self, stream: Stream, time: Timestamp, bytes: &[u8]) -> Vec<u8> {
        let inside = self.inside.entry(stream).or_insert(false);
        let mut stamped = Vec::with_capacity(bytes.len() + 64);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !*inside {
                stamped.extend_from_slice(time.to_string().as_bytes());
                stamped.push(b' ');
            }
            stamped.extend_from_slice(line);
            *inside = !line.ends_with(b"\n");
        }
        stamped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_one_time_wherever_it_was_cut() {
        let time = |micros| Timestamp::from_micros(micros);
        let mut lines = Lines::default();
        let mut text = Vec::new();
        for (micros, part) in [(1, "one\ntw"), (2, "o"), (3, "\n\nthree")] {
            text.extend(lines.stamp(Stream::Stdout, time(micros), part.as_bytes()));
        }
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
        1970-01-01T00:00:00.000001Z one
        1970-01-01T00:00:00.000001Z two
        1970-01-01T00:00:00.000003Z 
        1970-01-01T00:00:00.000003Z three
        ");
        assert_eq!(before(time(5), std::time::Duration::MAX), time(5 - i64::MAX));
    }
}
