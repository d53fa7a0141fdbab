//! Values in the words that people read.

use std::time::Duration;

use minimal_proto::{Ending, Event, EventData, Reason};

/// How long ago, in the largest unit that fits.
#[must_use]
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number of bytes.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, None);
    for name in UNITS {
        if value < 10_240 {
            break;
        }
        (value, unit) = (value / 1024, Some(name));
    }
    match unit {
        None => format!("{bytes} bytes"),
        Some(unit) => format!("{value} {unit}"),
    }
}

/// Text of somebody else's, so that it stays on its line and tells a terminal nothing.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    text.chars().fold(String::new(), |mut line, char| {
        if char.is_control() {
            line.extend(char.escape_default());
        } else {
            line.push(char);
        }
        line
    })
}

/// An ending in a few words: `exit 3`, `timeout (SIGTERM)`, `lost`.
#[must_use]
pub fn ending_in_words(ending: &Ending) -> String {
    let observed = match (ending.exit_code(), ending.signal()) {
        (Some(code), _) => Some(format!("exit {code}")),
        (None, Some(signal)) => Some(signal.to_string()),
        (None, None) => None,
    };
    match (ending.reason(), observed) {
        (Reason::Exit | Reason::Signal, Some(observed)) => observed,
        (Reason::StartFailed, _) => "start failed".to_owned(),
        (reason, Some(observed)) => format!("{reason} ({observed})"),
        (reason, None) => reason.to_string(),
    }
}

/// What an event says beside its type.
#[must_use]
pub fn event_in_words(event: &Event) -> String {
    match &event.data {
        EventData::Created(created) => format!("name {}", created.name),
        EventData::Started(started) => format!("keeper {}", started.keeper_pid),
        EventData::EntrypointReturned(ending) | EventData::Exited(ending) => {
            ending_in_words(ending)
        }
        EventData::Restarted(restarted) => format!("for the {}. time", restarted.restarts),
        EventData::Ready | EventData::Paused | EventData::Unpaused => String::new(),
        EventData::Attached(note) | EventData::Detached(note) => {
            if note.input {
                "with input".to_owned()
            } else {
                String::new()
            }
        }
        EventData::Degraded(degraded) => degraded.cause.clone(),
        EventData::Renamed(renamed) => format!("{} to {}", renamed.from, renamed.to),
        EventData::StopRequested(stop) => {
            if stop.force {
                "by force".to_owned()
            } else {
                format!("grace {} ms", stop.grace_ms)
            }
        }
        EventData::ExecStarted(started) => {
            let words: Vec<_> = started.argv.iter().map(|word| word.to_lossy()).collect();
            format!("{} {}", started.exec.short(), words.join(" "))
        }
        EventData::ExecExited(exited) => {
            format!("{} {}", exited.exec.short(), ending_in_words(&exited.ending))
        }
        EventData::ExecsNotListed(not_listed) => {
            format!("after the first {} commands", not_listed.listed)
        }
        EventData::Resumed(resumed) => {
            format!("life {}, after {}", resumed.life, ending_in_words(&resumed.former))
        }
        EventData::Failed(ending) | EventData::ResumeFailed(ending) => {
            let message = ending.detail().get("message").and_then(serde_json::Value::as_str);
            message.unwrap_or("start failed").to_owned()
        }
        EventData::Unknown { data, .. } => data.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_rounded_down() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3_599, "59m"), (3_600, "1h"), (200_000, "2d")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn sizes_have_two_digits_or_more() {
        for (bytes, text) in
            [(0, "0 bytes"), (10_239, "10239 bytes"), (10_240, "10 KiB"), (256 << 20, "256 MiB")]
        {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn an_ending_names_what_was_seen() {
        let ending = |reason: &str, code: Option<u8>, signal: Option<&str>| -> Ending {
            serde_json::from_value(serde_json::json!({
                "reason": reason, "exit_code": code, "signal": signal, "signal_number": null,
                "core_dumped": false, "at": "2026-01-02T03:04:05.000006Z",
                "observed_by": "keeper", "detail": {},
            }))
            .unwrap()
        };
        assert_eq!(ending_in_words(&ending("exit", Some(3), None)), "exit 3");
        assert_eq!(ending_in_words(&ending("signal", None, Some("SIGKILL"))), "SIGKILL");
        assert_eq!(ending_in_words(&ending("timeout", None, Some("SIGTERM"))), "timeout (SIGTERM)");
        assert_eq!(ending_in_words(&ending("stopped", Some(4), None)), "stopped (exit 4)");
        assert_eq!(ending_in_words(&ending("lost", None, None)), "lost");
        assert_eq!(ending_in_words(&ending("start_failed", None, None)), "start failed");
    }
}
