//! Calls whose daemon dies under them.

use minimal_proto::api::CreateBox;
use minimal_proto::stream::Stream;
use minimal_proto::{ErrorCode, Spec};
use minimal_sdk::{ListQuery, LogPiece, LogQuery};
use tokio::net::UnixListener;
use uuid::Uuid;

use crate::attach::client;
use crate::cutter::cut;
use crate::daemon::{Daemon, Manner, box_id};
use crate::random::Random;

#[tokio::test]
async fn a_create_that_is_cut_off_is_sent_again_with_the_same_key() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, path) = Daemon::start(root.path(), Manner::Proper);
    let front = root.path().join("front.sock");
    // Connections of 200 bytes first: the request is carried out, its answer is lost.
    let listener = UnixListener::bind(&front).unwrap();
    let relay = tokio::spawn(cut(listener, path, 3));
    let create = CreateBox {
        digest: None,
        spec: Spec::task(vec!["cat".into()]),
        values: Default::default(),
        start: Default::default(),
    };
    let client = client(&front);
    for made in 1..=10 {
        let record = client.create(&create, Uuid::now_v7()).await.unwrap();
        assert_eq!(record.id, box_id());
        assert_eq!(daemon.facts.lock().unwrap().keys.len(), made);
    }
    assert!(daemon.facts.lock().unwrap().creates > 10, "some were sent again");
    relay.abort();
}

#[tokio::test]
async fn a_log_and_events_go_on_where_they_were_cut_off() {
    for seed in 0..12 {
        let root = tempfile::tempdir().unwrap();
        let (daemon, path) = Daemon::start(root.path(), Manner::Proper);
        let mut random = Random(seed);
        let mut whole = Vec::new();
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Stdout] {
            let part = random.bytes(150_000);
            whole.extend_from_slice(&part);
            daemon.print(stream, part);
        }
        daemon.finish();
        let front = root.path().join("front.sock");
        let relay = tokio::spawn(cut(UnixListener::bind(&front).unwrap(), path, seed));
        let client = client(&front);
        client.get("cat-1").await.unwrap();
        let query = LogQuery { follow: true, ..Default::default() };
        let mut log = client.log(box_id(), query).await.unwrap();
        let mut seen = Vec::new();
        while let Some(piece) = log.next().await.unwrap() {
            match piece {
                LogPiece::Output { offset, bytes, .. } => {
                    assert_eq!(offset, seen.len() as u64);
                    seen.extend_from_slice(&bytes);
                }
                LogPiece::Gap { .. } => panic!("nothing was dropped"),
            }
        }
        assert!(seen == whole, "seed {seed}: the log is not what was printed");
        let mut events = client.events(box_id(), true).await.unwrap();
        let mut count = 0;
        while let Some(event) = events.next().await.unwrap() {
            count += 1;
            assert_eq!(event.seq, count);
        }
        assert_eq!(count, 300, "seed {seed}");
        relay.abort();
    }
}

#[tokio::test]
async fn no_daemon_is_said_at_once() {
    let root = tempfile::tempdir().unwrap();
    let error = client(&root.path().join("none")).list(&ListQuery::default()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unreachable);
    assert!(error.to_string().starts_with("no daemon answers at"), "{error}");
}
