//! From a box's creation to its removal.

use minimal_proto::Signal;
use minimal_proto::api::{CreateBox, SignalBox, StartOptions, StopBox};
use minimal_proto::keeper::ToKeeper;
use serde_json::Value;

use crate::testing::{LIMIT, World, create, ending, within};

#[tokio::test]
async fn a_box_is_created_runs_and_ends() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let path = format!("/v1/boxes/{}", keeper.id);
    let (status, record) = world.call("GET", &path).await;
    assert_eq!((status, &record["state"]), (200, &Value::from("running")));
    assert_eq!(record["name"], "sh-1");
    assert_eq!(record["program"], "/bin/sh");
    let brief = world.call("GET", "/v1/boxes?brief=true").await.1["boxes"][0].clone();
    assert_eq!((&brief["name"], &brief["state"]), (&"sh-1".into(), &"running".into()));
    let (status, error) = world.call("GET", &format!("{path}/wait?timeout_ms=1")).await;
    assert_eq!((status, &error["code"]), (408, &Value::from("wait_timeout")));

    keeper.prints(b"hello\n").await;
    keeper.end(ending("exit", Some(42), 6)).await;
    let (status, answer) = world.call("GET", &format!("{path}/wait")).await;
    assert_eq!((status, &answer["ending"]["exit_code"]), (200, &Value::from(42)));
    let record = world.call("GET", "/v1/boxes/sh-1").await.1;
    assert_eq!((&record["state"], &record["log"]["bytes"]), (&"exited".into(), &6.into()));
    assert!(record["disk_bytes"].is_u64());
    let unmeasured = world.call("GET", "/v1/boxes/sh-1?measure=false").await.1;
    assert!(unmeasured["disk_bytes"].is_null() && unmeasured["log"] == record["log"]);
    assert_eq!(world.bytes(&format!("{path}/log")).await, b"hello\n");
    let list = world.call("GET", "/v1/boxes?state=exited").await.1;
    assert_eq!(list["boxes"][0]["id"], record["id"]);
    assert_eq!(list["next"], Value::Null);
    let brief = world.call("GET", "/v1/boxes?brief=true").await.1["boxes"][0].clone();
    for (key, value) in brief.as_object().unwrap() {
        if key != "ending" {
            assert_eq!(*value, record[key], "{key}");
        }
    }
    assert_eq!(brief["ending"]["exit_code"], 42);
    assert!(brief["enforcement"].is_null() && brief["ending"]["detail"]["log_end"].is_null());

    let (status, _) = world.call("DELETE", &path).await;
    assert_eq!(status, 200);
    assert_eq!(world.call("GET", &path).await.0, 404);
}

#[tokio::test]
async fn a_start_that_fails_is_a_box_and_not_an_error() {
    let mut world = World::new().await;
    let socket = world.socket();
    let creating = tokio::spawn(async move {
        crate::testing::call(&socket, "POST", "/v1/boxes", &[], Some(&create())).await
    });
    let mut keeper = world.keeper().await;
    keeper.hello().await;
    keeper.end(ending("start_failed", None, 0)).await;
    let (status, record) = within(creating).await.unwrap();
    assert_eq!((status, &record["state"]), (201, &"failed".into()), "{record}");
    assert_eq!(record["ending"]["exit_code"], Value::Null);
}

#[tokio::test]
async fn a_keeper_that_dies_during_the_start_leaves_an_interrupted_one() {
    let mut world = World::new().await;
    let socket = world.socket();
    let creating = tokio::spawn(async move {
        crate::testing::call(&socket, "POST", "/v1/boxes", &[], Some(&create())).await
    });
    drop(world.keeper().await);
    let (status, record) = within(creating).await.unwrap();
    assert_eq!((status, &record["state"]), (201, &"failed".into()), "{record}");
    let ending = &record["ending"];
    assert_eq!((&ending["observed_by"], &ending["exit_code"]), (&"daemon".into(), &Value::Null));
    assert_eq!(ending["detail"]["interrupted"], true);
}

#[tokio::test]
async fn a_keeper_that_vanishes_leaves_a_lost_box() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    // Printed, but nobody was told; and then it is gone.
    keeper.print(b"last words");
    drop(keeper);
    let ending = world.call("GET", &format!("/v1/boxes/{id}/wait")).await.1["ending"].take();
    assert_eq!((&ending["reason"], &ending["exit_code"]), (&"lost".into(), &Value::Null));
    assert_eq!(ending["detail"]["last_event"]["type"], "started");
    assert_eq!(ending["detail"]["boot_changed"], true, "it was started in the boot `b`");
    assert_eq!(world.bytes(&format!("/v1/boxes/{id}/log")).await, b"last words");
    let record = world.record_until(id, |record| record["state"] == "stopped").await;
    assert_eq!(record["ending"], ending);
}

