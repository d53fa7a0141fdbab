//! Execs, with a keeper played by the test.

use std::collections::BTreeMap;

use minimal_proto::api::{CreateExec, StartOptions};
use minimal_proto::exec::{ExecCommand, ExecMode};
use minimal_proto::keeper::{FromKeeper, ToKeeper};
use minimal_proto::stream::{ClientMessage, ServerMessage};
use minimal_proto::{ErrorBody, ErrorCode};
use serde_json::Value;

use crate::testing::{
    Attached, ExecDoor, FakeExec, FakeKeeper, Heard, LockHolder, World, call, ending, within,
};

fn request(mode: ExecMode) -> CreateExec {
    CreateExec {
        command: ExecCommand {
            argv: vec!["/bin/sh".into(), "-c".into(), "secret".into()],
            cwd: None,
            user: None,
            variables: Vec::new(),
            timeout_ms: None,
            stop_grace_ms: None,
            mode,
            input: mode == ExecMode::Attached,
            terminal: None,
        },
        values: BTreeMap::new(),
    }
}

/// Asks for an exec, beside what the test does.
fn ask(
    world: &World,
    keeper: &FakeKeeper,
    key: &'static str,
    request: CreateExec,
) -> tokio::task::JoinHandle<(u16, Value)> {
    let (socket, path) = (world.socket(), format!("/v1/boxes/{}/execs", keeper.id));
    tokio::spawn(async move {
        let headers = [("idempotency-key", key)];
        let headers = if key.is_empty() { &[][..] } else { &headers[..] };
        call(&socket, "POST", &path, headers, Some(&request)).await
    })
}

async fn running(world: &World, keeper: &FakeKeeper, door: &ExecDoor, mode: ExecMode) -> FakeExec {
    let asked = ask(world, keeper, "", request(mode));
    let exec = door.exec().await;
    let (status, record) = within(asked).await.unwrap();
    assert_eq!((status, &record["state"]), (201, &"running".into()), "{record}");
    assert_eq!(record["id"], exec.id.to_string());
    exec
}

fn path(keeper: &FakeKeeper, exec: &FakeExec, rest: &str) -> String {
    format!("/v1/boxes/{}/execs/{}{rest}", keeper.id, exec.id)
}

#[tokio::test]
async fn an_exec_is_run_watched_and_its_end_is_known_by_id() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let mut exec = running(&world, &keeper, &door, ExecMode::Detached).await;
    let record = world.call("GET", &format!("/v1/boxes/{}", keeper.id)).await.1;
    assert_eq!(record["execs"], serde_json::json!([exec.id]));
    let mut client = Attached::at(&world.socket(), &path(&keeper, &exec, "/attach")).await.unwrap();
    let ServerMessage::Attached { exec: Some(id), .. } = client.message().await else { panic!() };
    assert_eq!(id, exec.id);
    exec.prints(b"hello\n").await;
    assert_eq!(client.output_until(0, 6).await, b"hello\n");
    let (show, log, wait) =
        (path(&keeper, &exec, ""), path(&keeper, &exec, "/log"), path(&keeper, &exec, "/wait"));
    // By the end of its id, as listings show it.
    let short = format!("/v1/boxes/{}/execs/{}", keeper.id, exec.id.short());
    assert_eq!(world.call("GET", &short).await.1["id"], exec.id.to_string());
    let timeout = world.call("GET", &format!("{wait}?timeout_ms=0")).await;
    assert_eq!((timeout.0, &timeout.1["code"]), (408, &"wait_timeout".into()));
    exec.end(ending("exit", Some(9), 6)).await;
    let ServerMessage::Exited { ending } = client.message().await else { panic!() };
    assert_eq!(ending.exit_code(), Some(9));
    for _ in 0..2 {
        assert_eq!(world.call("GET", &wait).await.1["ending"]["exit_code"], 9);
        assert_eq!(world.bytes(&log).await, b"hello\n");
        let record = world.call("GET", &show).await.1;
        assert_eq!((&record["state"], &record["log"]["bytes"]), (&"exited".into(), &6.into()));
    }
    world.record_until(keeper.id, |record| record["execs"] == serde_json::json!([])).await;
    // And replayed from its directory.
    let attach = show.clone() + "/attach";
    let mut late = Attached::at(&world.socket(), &attach).await.unwrap();
    late.message().await;
    assert_eq!(late.output_until(0, 6).await, b"hello\n");
    assert_eq!(late.message().await, ServerMessage::Live);
    assert!(late.message().await.is_terminal());
    // Of another box there is none of that id.
    let other = world.running(StartOptions::default()).await;
    let elsewhere = show.replace(&keeper.id.to_string(), &other.id.to_string());
    assert_eq!(world.call("GET", &elsewhere).await.1["code"], "not_found");
}

