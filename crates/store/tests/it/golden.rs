//! Directories that earlier versions left, with what later ones may add: they load for ever.

use std::fs;
use std::path::{Path, PathBuf};

use minimal_proto::ending::StartFault;
use minimal_proto::event::ClientNote;
use minimal_proto::stream::Stream;
use minimal_proto::{ByteString, EventData, Reason, State, Timestamp};
use minimal_store::journal::Tail;
use minimal_store::{
    BoxDir, Chunk, FrameOut, JournalReader, JournalWriter, LogReader, LogWriter, Record, figures,
    since_offset, tail_offset,
};

fn golden(name: &str) -> BoxDir {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/v0");
    BoxDir::open(&root.join(name)).unwrap()
}

/// A copy that can be written to.
fn copy(dir: &BoxDir) -> (tempfile::TempDir, BoxDir) {
    let root = tempfile::tempdir().unwrap();
    let mut pending = vec![(dir.path().to_owned(), root.path().to_owned())];
    while let Some((from, to)) = pending.pop() {
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let target: PathBuf = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                fs::create_dir(&target).unwrap();
                pending.push((entry.path(), target));
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let dir = BoxDir::open(root.path()).unwrap();
    (root, dir)
}

fn record(dir: &BoxDir) -> (Record, Tail) {
    let mut reader = JournalReader::open(dir).unwrap();
    let events = reader.read_new().unwrap();
    (Record::fold(&events).unwrap(), reader.tail().clone())
}

fn chunks(dir: &BoxDir, end: u64) -> Vec<Chunk> {
    let mut reader = LogReader::open(dir, 0, end).unwrap();
    std::iter::from_fn(|| reader.next_chunk(end, 1 << 20).unwrap()).collect()
}

#[test]
fn a_box_that_exited_with_events_and_fields_of_a_later_version() {
    let dir = golden("box-exited");
    let spec = dir.read_spec().unwrap();
    assert_eq!(spec.execution.exec[3], ByteString::from(vec![0xff, 0xfe]));
    assert_eq!(dir.read_generation().unwrap(), 1);
    let (record, tail) = record(&dir);
    assert_eq!(tail, Tail::Clean);
    assert_eq!((record.state, record.name.as_str()), (State::Exited, "web"));
    let ending = record.ending.unwrap();
    assert_eq!((ending.reason(), ending.exit_code()), (Reason::Exit, Some(42)));
    assert_eq!(ending.detail()["log_end"], 72);
    assert_eq!((record.lives, record.last_seq), (1, 8));
    assert_eq!(record.enforcement.unwrap().missing[0].what, "memory limit");
    assert_eq!(record.idempotency_key.as_deref(), Some("k-1"));

    let time = Timestamp::from_micros(1_767_323_046_000_000);
    let frame = |stream, offset, ts, bytes: &[u8]| FrameOut {
        stream,
        offset,
        ts: Timestamp::from_micros(time.as_micros() + ts),
        bytes: bytes.to_vec(),
    };
    assert_eq!(
        chunks(&dir, 72),
        [
            Chunk::Frames(vec![
                frame(Stream::Stdout, 0, 0, b"hello\n"),
                frame(Stream::Stderr, 6, 1000, b"warning\n"),
            ]),
            // A stream of a later version.
            Chunk::Gap { from: 14, to: 19 },
            Chunk::Frames(vec![frame(Stream::Stdout, 19, 2000, b"bytes \0\xff\n")]),
            Chunk::Gap { from: 28, to: 58 },
            Chunk::Frames(vec![frame(Stream::Stdout, 58, 3_000_000, b"after the gap\n")]),
        ]
    );
    let figures = figures(&dir).unwrap();
    assert_eq!((figures.bytes, figures.dropped_bytes), (72, 30));
    assert_eq!(tail_offset(&dir, 72, 2, None).unwrap(), 14);
    let later = Timestamp::from_micros(time.as_micros() + 2001);
    assert_eq!(since_offset(&dir, 72, later).unwrap(), 58);
}

#[test]
fn a_box_that_was_lost_while_it_wrote() {
    let dir = golden("box-lost");
    let (record_before, tail) = record(&dir);
    assert_eq!(tail, Tail::Torn);
    assert_eq!(record_before.state, State::Stopped);
    assert_eq!(record_before.ending.as_ref().unwrap().reason(), Reason::Lost);
    assert!(record_before.stop_requested && record_before.remove);
    assert_eq!(figures(&dir).unwrap().bytes, 10);
    assert!(matches!(chunks(&dir, 33)[..], [Chunk::Frames(_), Chunk::Gap { from: 10, to: 33 }]));

    // The next writer goes on after what was whole.
    let (_root, dir) = copy(&dir);
    let mut journal = JournalWriter::open(&dir).unwrap();
    let note = EventData::Attached(ClientNote { input: false });
    assert_eq!(journal.append_durable(note, Timestamp::now()).unwrap().seq, 5);
    let (record_after, tail) = record(&dir);
    assert_eq!((record_after.last_seq, tail), (5, Tail::Clean));
    assert_eq!(record_after.ending, record_before.ending);
    assert_eq!(LogWriter::create_or_open(&dir, 1 << 20).unwrap().end(), 10);
}

#[test]
fn a_box_that_never_started() {
    let dir = golden("box-failed");
    dir.read_spec().unwrap();
    let (record, tail) = record(&dir);
    assert_eq!((record.state, record.lives, tail), (State::Failed, 0, Tail::Clean));
    let ending = record.ending.unwrap();
    assert_eq!(ending.start_fault(), Some(StartFault::NotFound));
    assert_eq!(ending.shell_status(), 127);
    assert_eq!(chunks(&dir, 0), []);
}