#[tokio::test]
async fn an_ending_on_disk_counts_though_nobody_told_it() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    keeper.print(b"abc");
    keeper.end_silently(&ending("exit", Some(3), 3));
    drop(keeper);
    let answer = world.call("GET", &format!("/v1/boxes/{id}/wait")).await.1;
    assert_eq!(answer["ending"]["exit_code"], 3);
    assert_eq!(world.bytes(&format!("/v1/boxes/{id}/log?follow=true")).await, b"abc");
}

#[tokio::test]
async fn a_stop_answers_after_the_end_and_again_on_an_ended_box() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let path = format!("/v1/boxes/{}/stop", keeper.id);
    let request = StopBox { force: false, grace_ms: Some(7) };
    let stopping = world.post(&path, &[], &request);
    let keeping = async {
        let ToKeeper::Stop { request, force: false, grace_ms: Some(7) } =
            keeper.hear_request().await
        else {
            panic!()
        };
        keeper.done(request).await;
        keeper.end(ending("stopped", Some(0), 0)).await;
    };
    let ((status, record), ()) = tokio::join!(stopping, keeping);
    assert_eq!((status, &record["state"]), (200, &"stopped".into()));
    let (status, record) = world.post(&path, &[], &request).await;
    assert_eq!((status, &record["ending"]["reason"]), (200, &"stopped".into()));
}

#[tokio::test]
async fn a_stop_that_meets_the_end_has_its_wish() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let path = format!("/v1/boxes/{}", keeper.id);
    let (stop, term) = (format!("{path}/stop"), SignalBox { signal: Signal::TERM });
    let signal = format!("{path}/signal");
    let request = StopBox::default();
    let stopping = world.post(&stop, &[], &request);
    let signalling = world.post(&signal, &[], &term);
    let keeping = async {
        // Both are asked for, and neither is answered.
        keeper.hear_request().await;
        keeper.hear_request().await;
        keeper.end(ending("exit", Some(0), 0)).await;
    };
    let ((stopped, record), (signalled, error), ()) = tokio::join!(stopping, signalling, keeping);
    assert_eq!((stopped, &record["ending"]["reason"]), (200, &"exit".into()));
    assert_eq!((signalled, &error["code"]), (409, &"wrong_state".into()));
    assert_eq!(world.post(&signal, &[], &term).await.0, 409);
}

#[tokio::test]
async fn removing_a_running_box_needs_force() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    let (status, error) = world.call("DELETE", &format!("/v1/boxes/{id}")).await;
    assert_eq!((status, &error["code"]), (409, &"needs_force".into()));
    let path = format!("/v1/boxes/{id}?force=true");
    let keeping = async {
        let ToKeeper::Stop { force: true, .. } = keeper.hear_request().await else { panic!() };
        keeper.end(ending("stopped", Some(0), 0)).await;
    };
    let ((status, _), ()) = tokio::join!(world.call("DELETE", &path), keeping);
    assert_eq!(status, 200);
    assert!(!world.box_path(id).exists());
}

#[tokio::test]
async fn a_box_made_to_be_removed_goes_when_its_ending_is_known() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions { remove: true, ..Default::default() }).await;
    let id = keeper.id;
    let path = format!("/v1/boxes/{id}/acknowledge");
    assert_eq!(world.call("POST", &path).await.0, 409, "it runs");
    keeper.end(ending("exit", Some(0), 0)).await;
    world.call("GET", &format!("/v1/boxes/{id}/wait")).await;
    assert_eq!(world.call("POST", &path).await.0, 200);
    assert!(!world.box_path(id).exists());
    // Another box is not touched by it.
    let keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    keeper.end(ending("exit", Some(0), 0)).await;
    world.call("GET", &format!("/v1/boxes/{id}/wait")).await;
    assert_eq!(world.call("POST", &format!("/v1/boxes/{id}/acknowledge")).await.0, 200);
    assert!(world.box_path(id).exists());
}

#[tokio::test]
async fn the_same_key_is_the_same_box() {
    let mut world = World::new().await;
    let headers = [("idempotency-key", "once")];
    let (request, socket) = (create(), world.socket());
    let keeping = async {
        let mut keeper = world.keeper().await;
        keeper.start().await;
        keeper
    };
    // Twice at the same time: one box, and both are told of it.
    let first = crate::testing::call(&socket, "POST", "/v1/boxes", &headers, Some(&request));
    let second = crate::testing::call(&socket, "POST", "/v1/boxes", &headers, Some(&request));
    let ((one, first), (two, second), keeper) = tokio::join!(first, second, keeping);
    assert_eq!([one, two].iter().filter(|status| **status == 201).count(), 1, "{one} {two}");
    assert_eq!(first["id"], second["id"]);

    let other =
        CreateBox { start: StartOptions { input: true, ..request.start.clone() }, ..create() };
    let (status, error) = world.post("/v1/boxes", &headers, &other).await;
    assert_eq!((status, &error["code"]), (409, &"key_reused".into()));

    // Also after a restart, and after the box has ended.
    keeper.end(ending("exit", Some(0), 0)).await;
    world.call("GET", &format!("/v1/boxes/{}/wait", first["id"].as_str().unwrap())).await;
    let world = within(world.restart()).await;
    let (status, third) = world.post("/v1/boxes", &headers, &request).await;
    assert_eq!((status, &third["id"]), (200, &first["id"]));
    assert_eq!(third["state"], "exited");
}

