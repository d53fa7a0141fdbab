//! Attached clients, logs and journals.

use minimal_proto::api::StartOptions;
use minimal_proto::keeper::{FromKeeper, Incoming, ToKeeper};
use minimal_proto::stream::{ClientMessage, INPUT_WINDOW, ServerMessage};
use minimal_proto::{ErrorCode, EventData};

use crate::testing::{Attached, FakeKeeper, Heard, World, ending, within};

const INPUT: StartOptions = StartOptions {
    input: true,
    pin: false,
    remove: false,
    project: None,
    terminal: None,
    mounts: Vec::new(),
    patches: Vec::new(),
    rootfs: None,
};

/// Something to print that no two places of look alike.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| u8::try_from((at * 7 + at / 251) % 256).unwrap()).collect()
}

async fn attach(world: &World, keeper: &FakeKeeper, query: &str) -> (Attached, ServerMessage) {
    let mut client = Attached::to(&world.socket(), keeper.id, query).await.unwrap();
    let attached = client.message().await;
    assert!(matches!(attached, ServerMessage::Attached { .. }), "{attached:?}");
    (client, attached)
}

#[tokio::test]
async fn a_reader_gets_every_byte_and_then_the_ending() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let output = pattern(3 << 20);
    keeper.prints(&output[..100]).await;
    let (mut client, _) = attach(&world, &keeper, "").await;
    let id = keeper.id;
    let printing = async {
        for piece in output[100..].chunks(200_000) {
            keeper.prints(piece).await;
        }
        keeper.end(ending("exit", Some(0), 3 << 20)).await;
    };
    let (read, ()) = tokio::join!(client.output_until(0, 3 << 20), printing);
    assert!(read == output);
    let ServerMessage::Exited { ending } = client.message().await else { panic!() };
    assert_eq!(ending.exit_code(), Some(0));
    assert_eq!(client.hear().await, Heard::Closed);

    // Replayed from anywhere, and ended alike.
    let query = format!("from={}", 1_234_567);
    let mut client = Attached::to(&world.socket(), id, &query).await.unwrap();
    let ServerMessage::Attached { from: 1_234_567, .. } = client.message().await else { panic!() };
    assert!(client.output_until(1_234_567, 3 << 20).await == output[1_234_567..]);
    assert_eq!(client.message().await, ServerMessage::Live);
    assert!(client.message().await.is_terminal());
    // From beyond the end there is nothing but the ending.
    let mut client = Attached::to(&world.socket(), id, "from=99999999").await.unwrap();
    client.message().await;
    assert_eq!(client.message().await, ServerMessage::Live);
    assert!(client.message().await.is_terminal());
}

#[tokio::test]
async fn a_reader_that_goes_on_elsewhere_misses_and_repeats_nothing() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let output = pattern(100_000);
    let mut read = Vec::new();
    for piece in output.chunks(9_000) {
        keeper.prints(piece).await;
        let (mut client, _) = attach(&world, &keeper, &format!("from={}", read.len())).await;
        let end = read.len() + piece.len();
        read.extend(client.output_until(read.len() as u64, end as u64).await);
    }
    assert!(read == output);
}

#[tokio::test]
async fn two_readers_see_the_same_and_a_stalled_one_holds_up_nobody() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let (mut stalled, _) = attach(&world, &keeper, "").await;
    let (mut reader, _) = attach(&world, &keeper, "").await;
    let output = pattern(8 << 20);
    let printing = async {
        for piece in output.chunks(250_000) {
            keeper.prints(piece).await;
        }
        keeper.end(ending("exit", Some(0), 8 << 20)).await;
    };
    let (read, ()) = tokio::join!(reader.output_until(0, 8 << 20), printing);
    assert!(read == output);
    assert!(stalled.output_until(0, 8 << 20).await == output);
}

