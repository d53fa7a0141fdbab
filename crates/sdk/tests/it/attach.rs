//! Streams that are cut off and resume.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use minimal_proto::stream::{INPUT_WINDOW, Stream};
use minimal_proto::{ErrorCode, Signal};
use minimal_sdk::{
    AttachOptions, AttachStream, Client, InputClosed, RetryPolicy, SocketConnector, StreamError,
    StreamEvent,
};
use tokio::net::UnixListener;

use crate::cutter::cut;
use crate::daemon::{Daemon, Manner, box_id, ending};
use crate::random::Random;

/// Pauses that suit a daemon of the same process.
pub(crate) const QUICK: RetryPolicy = RetryPolicy {
    first: Duration::from_millis(1),
    longest: Duration::from_millis(5),
    total: Duration::from_secs(30),
};

pub(crate) fn client(path: &std::path::Path) -> Client {
    Client::new(Arc::new(SocketConnector::new(path.to_owned()))).with_retry(QUICK)
}

/// What a stream gave before its last event, with every offset checked.
#[derive(Default)]
struct Seen {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    next: u64,
    others: Vec<StreamEvent>,
}

impl Seen {
    async fn read(stream: &mut AttachStream) -> (Self, Result<StreamEvent, StreamError>) {
        let mut seen = Self::default();
        loop {
            match stream.next().await {
                Ok(StreamEvent::Output { stream, offset, bytes }) => {
                    assert_eq!(offset, seen.next);
                    seen.next += bytes.len() as u64;
                    match stream {
                        Stream::Stdout => seen.stdout.extend_from_slice(&bytes),
                        _ => seen.stderr.extend_from_slice(&bytes),
                    }
                }
                Ok(event) if event.is_terminal() => return (seen, Ok(event)),
                Ok(event) => seen.others.push(event),
                Err(error) => return (seen, Err(error)),
            }
        }
    }
}

#[tokio::test]
async fn every_byte_arrives_once_in_both_directions_wherever_it_is_cut() {
    for seed in 0..16 {
        let root = tempfile::tempdir().unwrap();
        let (daemon, path) = Daemon::start(root.path(), Manner::Proper);
        let front = root.path().join("front.sock");
        let relay = tokio::spawn(cut(UnixListener::bind(&front).unwrap(), path, seed));
        let options = AttachOptions { input: true, pin: true, retry: QUICK, ..Default::default() };
        let (mut stream, handle) = client(&front).attach(box_id(), options).await.unwrap();
        let mut random = Random(seed);
        let length = random.below(1_200_000);
        let input = random.bytes(length);
        let writer = {
            let (handle, mut rest) = (handle.clone(), Bytes::from(input.clone()));
            tokio::spawn(async move {
                while !rest.is_empty() {
                    let piece = rest.split_to((1 + random.below(300_000)).min(rest.len()));
                    handle.input(piece).await.unwrap();
                }
                handle.eof();
            })
        };
        let (seen, last) = Seen::read(&mut stream).await;
        assert_eq!(last.unwrap(), StreamEvent::Exited(ending(seen.next)), "seed {seed}");
        assert!(seen.stdout == input, "seed {seed}: stdout is not what was sent");
        assert!(matches!(stream.next().await, Err(StreamError::Over)));
        writer.await.unwrap();
        let facts = daemon.facts.lock().unwrap();
        assert!(facts.input == input, "seed {seed}: input is not what was sent");
        assert!(!seen.others.iter().any(|event| matches!(event, StreamEvent::Gap { .. })));
        relay.abort();
    }
}

#[tokio::test]
async fn a_window_of_input_is_sent_and_no_more() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, path) = Daemon::start(root.path(), Manner::Deaf);
    let options = AttachOptions { input: true, ..Default::default() };
    let (_stream, handle) = client(&path).attach(box_id(), options).await.unwrap();
    let whole = Bytes::from(vec![b'x'; 4 << 20]);
    let writing = tokio::time::timeout(Duration::from_millis(300), handle.input(whole));
    assert!(writing.await.is_err(), "it waits for room");
    assert_eq!(daemon.facts.lock().unwrap().input_sent, INPUT_WINDOW);
}

#[tokio::test]
async fn a_daemon_that_breaks_the_protocol_is_an_error() {
    for manner in [Manner::Repeats, Manner::Skips] {
        let root = tempfile::tempdir().unwrap();
        let (daemon, path) = Daemon::start(root.path(), manner);
        daemon.print(Stream::Stdout, b"one".to_vec());
        daemon.print(Stream::Stdout, b"two".to_vec());
        let (mut stream, _handle) =
            client(&path).attach(box_id(), AttachOptions::default()).await.unwrap();
        let (_, last) = Seen::read(&mut stream).await;
        let error = last.unwrap_err();
        assert!(matches!(error, StreamError::Violation(_)), "{error}");
        assert_eq!(error.code(), ErrorCode::ExitUnknown);
    }
}

#[tokio::test]
async fn a_close_is_never_an_ending() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, path) = Daemon::start(root.path(), Manner::NeverTells);
    daemon.print(Stream::Stdout, b"hello".to_vec());
    let retry = RetryPolicy { total: Duration::from_millis(200), ..QUICK };
    let options = AttachOptions { retry, ..Default::default() };
    let (mut stream, _handle) = client(&path).attach(box_id(), options).await.unwrap();
    let (seen, last) = Seen::read(&mut stream).await;
    assert_eq!(seen.stdout, b"hello");
    assert_eq!(last.unwrap_err().code(), ErrorCode::ExitUnknown);
    assert!(daemon.facts.lock().unwrap().attaches > 2, "it tried again");
}

#[tokio::test]
async fn signals_reads_and_a_detach_reach_the_daemon() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, path) = Daemon::start(root.path(), Manner::Proper);
    daemon.print(Stream::Stdout, vec![0; 700_000]);
    let options = AttachOptions { input: true, pin: true, ..Default::default() };
    let (mut stream, handle) = client(&path).attach(box_id(), options).await.unwrap();
    while let Ok(StreamEvent::Output { offset, bytes, .. }) = stream.next().await {
        handle.read(offset + bytes.len() as u64);
        if offset + bytes.len() as u64 == 700_000 {
            break;
        }
    }
    handle.signal(Signal::INT);
    handle.detach();
    let (_, last) = Seen::read(&mut stream).await;
    assert_eq!(last.unwrap(), StreamEvent::Detached);
    let facts = daemon.facts.lock().unwrap();
    assert_eq!(facts.signals, ["SIGINT"]);
    assert!(facts.reads.iter().any(|read| *read >= 256 << 10), "{:?}", facts.reads);
    assert!(facts.reads.is_sorted());
}

#[tokio::test]
async fn a_box_that_closed_its_input_frees_the_writer() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, path) = Daemon::start(root.path(), Manner::Proper);
    daemon.finish();
    let options = AttachOptions { input: true, ..Default::default() };
    let (mut stream, handle) = client(&path).attach(box_id(), options).await.unwrap();
    assert_eq!(stream.next().await.unwrap(), StreamEvent::InputClosed);
    assert_eq!(handle.input(Bytes::from(vec![0; 4 << 20])).await, Err(InputClosed));
    assert_eq!(stream.next().await.unwrap(), StreamEvent::Exited(ending(0)));
}