#[tokio::test]
async fn a_held_name_and_a_host_without_isolation_make_nothing() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let mut named = create();
    named.spec.identity.name = Some("sh-1".parse().unwrap());
    let (status, error) = world.post("/v1/boxes", &[], &named).await;
    assert_eq!((status, &error["code"]), (409, &"name_held".into()));
    assert_eq!(error["details"]["holder"], keeper.id.to_string());

    world.refuse_isolation();
    let (status, error) = world.post("/v1/boxes", &[], &create()).await;
    assert_eq!((status, &error["code"]), (503, &"isolation_unavailable".into()));
    assert!(error["message"].as_str().unwrap().contains("user namespaces are off"));
    assert!(error["hint"].as_str().unwrap().contains("min doctor"));
    let list = world.call("GET", "/v1/boxes").await.1;
    assert_eq!(list["boxes"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_keeper_that_stays_silent_is_unresponsive_until_it_speaks() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    let path = format!("/v1/boxes/{id}");
    let since = tokio::time::Instant::now();
    let record = world.record_until(id, |record| record["health"] == "unresponsive").await;
    assert!(since.elapsed().as_millis() < 3_500, "{:?}", since.elapsed());
    assert_eq!(record["state"], "running", "that is no ending");
    let (status, error) = world.post(&format!("{path}/stop"), &[], &StopBox::default()).await;
    assert_eq!((status, &error["code"]), (503, &"unresponsive".into()));
    keeper.prints(b"x").await;
    world.record_until(id, |record| record["health"] == "ok").await;
    assert!(since.elapsed() < LIMIT);
}

#[tokio::test]
async fn an_ending_that_is_not_on_disk_is_no_ending_but_is_no_secret() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    keeper.hello_with(Some(ending("exit", Some(0), 0))).await;
    let record = world.record_until(id, |record| record["health"] == "degraded").await;
    assert_eq!((&record["state"], &record["ending"]), (&"running".into(), &Value::Null));
    assert!(record["health_reason"].as_str().unwrap().contains("exit"), "{record}");
    keeper.end(ending("exit", Some(0), 0)).await;
    let record = world.record_until(id, |record| record["state"] == "exited").await;
    assert_eq!(record["health"], "ok");
}

#[tokio::test]
async fn a_repeat_takes_the_place_of_a_try_that_was_cut_short() {
    let mut world = World::new().await;
    let headers = [("idempotency-key", "once")];
    let (request, socket) = (create(), world.socket());
    let first = crate::testing::call(&socket, "POST", "/v1/boxes", &headers, Some(&request));
    let dying = async { drop(world.keeper().await) };
    let ((status, first), ()) = tokio::join!(first, dying);
    assert_eq!((status, &first["ending"]["detail"]["interrupted"]), (201, &true.into()));

    let repeat = crate::testing::call(&socket, "POST", "/v1/boxes", &headers, Some(&request));
    let keeping = async {
        let mut keeper = world.keeper().await;
        keeper.start().await;
        keeper
    };
    let ((status, repeat), keeper) = tokio::join!(repeat, keeping);
    assert_eq!((status, &repeat["state"]), (201, &"running".into()));
    assert_ne!(repeat["id"], first["id"]);
    let list = world.call("GET", "/v1/boxes").await.1;
    assert_eq!(list["boxes"].as_array().unwrap().len(), 1, "the try is gone: {list}");
    drop(keeper);
}

#[tokio::test]
async fn a_box_whose_directory_was_deleted_is_gone_and_nobody_hangs() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    let mut client = crate::testing::Attached::to(&world.socket(), id, "").await.expect("attached");
    let Some(crate::index::Entry::Live(live)) = world.host.index.get(id) else { panic!() };
    std::fs::remove_dir_all(world.box_path(id)).unwrap();
    drop(keeper);
    let error = within(live.ended()).await.unwrap_err();
    assert_eq!(error.code, minimal_proto::ErrorCode::ExitUnknown);
    let error = loop {
        match client.message().await {
            minimal_proto::stream::ServerMessage::Error(error) => break error,
            message => assert!(!message.is_terminal(), "{message:?}"),
        }
    };
    assert_eq!(error.code, minimal_proto::ErrorCode::ExitUnknown);
    assert_eq!(world.call("GET", &format!("/v1/boxes/{id}")).await.0, 404);
}