#[tokio::test]
async fn input_reaches_the_keeper_once_however_often_it_is_sent() {
    let mut world = World::new().await;
    let mut keeper = world.running(INPUT).await;
    let client_id = "client=01909a30-0000-7000-8000-0000deadbeef&input=true";
    let (mut client, _) = attach(&world, &keeper, client_id).await;
    let seated = ToKeeper::WriterAttached {
        client: Some("01909a30-0000-7000-8000-0000deadbeef".parse().unwrap()),
    };
    assert_eq!(keeper.hear_request().await, seated);
    client.input(0, b"abc").await;
    assert_eq!(input(&mut keeper).await, (0, b"abc".to_vec()));
    keeper.say(&FromKeeper::InputAccepted { offset: 2 }).await;
    let accepted = loop {
        if let ServerMessage::InputAccepted { offset } = client.message().await {
            break offset;
        }
    };
    assert_eq!(accepted, 2);

    // The same client again, whose old connection may be dead: it goes on where it was accepted.
    let (mut again, attached) = attach(&world, &keeper, client_id).await;
    let ServerMessage::Attached { input_offset: 2, .. } = attached else { panic!("{attached:?}") };
    again.input(2, b"cde").await;
    again.say(&ClientMessage::Eof).await;
    assert_eq!(keeper.hear_request().await, seated);
    assert_eq!(input(&mut keeper).await, (3, b"de".to_vec()));
    assert_eq!(keeper.hear_request().await, ToKeeper::Eof { offset: 5 });
    // Its old connection is told, if it can hear.
    let told = loop {
        match client.hear().await {
            Heard::Message(ServerMessage::Error(error)) => break error.code,
            Heard::Closed => panic!("closed without a word"),
            _ => {}
        }
    };
    assert_eq!(told, ErrorCode::InputHeld);

    drop(again);
    assert_eq!(keeper.hear_request().await, ToKeeper::WriterLost);
    let ToKeeper::Note { event_type, .. } = keeper.hear_request().await else { panic!() };
    assert_eq!(event_type, "detached");
}

