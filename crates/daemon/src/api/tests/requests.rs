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

    // A spec that was changed after its digest was made.
    let mut changed = create();
    let meant = minimal_spec::digest(&changed.spec);
    changed.digest = Some(meant.clone());
    changed.spec.execution.exec.push("more".into());
    let (status, error) = world.post("/v1/boxes", &[], &changed).await;
    assert_eq!((status, &error["code"]), (409, &"digest_mismatch".into()));
    let details = &error["details"];
    assert_eq!(details["client"], meant);
    assert_eq!(details["daemon"], minimal_spec::digest(&changed.spec));

    // One with a matching digest that its root type does not allow.
    let mut wide = create();
    wide.spec.identity.box_type = minimal_proto::spec::Builtin::Build.into();
    wide.spec.network.mode = minimal_proto::spec::NetworkMode::HostIp;
    wide.digest = Some(minimal_spec::digest(&wide.spec));
    let (status, error) = world.post("/v1/boxes", &[], &wide).await;
    assert_eq!((status, &error["code"]), (400, &"constraint_violation".into()));
    assert_eq!(
        (&error["details"]["key"], &error["details"]["type"]),
        (&"network.mode".into(), &"build".into())
    );

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
fn the_generated_table_of_error_codes_is_that_of_the_code() {
    use std::fmt::Write as _;
    const MARKS: (&str, &str) = ("<!-- error-codes: begin -->\n", "<!-- error-codes: end -->");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/wire.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(MARKS.0).unwrap();
    let (_, after) = rest.split_once(MARKS.1).unwrap();
    let mut table = String::from("| code | HTTP | exit status | again | meaning |\n");
    table.push_str("|---|---|---|---|---|\n");
    for code in minimal_proto::ErrorCode::ALL {
        let again = if code.retryable() { "yes" } else { "no" };
        let (http, exit) = (code.http_status(), code.exit_status());
        let meaning = code.meaning();
        writeln!(table, "| `{code}` | {http} | {exit} | {again} | {meaning} |").unwrap();
    }
    let expected = [before, MARKS.0, &table, MARKS.1, after].concat();
    crate::testing::compare_generated(std::path::Path::new(path), &expected);
}
