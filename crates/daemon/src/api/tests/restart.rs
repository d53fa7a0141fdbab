//! A daemon dies and another one finds the boxes again.

use minimal_proto::Timestamp;
use minimal_proto::api::StartOptions;
use minimal_proto::event::Created;
use minimal_proto::keeper::{FromKeeper, Hello, Incoming, ToKeeper};
use minimal_proto::stream::ServerMessage;
use minimal_proto::{BoxId, ErrorCode, Spec};

use crate::testing::{Attached, FakeKeeper, LockHolder, World, ending, within};

#[tokio::test]
async fn a_box_whose_keeper_lives_is_adopted() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    let _holder = LockHolder::of(&world.box_path(id));
    let listener = world.listening_keeper(id);
    let world = within(world.restart()).await;
    let (stream, _) =
        tokio::task::spawn_blocking(move || listener.accept()).await.unwrap().unwrap();
    // Printed and noted while no daemon was there.
    keeper.print(b"meanwhile");
    let mut keeper = FakeKeeper::over(world.host.state.box_dir(id).unwrap(), id, stream);
    keeper.hello().await;
    let record = world.record_until(id, |record| record["log"]["bytes"] == 9).await;
    assert_eq!((&record["state"], &record["health"]), (&"running".into(), &"ok".into()));
    keeper.end(ending("exit", Some(7), 9)).await;
    let answer = world.call("GET", &format!("/v1/boxes/{id}/wait")).await.1;
    assert_eq!(answer["ending"]["exit_code"], 7);
}

/// Bytes that a keeper holds from before are one client's. From another they would be taken for
/// repeats of these, and be lost.
#[tokio::test]
async fn only_whoever_sent_it_sends_input_again_that_a_keeper_still_holds() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions { input: true, ..Default::default() }).await;
    let id = keeper.id;
    let _holder = LockHolder::of(&world.box_path(id));
    let listener = world.listening_keeper(id);
    let world = within(world.restart()).await;
    let (stream, _) =
        tokio::task::spawn_blocking(move || listener.accept()).await.unwrap().unwrap();
    keeper = FakeKeeper::over(world.host.state.box_dir(id).unwrap(), id, stream);
    let writer = "01909a30-0000-7000-8000-0000deadbeef";
    let standing = Hello {
        input_offset: 2,
        input_received: Some(6),
        input_writer: Some(writer.parse().unwrap()),
        input_open: true,
        ..keeper.as_it_stands(None)
    };
    keeper.say(&FromKeeper::Hello(standing)).await;
    world.record_until(id, |record| record["health"] == "ok").await;

    for stranger in ["input=true", "input=true&client=01909a30-0000-7000-8000-0000deadbeee"] {
        let refusal = Attached::to(&world.socket(), id, stranger).await.err().expect("refused");
        assert_eq!(refusal.code, ErrorCode::InputHeld, "{stranger}");
    }
    let query = format!("input=true&client={writer}");
    let mut client = Attached::to(&world.socket(), id, &query).await.unwrap();
    let ServerMessage::Attached { input_offset: 2, .. } = client.message().await else { panic!() };
    let attached = ToKeeper::WriterAttached { client: Some(writer.parse().unwrap()) };
    assert_eq!(keeper.hear_request().await, attached);
    client.input(2, b"cdefgh").await;
    let Incoming::Input { offset, bytes } = keeper.hear().await else { panic!() };
    assert_eq!((offset, bytes.as_slice()), (6, b"gh".as_slice()));
}

#[tokio::test]
async fn a_box_that_somebody_holds_and_nobody_answers_for_is_unresponsive_and_then_lost() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    let id = keeper.id;
    let holder = LockHolder::of(&world.box_path(id));
    drop(keeper);
    let record = world.record_until(id, |record| record["health"] == "unresponsive").await;
    assert_eq!(record["state"], "running");
    let world = within(world.restart()).await;
    let record = world.record_until(id, |record| record["health"] == "unresponsive").await;
    assert_eq!(record["state"], "running");
    assert_eq!(world.call("POST", &format!("/v1/boxes/{id}/stop")).await.0, 503);
    drop(holder);
    let record = world.record_until(id, |record| record["state"] == "stopped").await;
    assert_eq!(record["ending"]["reason"], "lost");
}

#[tokio::test]
async fn boxes_without_a_keeper_have_their_ending_before_anyone_asks() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let lost = keeper.id;
    keeper.print(b"out");
    // One was never started: its daemon died first.
    let interrupted: BoxId = "01909a30-0000-7000-8000-0000deadbeef".parse().unwrap();
    let created = Created {
        name: "early".parse().unwrap(),
        remove: true,
        idempotency_key: None,
        request_digest: None,
        spec_digest: None,
        client_digest: None,
        sources: None,
    };
    let spec = Spec::task(vec!["sh".into()]);
    world.host.state.create_box(interrupted, &spec, created, Timestamp::now()).unwrap();
    // One has a journal that is none.
    let broken: BoxId = "01909a30-0000-7000-8000-0000deadbeee".parse().unwrap();
    let path = world.box_path(broken);
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
    std::fs::write(path.join("journal.ndjson"), "{}\n").unwrap();

    let world = world.restart().await;
    drop(keeper);
    let list = world.call("GET", "/v1/boxes").await.1;
    let find = |id: BoxId| {
        let boxes = list["boxes"].as_array().unwrap();
        boxes.iter().find(|entry| entry["id"] == id.to_string()).unwrap()
    };
    assert_eq!(find(lost)["ending"]["reason"], "lost");
    assert_eq!(find(lost)["ending"]["detail"]["log_end"], 3);
    assert_eq!(find(interrupted)["state"], "failed");
    assert_eq!(find(interrupted)["ending"]["detail"]["interrupted"], true);
    assert_eq!(find(broken)["health"], "broken");
    let (status, error) = world.call("GET", &format!("/v1/boxes/{broken}/log")).await;
    assert_eq!((status, &error["code"]), (500, &"broken".into()));
    assert_eq!(world.call("DELETE", &format!("/v1/boxes/{broken}")).await.0, 200);
    assert!(!path.exists());
    // What was made to be removed still is, also after a restart.
    let path = format!("/v1/boxes/{interrupted}/acknowledge");
    assert_eq!(world.call("POST", &path).await.0, 200);
    assert!(!world.box_path(interrupted).exists());
}
