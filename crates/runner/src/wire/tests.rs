//! The frames of `tests/golden/runner`, read and written; and frames that nobody has thought of.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

fn golden(file: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/golden/runner/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn request(frame: &Value) -> Request {
    Request::read(&frame.to_string()).unwrap_or_else(|error| panic!("{frame}: {error}"))
}

fn to_hub(frame: &Value) -> ToHub {
    ToHub::read(&frame.to_string()).unwrap()
}

#[test]
fn requests_are_written_as_they_are_read() {
    let frames = golden("requests.jsonl");
    let mut words = std::collections::BTreeSet::new();
    for frame in &frames {
        let request = request(frame);
        let op = request.op.unwrap();
        assert_eq!(json(&Request::text(request.id, &op)), *frame);
        words.insert(op.word());
    }
    assert_eq!(words.len(), 14, "a sample of each op");
    for case in golden("requests.lenient.jsonl") {
        assert_eq!(request(&case["frame"]), request(&case["same_as"]), "{case}");
    }
}

#[test]
fn wrong_requests_are_refused_by_field_or_not_read() {
    for case in golden("requests.refused.jsonl") {
        let Request { id, op } = request(&case["frame"]);
        let reply = Reply { id, result: Err(op.expect_err("refused")) };
        assert_eq!(json(&reply.text()), case["reply"]);
    }
    let long = serde_json::json!({"id": 1, "op": "get", "name": "x".repeat(300)});
    assert_eq!(request(&long).op.unwrap_err().code, Code::Invalid);
    for case in golden("requests.unreadable.jsonl") {
        Request::read(case["text"].as_str().unwrap()).expect_err("unreadable");
    }
}

#[test]
fn frames_for_the_hub_are_written_as_they_are_read() {
    for frame in golden("to_hub.jsonl") {
        let text = match to_hub(&frame) {
            ToHub::Reply(reply) => reply.text(),
            ToHub::Stream(stream) => stream.text().unwrap(),
            other => panic!("{frame} is read as {other:?}"),
        };
        assert_eq!(json(&text), frame);
    }
}

#[test]
fn what_a_frame_lacks_is_not_made_up() {
    for case in golden("to_hub.lenient.jsonl") {
        let read = to_hub(&case["frame"]);
        let Some(meaning) = case["means"].as_str() else {
            assert_eq!(read, to_hub(&case["same_as"]), "{case}");
            continue;
        };
        let word = match &read {
            ToHub::Stream(StreamFrame { kind: StreamKind::ExitWithoutCode, .. }) => {
                "exit_without_code"
            }
            ToHub::MalformedReply { .. } => "malformed_reply",
            ToHub::Unknown => "unknown",
            ToHub::Stream(_) | ToHub::Reply(_) => "something else",
        };
        assert_eq!(word, meaning, "{case} is read as {read:?}");
    }
}

#[test]
fn results_without_a_code_or_output_have_none() {
    let object = |text: &str| json(text).as_object().cloned().unwrap();
    let whole = Results::exec(b"a\xff", ExitCode::as_told(42));
    assert_eq!(Results::read_exec(&whole), Some((b"a\xff".to_vec(), ExitCode::as_told(42))));
    for wrong in [
        r"{}",
        r#"{"output":"aGk="}"#,
        r#"{"output":"aGk=","code":null}"#,
        r#"{"output":"aGk=","code":"0"}"#,
        r#"{"code":0}"#,
        r#"{"output":null,"code":0}"#,
    ] {
        assert_eq!(Results::read_exec(&object(wrong)), None, "{wrong}");
    }
    assert_eq!(Results::read_session(&Map::new()), None);
    assert_eq!(Results::read_session(&Results::session("s")).as_deref(), Some("s"));
    assert_eq!(Results::read_list(&object(r#"{"names":"a"}"#)), None);
    assert_eq!(Results::read_list(&object(r#"{"names":["a",1]}"#)), None);
    assert_eq!(Results::read_list(&Results::list(&["a".into()])), Some(vec!["a".to_owned()]));
}

#[test]
fn a_frame_past_the_limit_is_not_read() {
    let frame = |bytes: usize| {
        let whole = Request::text(1, &Op::Detach { session_id: "s".into() });
        format!("{whole}{}", " ".repeat(bytes - whole.len()))
    };
    let (longest, longer) = (frame(FRAME_MAX), frame(FRAME_MAX + 1));
    assert_eq!(longest.len(), FRAME_MAX);
    Request::read(&longest).unwrap().op.unwrap();
    assert!(matches!(Request::read(&longer), Err(BadFrame::Long { .. })));
}

fn leaf() -> impl Strategy<Value = Value> {
    let words = ["create", "exec", "spawn", "stdin", "attach", "stdout", "exit", "s-1", "aGk="];
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(words.to_vec()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        proptest::collection::vec(any::<String>(), 0..3).prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn no_text_panics(text: String) {
        drop(Request::read(&text));
        drop(ToHub::read(&text));
    }

    #[test]
    fn no_object_panics_and_none_makes_up_a_code(
        fields in proptest::collection::btree_map(
            proptest::sample::select(vec![
                "id", "op", "name", "ok", "result", "error", "detail", "stream", "session_id",
                "data", "code", "replay_for", "cmd", "args", "env", "dir", "timeout_ms", "mode",
                "stdin", "path",
            ]),
            leaf(),
            0..12,
        ),
    ) {
        let object = Value::Object(fields.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect());
        drop(Request::read(&object.to_string()));
        if let ToHub::Stream(StreamFrame { kind: StreamKind::Exit(code), .. }) = to_hub(&object) {
            prop_assert_eq!(object["code"].as_i64(), Some(i64::from(code.get())));
        }
    }
}