#[tokio::test]
async fn a_start_that_fails_is_an_exec_with_an_ending() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let asked = ask(&world, &keeper, "", request(ExecMode::Detached));
    let exec = door.caller().await.exec_that_started(None).await;
    let mut failed = serde_json::to_value(ending("lost", None, 0)).unwrap();
    failed["reason"] = "start_failed".into();
    failed["detail"] = serde_json::json!({"fault": "not_found", "step": "execute", "message": "x"});
    exec.end(serde_json::from_value(failed).unwrap()).await;
    let (status, record) = within(asked).await.unwrap();
    assert_eq!((status, &record["state"]), (201, &"failed".into()), "{record}");
    assert_eq!(record["started_at"], Value::Null);
}

#[tokio::test]
async fn what_cannot_be_run_is_refused_before_a_keeper_is_asked() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let path = format!("/v1/boxes/{}/execs", keeper.id);
    let changed = |change: fn(&mut CreateExec)| {
        let mut request = request(ExecMode::Detached);
        change(&mut request);
        request
    };
    for wrong in [
        changed(|it| it.command.argv.clear()),
        changed(|it| it.command.argv[0] = "".into()),
        changed(|it| it.command.argv[1] = "a\0b".into()),
        changed(|it| it.command.user = Some(String::new())),
        changed(|it| it.command.timeout_ms = Some(0)),
        changed(|it| it.command.variables.push("A".to_owned())),
        changed(|it| drop(it.values.insert("A".to_owned(), "x".into()))),
        changed(|it| {
            it.command.variables.push("A=B".to_owned());
            it.values.insert("A=B".to_owned(), "x".into());
        }),
        changed(|it| it.command.argv.push("x".repeat(7 << 20).into())),
    ] {
        let (status, error) = world.post(&path, &[], &wrong).await;
        assert_eq!((status, &error["code"]), (400, &"bad_request".into()), "{error}");
    }
    let id = keeper.id;
    keeper.end(ending("exit", Some(0), 0)).await;
    world.record_until(id, |record| record["state"] == "exited").await;
    let (status, error) = world.post(&path, &[], &request(ExecMode::Detached)).await;
    assert_eq!((status, &error["code"]), (409, &"wrong_state".into()));
    assert!(error["message"].as_str().unwrap().contains("exited"), "{error}");
}

#[tokio::test]
async fn a_keeper_that_refuses_or_knows_no_execs_says_so() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let mut door = ExecDoor::of(&world, &keeper);
    let asked = ask(&world, &keeper, "", request(ExecMode::Detached));
    let mut caller = door.caller().await;
    caller.start().await;
    caller.refuse(ErrorBody::new(ErrorCode::NoResources, "500 are enough")).await;
    assert_eq!(within(asked).await.unwrap().1["code"], "no_resources");
    door.set_hello(|hello| hello.execs = None);
    let asked = ask(&world, &keeper, "", request(ExecMode::Detached));
    let mut caller = door.caller().await;
    let answer = within(asked).await.unwrap().1;
    assert_eq!(answer["code"], "not_supported");
    assert!(answer["hint"].is_string());
    assert!(caller.is_closed().await);
}

#[tokio::test]
async fn a_keeper_that_is_silent_is_left_with_nothing_to_run() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let asked = ask(&world, &keeper, "", request(ExecMode::Detached));
    let mut silent = door.silent().await;
    let (status, error) = within(asked).await.unwrap();
    assert_eq!((status, &error["code"]), (503, &"unresponsive".into()), "{error}");
    assert!(silent.is_closed().await, "it was asked for nothing");
}

