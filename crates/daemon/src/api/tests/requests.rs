//! Requests that are wrong in themselves.

use serde_json::{Value, json};

use crate::testing::{World, create};

#[tokio::test]
async fn every_fault_is_an_error_body() {
    let world = World::new().await;
    let unknown = "01909a30-0000-7000-8000-0000deadbeef";
    for (method, path, status, code) in [
        ("GET", "/", 404, "not_found"),
        ("GET", "/v2/boxes", 404, "not_found"),
        ("PUT", "/v1/boxes", 400, "bad_request"),
        ("GET", "/v1/boxes?limit=0", 400, "bad_request"),
        ("GET", "/v1/boxes?limit=many", 400, "bad_request"),
        ("GET", "/v1/boxes?state=asleep", 400, "bad_request"),
        ("GET", "/v1/boxes/nobody", 404, "not_found"),
        ("GET", "/v1/boxes/%ff", 400, "bad_request"),
        ("POST", "/v1/boxes", 400, "bad_request"),
        ("GET", "/v1/boxes/nobody/attach", 400, "bad_request"),
        ("DELETE", &format!("/v1/boxes/{unknown}?force=perhaps"), 400, "bad_request"),
        ("POST", &format!("/v1/boxes/{unknown}/stop"), 404, "not_found"),
        ("GET", &format!("/v1/boxes/{unknown}/log?tail=1&from=1"), 400, "bad_request"),
    ] {
        let (answered, error) = world.call(method, path).await;
        assert_eq!((answered, &error["code"]), (status, &Value::from(code)), "{method} {path}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{method} {path}");
        assert_eq!(error["retryable"], false);
    }
}

#[tokio::test]
async fn wrong_bodies_say_what_is_wrong() {
    let world = World::new().await;
    let mut body = serde_json::to_value(create()).unwrap();
    body["spec"]["later"] = json!(1);
    let (status, error) = world.post("/v1/boxes", &[], &body).await;
    assert_eq!((status, &error["code"]), (400, &"bad_request".into()));
    assert!(error["message"].as_str().unwrap().contains("later"), "{error}");

    let mut empty = create();
    empty.spec.execution.exec.clear();
    let (status, error) = world.post("/v1/boxes", &[], &empty).await;
    assert_eq!((status, &error["code"]), (400, &"invalid_spec".into()));

    let long = "k".repeat(201);
    let (status, error) = world.post("/v1/boxes", &[("idempotency-key", &long)], &create()).await;
    assert_eq!((status, &error["code"]), (400, &"bad_request".into()));
}

#[tokio::test]
async fn the_host_tells_of_itself() {
    let world = World::new().await;
    assert_eq!(world.call("GET", "/v1/healthz").await, (200, json!({"ok": true})));
    let version = world.call("GET", "/v1/version").await.1;
    assert_eq!((&version["build"], &version["api"]), (&"test".into(), &1.into()));
    let host = world.call("GET", "/v1/host").await.1;
    assert_eq!(host["isolation"], json!({"state": "available", "users": "single"}));
    let metrics = String::from_utf8(world.bytes("/metrics").await).unwrap();
    assert!(metrics.contains("\nminimal_keepers 0\n"), "{metrics}");
}

#[tokio::test]
async fn a_daemon_that_leaves_makes_no_box() {
    let world = World::new().await;
    assert_eq!(world.call("POST", "/v1/step-down").await.0, 200);
    let (status, error) = world.post("/v1/boxes", &[], &create()).await;
    assert_eq!((status, &error["code"]), (503, &"stepping_down".into()));
    assert_eq!(error["retryable"], true);
}

/// The reference is written by hand, but not its table of codes.
#[test]
fn the_error_codes_in_the_reference_are_those_of_the_code() {
    use std::fmt::Write as _;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/wire.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, rest) = page.split_once("<!-- error-codes: begin -->\n").unwrap();
    let (table, _) = rest.split_once("<!-- error-codes: end -->").unwrap();
    let mut expected = String::from("| code | HTTP | exit status | again | meaning |\n");
    expected.push_str("|---|---|---|---|---|\n");
    for code in minimal_proto::ErrorCode::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        let (http, exit) = (code.http_status(), code.exit_status());
        let meaning = code.meaning();
        writeln!(expected, "| `{code}` | {http} | {exit} | {again} | {meaning} |").unwrap();
    }
    assert_eq!(table, expected);
}
