//! What releases wrote to wires and disks is readable, also with fields that nobody knows yet.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};

use minimal_proto::api::{BoxList, BoxRecord, CreateBox, HostInfo, VersionInfo, WaitAnswer};
use minimal_proto::keeper::{Decoder, FromKeeper, Incoming, ToKeeper};
use minimal_proto::stream::{ClientMessage, InputFrame, OutputFrame, ServerMessage};
use minimal_proto::{Ending, ErrorBody, Event, Spec};
use minimal_testkit::for_each_user;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// The samples of each release; what else is there (`spec`) is no release's.
fn releases() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden");
    let mut releases: Vec<PathBuf> = fs::read_dir(all)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("records.jsonl").is_file())
        .collect();
    releases.sort();
    assert!(!releases.is_empty());
    releases
}

fn lines(path: &Path) -> Vec<Value> {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Adds a field to every object that has fields of fixed names.
fn with_unknown_fields(value: &Value) -> Value {
    /// Objects whose keys are the user's, or whose form is closed.
    const CLOSED: [&str; 8] =
        ["env", "values", "detail", "details", "boxes", "spec", "data", "LANG"];
    match value {
        Value::Object(map) => {
            let mut more: serde_json::Map<String, Value> = map
                .iter()
                .map(|(key, value)| {
                    let closed = CLOSED.contains(&key.as_str()) && value.is_object();
                    (key.clone(), if closed { value.clone() } else { with_unknown_fields(value) })
                })
                .collect();
            if !map.contains_key("base64") {
                more.insert("from_a_later_version".to_owned(), Value::Bool(true));
            }
            Value::Object(more)
        }
        Value::Array(list) => Value::Array(list.iter().map(with_unknown_fields).collect()),
        other => other.clone(),
    }
}

/// Each line reads as `T`, writes itself as it was, and reads the same with fields added.
fn hold<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &str, open: bool) {
    for release in releases() {
        let path = release.join(name);
        for line in lines(&path) {
            let value: T = serde_json::from_value(line.clone())
                .unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()));
            let again = serde_json::to_value(&value).unwrap();
            // A later version may write more than it read, never less or other.
            assert!(covers(&again, &line), "{}: read {line}, wrote {again}", path.display());
            if open {
                let more = with_unknown_fields(&line);
                let of_more: T = serde_json::from_value(more.clone())
                    .unwrap_or_else(|error| panic!("{}: {error}: {more}", path.display()));
                assert_eq!(of_more, value, "{}", path.display());
            }
        }
    }
}

fn covers(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| covers(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len()
                && whole.iter().zip(part).all(|(whole, part)| covers(whole, part))
        }
        _ => whole == part,
    }
}

#[test]
fn endings() {
    hold::<Ending>("endings.jsonl", true);
    for release in releases() {
        for line in lines(&release.join("endings.refused.jsonl")) {
            assert!(serde_json::from_value::<Ending>(line.clone()).is_err(), "{line}");
        }
    }
}

#[test]
fn events() {
    // An event that is unknown keeps what it holds, so the added fields are added to known ones.
    hold::<Event>("events.jsonl", true);
    hold::<Event>("events.failed.jsonl", true);
    for release in releases() {
        for name in ["events.jsonl", "events.failed.jsonl"] {
            let events = lines(&release.join(name))
                .into_iter()
                .map(|line| serde_json::from_value::<Event>(line).unwrap());
            let events: Vec<Event> = events.collect();
            let record = minimal_store::Record::fold(&events).unwrap();
            assert_eq!(record.last_seq, events.len() as u64);
            assert!(record.ending.is_some(), "{record:?}");
        }
    }
}

#[test]
fn answers() {
    hold::<BoxRecord>("records.jsonl", true);
    hold::<BoxList>("list.json", true);
    hold::<HostInfo>("host.json", true);
    hold::<VersionInfo>("version.json", true);
    hold::<WaitAnswer>("wait.json", true);
    hold::<ErrorBody>("errors.jsonl", true);
}