#[tokio::test]
async fn the_same_key_is_the_same_exec() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let asked = ask(&world, &keeper, "k", request(ExecMode::Detached));
    let mut exec = door.exec().await;
    assert_eq!(within(asked).await.unwrap().0, 201);
    let start = exec.start.take().unwrap();
    assert_eq!(start.idempotency_key.as_deref(), Some("k"));
    let asked = ask(&world, &keeper, "k", request(ExecMode::Detached));
    let mut caller = door.caller().await;
    let again = caller.start().await;
    assert_eq!(again.request_digest, start.request_digest);
    assert_ne!(again.exec, start.exec);
    let standing = minimal_proto::keeper::ExecStanding {
        exec: start.exec,
        started_at: Some(minimal_proto::Timestamp::now()),
        log_end: 0,
        input_offset: 0,
        input_received: 0,
        input_writer: None,
        input_open: false,
        pinned: false,
    };
    caller.answer(standing).await;
    let (status, record) = within(asked).await.unwrap();
    assert_eq!((status, &record["id"]), (200, &start.exec.to_string().into()));
    // The first connection serves it.
    exec.end(ending("exit", Some(3), 0)).await;
    let wait = format!("/v1/boxes/{}/execs/{}/wait", keeper.id, start.exec);
    assert_eq!(world.call("GET", &wait).await.1["ending"]["exit_code"], 3);
}

#[tokio::test]
async fn requests_about_an_exec_go_to_its_own_connection() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let mut exec = running(&world, &keeper, &door, ExecMode::Attached).await;
    let query = "input=true&pin=true&client=01909a30-0000-7000-8000-0000deadbeef";
    let attach = path(&keeper, &exec, &format!("/attach?{query}"));
    let mut client = Attached::at(&world.socket(), &attach).await.unwrap();
    let ToKeeper::WriterAttached { .. } = exec.hear_request().await else { panic!() };
    assert_eq!(exec.hear_request().await, ToKeeper::Pin { offset: 0 });
    client.input(0, b"abc").await;
    assert_eq!(exec.input().await, (0, b"abc".to_vec()));
    exec.say(&FromKeeper::InputAccepted { offset: 3 }).await;
    client.say(&ClientMessage::Signal { name: minimal_proto::Signal::INT }).await;
    let ToKeeper::Signal { group: true, request, .. } = exec.hear_request().await else { panic!() };
    exec.done(request).await;
    let (socket, stop) = (world.socket(), path(&keeper, &exec, "/stop"));
    let stopping = tokio::spawn(async move { call::<()>(&socket, "POST", &stop, &[], None).await });
    let ToKeeper::Stop { request, force: false, .. } = exec.hear_request().await else { panic!() };
    exec.done(request).await;
    // Its creator leaves: the keeper is told, and notes nothing in the journal.
    drop(client);
    let mut left = [exec.hear_request().await, exec.hear_request().await];
    left.sort_by_key(|message| *message == ToKeeper::Unpin);
    assert_eq!(left, [ToKeeper::WriterLost, ToKeeper::Unpin]);
    exec.end(ending("stopped", Some(1), 0)).await;
    let (status, record) = within(stopping).await.unwrap();
    assert_eq!((status, &record["ending"]["reason"]), (200, &"stopped".into()));
    let signal = format!("/v1/boxes/{}/execs/{}/signal", keeper.id, record["id"].as_str().unwrap());
    let (status, error) = world.post(&signal, &[], &serde_json::json!({"signal": "TERM"})).await;
    assert_eq!((status, &error["code"]), (409, &"wrong_state".into()));
}

#[tokio::test]
async fn a_lost_connection_is_made_again_or_the_disk_tells() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let exec = running(&world, &keeper, &door, ExecMode::Detached).await;
    let wait = path(&keeper, &exec, "/wait");
    drop(exec);
    let mut exec = door.caller().await.join().await;
    exec.prints(b"more").await;
    exec.end_silently(&ending("exit", Some(4), 4));
    drop(exec);
    assert_eq!(world.call("GET", &wait).await.1["ending"]["exit_code"], 4);
}

#[tokio::test]
async fn the_next_daemon_joins_what_lives_and_reads_what_does_not() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let mut door = ExecDoor::of(&world, &keeper);
    let lives = running(&world, &keeper, &door, ExecMode::Detached).await;
    let ends = running(&world, &keeper, &door, ExecMode::Detached).await;
    let id = keeper.id;
    let _holder = LockHolder::of(&world.box_path(id));
    let (wait, ended) = (path(&keeper, &lives, "/wait"), path(&keeper, &ends, "/wait"));
    let (lives_id, mut ends) = (lives.id, ends);
    drop((keeper, lives));
    let world = within(world.restart()).await;
    ends.end_silently(&ending("exit", Some(5), 0));
    drop(ends);
    door.set_hello(|hello| hello.execs = Some(vec![lives_id]));
    let _box = door.caller().await;
    let exec = door.caller().await.join().await;
    assert_eq!(exec.id, lives_id);
    world.record_until(id, |record| record["execs"] == serde_json::json!([lives_id])).await;
    assert_eq!(world.call("GET", &ended).await.1["ending"]["exit_code"], 5);
    let list = world.call("GET", &format!("/v1/boxes/{id}/execs")).await.1;
    let states: Vec<_> = list["execs"].as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["exited", "running"]);
    exec.end(ending("exit", Some(6), 0)).await;
    assert_eq!(world.call("GET", &wait).await.1["ending"]["exit_code"], 6);
}