async fn input(keeper: &mut FakeKeeper) -> (u64, Vec<u8>) {
    loop {
        match keeper.hear().await {
            Incoming::Input { offset, bytes } => return (offset, bytes),
            Incoming::Message(ToKeeper::Ping { request }) => keeper.done(request).await,
            Incoming::Message(ToKeeper::Consumed { .. }) => {}
            Incoming::Message(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn one_client_writes_and_the_next_waits_for_its_input() {
    let mut world = World::new().await;
    let mut keeper = world.running(INPUT).await;
    let (mut first, _) = attach(&world, &keeper, "input=true").await;
    let refusal =
        Attached::to(&world.socket(), keeper.id, "input=true").await.err().expect("refused");
    assert_eq!(refusal.code, ErrorCode::InputHeld);
    assert_eq!(keeper.hear_request().await, ToKeeper::WriterAttached { client: None });
    first.input(0, b"unread").await;
    assert_eq!(input(&mut keeper).await.0, 0);
    first.say(&ClientMessage::Detach).await;
    while first.message().await != ServerMessage::Detached {}
    assert_eq!(keeper.hear_request().await, ToKeeper::WriterLost);
    let ToKeeper::Note { .. } = keeper.hear_request().await else { panic!() };

    let refusal =
        Attached::to(&world.socket(), keeper.id, "input=true").await.err().expect("refused");
    assert_eq!(refusal.code, ErrorCode::InputHeld, "its input is still being taken up");
    keeper.say(&FromKeeper::InputAccepted { offset: 6 }).await;
    let second = async {
        loop {
            // The acceptance is on its way.
            if let Ok(second) = Attached::to(&world.socket(), keeper.id, "input=true").await {
                return second;
            }
        }
    };
    let mut second = within(second).await;
    let ServerMessage::Attached { input_offset: 6, .. } = second.message().await else { panic!() };
    let (_watcher, _) = attach(&world, &keeper, "").await;
}

#[tokio::test]
async fn a_writer_that_breaks_the_rules_is_told_which() {
    let mut world = World::new().await;
    let keeper = world.running(INPUT).await;
    for (offset, length, code) in [
        (1, 1, ErrorCode::BadRequest),
        (0, usize::try_from(INPUT_WINDOW).unwrap() / 2, ErrorCode::InputWindow),
    ] {
        let name = "input=true&client=01909a30-0000-7000-8000-0000deadbeef";
        let (mut client, _) = attach(&world, &keeper, name).await;
        let bytes = vec![0; length];
        let mut at = offset;
        for _ in 0..3 {
            client.input(at, &bytes).await;
            at += length as u64;
        }
        let error = loop {
            match client.message().await {
                ServerMessage::Error(error) => break error,
                message => assert!(!message.is_terminal(), "{message:?}"),
            }
        };
        assert_eq!(error.code, code);
        assert_eq!(client.hear().await, Heard::Closed);
    }
}

#[tokio::test]
async fn a_writer_that_leaves_is_noticed_while_its_input_is_stuck() {
    let mut world = World::new().await;
    let keeper = world.running(INPUT).await;
    let (mut client, _) = attach(&world, &keeper, "input=true").await;
    // Its keeper takes nothing: the socket's buffer fills, then ours, then its queue.
    let piece = vec![b'x'; 1 << 10];
    for at in 0..1024u64 {
        client.input(at << 10, &piece).await;
    }
    assert_eq!(world.host.streams.load(std::sync::atomic::Ordering::Relaxed), 1);
    drop(client);
    let gone = async {
        while world.host.streams.load(std::sync::atomic::Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    };
    within(gone).await;
    drop(keeper);
}

#[tokio::test]
async fn a_box_that_takes_no_input_says_so() {
    let mut world = World::new().await;
    let keeper = world.running(StartOptions::default()).await;
    for _ in 0..2 {
        // Nobody holds what is not there.
        let (mut client, attached) = attach(&world, &keeper, "input=true").await;
        let ServerMessage::Attached { input_open: false, .. } = attached else { panic!() };
        client.input(0, b"discarded").await;
        assert_eq!(client.message().await, ServerMessage::Live);
    }
}

#[tokio::test]
async fn the_pin_follows_its_client_and_goes_with_it() {
    let mut world = World::new().await;
    let start = StartOptions { pin: true, ..StartOptions::default() };
    let mut keeper = world.running(start).await;
    let (mut client, _) = attach(&world, &keeper, "pin=true").await;
    assert_eq!(keeper.hear_request().await, ToKeeper::Pin { offset: 0 });
    client.say(&ClientMessage::Read { offset: 70 }).await;
    assert_eq!(keeper.hear_request().await, ToKeeper::Pin { offset: 70 });
    // Another client does not get it.
    let (other, _) = attach(&world, &keeper, "pin=true").await;
    drop(other);
    drop(client);
    assert_eq!(keeper.hear_request().await, ToKeeper::Unpin);
    // And once it is gone nobody does.
    let (_late, _) = attach(&world, &keeper, "pin=true&from=5").await;
    keeper.say(&FromKeeper::InputClosed).await;
    world.call("GET", &format!("/v1/boxes/{}/signal", keeper.id)).await;
}

#[tokio::test]
async fn a_signal_from_a_stream_goes_to_the_group() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let (mut client, _) = attach(&world, &keeper, "").await;
    client.say(&ClientMessage::Signal { name: minimal_proto::Signal::INT }).await;
    let ToKeeper::Signal { request, group: true, .. } = keeper.hear_request().await else {
        panic!()
    };
    let error = Some(minimal_proto::ErrorBody::new(ErrorCode::WrongState, "it has ended"));
    keeper.say(&FromKeeper::Done { request, error }).await;
    let notice = loop {
        if let ServerMessage::Notice { text } = client.message().await {
            break text;
        }
    };
    assert_eq!(notice, "SIGINT was not sent: it has ended");
}

#[tokio::test]
async fn events_are_followed_to_the_last() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    let path = format!("/v1/boxes/{}/events", keeper.id);
    let types = |body: Vec<u8>| {
        let lines = String::from_utf8(body).unwrap();
        let event = |line: &str| serde_json::from_str::<minimal_proto::Event>(line).unwrap();
        lines.lines().map(|line| event(line).data.type_name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(types(world.bytes(&path).await), ["created", "started"]);
    let follow = format!("{path}?follow=true");
    let keeping = async {
        let note = minimal_proto::event::ClientNote { input: true };
        let event = keeper.append(EventData::Attached(note));
        keeper.say(&event).await;
        keeper.end(ending("exit", Some(0), 0)).await;
    };
    let (followed, ()) = tokio::join!(world.bytes(&follow), keeping);
    assert_eq!(types(followed), ["created", "started", "attached", "exited"]);
}

#[tokio::test]
async fn a_log_is_read_from_any_place_in_either_form() {
    let mut world = World::new().await;
    let mut keeper = world.running(StartOptions::default()).await;
    keeper.prints(b"one\ntwo\nthree\n").await;
    let id = keeper.id;
    world.record_until(id, |record| record["log"]["bytes"] == 14).await;
    let path = format!("/v1/boxes/{id}/log");
    assert_eq!(world.bytes(&format!("{path}?tail=1")).await, b"three\n");
    assert_eq!(world.bytes(&format!("{path}?from=4")).await, b"two\nthree\n");
    assert_eq!(world.bytes(&format!("{path}?from=400")).await, b"");
    assert_eq!(world.bytes(&format!("{path}?stream=stderr")).await, b"");
    assert_eq!(world.bytes(&format!("{path}?since=2001-01-01T00:00:00Z")).await.len(), 14);
    let framed = world.bytes(&format!("{path}?format=framed&from=8")).await;
    assert_eq!((framed[0], &framed[1..9]), (1, 8u64.to_le_bytes().as_slice()));
    assert_eq!(framed[21..], *b"three\n");
}