#[test]
fn specs() {
    // A spec is closed on purpose: what it says and nobody knows would not be held.
    hold::<Spec>("spec.json", false);
    hold::<CreateBox>("create.json", false);
    for release in releases() {
        for line in lines(&release.join("spec.json")) {
            assert!(serde_json::from_value::<Spec>(with_unknown_fields(&line)).is_err());
        }
    }
}

#[test]
fn messages() {
    hold::<ServerMessage>("server_messages.jsonl", true);
    hold::<ClientMessage>("client_messages.jsonl", true);
    hold::<ToKeeper>("to_keeper.jsonl", true);
    hold::<FromKeeper>("from_keeper.jsonl", true);
    for unknown in [r#"{"type":"later"}"#, r#"{"type":"later","x":1}"#] {
        assert_eq!(serde_json::from_str::<ServerMessage>(unknown).unwrap(), ServerMessage::Unknown);
        assert_eq!(serde_json::from_str::<ToKeeper>(unknown).unwrap(), ToKeeper::Unknown);
    }
}

#[test]
fn frames() {
    for release in releases() {
        let text = fs::read_to_string(release.join("frames.txt")).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (kind, hex) = line.split_once(' ').unwrap();
            let digits: String = hex.split(' ').collect();
            let bytes: Vec<u8> = (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect();
            match kind {
                "output" => {
                    let frame = OutputFrame::parse(&bytes).unwrap();
                    assert_eq!(
                        (frame.stream.to_byte(), frame.offset, frame.bytes),
                        (2, 258, &b"hi"[..])
                    );
                    assert_eq!([&frame.header()[..], frame.bytes].concat(), bytes);
                }
                "input" => {
                    let frame = InputFrame::parse(&bytes).unwrap();
                    assert_eq!((frame.offset, frame.bytes), (258, &b"hi"[..]));
                    assert_eq!(frame.encode(), bytes);
                }
                "keeper" => {
                    let mut decoder = Decoder::default();
                    decoder.feed(&bytes);
                    match decoder.next_message::<ToKeeper>().unwrap().unwrap() {
                        Incoming::Message(message) => assert_eq!(message, ToKeeper::Unpin),
                        Incoming::Input { offset, bytes } => {
                            assert_eq!((offset, &bytes[..]), (258, &b"hi"[..]));
                        }
                    }
                }
                other => panic!("{other}: of no kind"),
            }
        }
    }
}

fn copy(from: &Path, to: &Path, env: &minimal_testkit::TestEnv) {
    env.account().make_dir(to);
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target, env);
        } else if entry.file_name() != ".gitkeep" {
            fs::copy(entry.path(), &target).unwrap();
            env.account().own(&target);
        }
    }
}

for_each_user! {
    /// The state directory of each release: every record, log and code.
    fn state_directories(env) {
        for release in releases() {
            let name = release.file_name().unwrap().to_string_lossy().into_owned();
            let state = env.root().join(&name);
            copy(&release.join("state"), &state, env);
            env.set_state_dir(&state);
            let expected = minimal_testkit::command::json_file(&release.join("state.expected.json"));
            let expected = expected.as_object().unwrap();
            assert_eq!(env.boxes().len(), expected.len());
            for (id, expected) in expected {
                let record = env.show(id);
                assert!(covers(&record, &expected["record"]), "{record}\nexpected {}", expected["record"]);
                let wait = env.min(["wait", id]).run();
                assert_eq!(wait.code().map(i64::from), expected["status"].as_i64(), "{wait}");
                let logs = env.min(["logs", id]).run();
                assert_eq!(logs.text(), expected["stdout"], "{logs}");
                assert_eq!(logs.stderr, expected["stderr"].as_str().unwrap(), "{logs}");
            }
            env.stop_all();
        }
    }
}