#[tokio::test]
async fn execs_of_a_box_whose_keeper_is_gone_are_lost() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let exec = running(&world, &keeper, &door, ExecMode::Detached).await;
    let (attach, wait) = (path(&keeper, &exec, "/attach"), path(&keeper, &exec, "/wait"));
    let mut client = Attached::at(&world.socket(), &attach).await.unwrap();
    client.message().await;
    drop((door, keeper, exec));
    let last = loop {
        match client.hear().await {
            Heard::Message(message) if message.is_terminal() => break message,
            Heard::Message(_) => {}
            other => panic!("{other:?}"),
        }
    };
    let ServerMessage::Exited { ending } = last else { panic!("{last:?}") };
    assert_eq!(ending.reason(), minimal_proto::Reason::Lost);
    assert_eq!(world.call("GET", &wait).await.1["ending"]["reason"], "lost");
}

/// Its keeper had the request in its queue when the box ended: there is no record, so nothing was run.
#[tokio::test]
async fn a_request_that_the_end_of_the_box_has_overtaken_was_not_run() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let asked = ask(&world, &keeper, "", request(ExecMode::Detached));
    let mut caller = door.caller().await;
    caller.start().await;
    drop((caller, door));
    keeper.end(ending("exit", Some(0), 0)).await;
    let (status, error) = within(asked).await.unwrap();
    assert_eq!((status, &error["code"]), (409, &"wrong_state".into()), "{error}");
}

/// A keeper that dies over a request has made the record, or has run nothing.
#[tokio::test]
async fn a_request_that_a_keeper_died_over_is_told_by_its_record() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let asked = ask(&world, &keeper, "first", request(ExecMode::Detached));
    let mut caller = door.caller().await;
    let start = caller.start().await;
    let made = caller.make(&start);
    drop((made, caller, door));
    let box_id = keeper.id;
    drop(keeper);
    let (status, record) = within(asked).await.unwrap();
    assert_eq!((status, &record["ending"]["reason"]), (201, &"lost".into()), "{record}");
    assert_eq!(record["id"], start.exec.to_string());

    // Its answer may be lost: the next try is told of the same, and another request is not taken for it.
    let path = format!("/v1/boxes/{box_id}/execs");
    let socket = world.socket();
    let again = |key: &'static str, request: CreateExec| {
        let (socket, path) = (socket.clone(), path.clone());
        async move { call(&socket, "POST", &path, &[("idempotency-key", key)], Some(&request)).await }
    };
    let (status, repeated) = again("first", request(ExecMode::Detached)).await;
    assert_eq!((status, &repeated["id"]), (200, &record["id"]), "{repeated}");
    let (status, error) = again("first", request(ExecMode::Attached)).await;
    assert_eq!((status, &error["code"]), (409, &"key_reused".into()), "{error}");
    let (status, error) = again("second", request(ExecMode::Detached)).await;
    assert_eq!((status, &error["code"]), (409, &"wrong_state".into()), "{error}");
}

#[tokio::test]
async fn a_list_is_paged_newest_first() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let door = ExecDoor::of(&world, &keeper);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let exec = running(&world, &keeper, &door, ExecMode::Detached).await;
        ids.insert(0, exec.id.to_string());
        exec.end(ending("exit", Some(0), 0)).await;
    }
    let path = format!("/v1/boxes/{}/execs", keeper.id);
    let listed = |list: &Value| -> Vec<String> {
        let execs = list["execs"].as_array().unwrap();
        execs.iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect()
    };
    let first = world.call("GET", &format!("{path}?limit=2")).await.1;
    assert_eq!((listed(&first), &first["next"]), (ids[..2].to_vec(), &ids[1].clone().into()));
    let rest = world.call("GET", &format!("{path}?limit=2&after={}", ids[1])).await.1;
    assert_eq!((listed(&rest), &rest["next"]), (ids[2..].to_vec(), &Value::Null));
    assert_eq!(world.call("GET", &format!("{path}?limit=0")).await.0, 400);
}
