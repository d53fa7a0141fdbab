use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;

use minimal_proto::ending::{Observer, StartFault};
use minimal_proto::event::{ClientNote, Degraded};
use minimal_proto::{Ending, EventData, State};
use proptest::prelude::*;

use super::writer::shortened;
use super::*;
use crate::fixture::{Fixture, at, id, started};
use crate::record::Record;

fn note() -> EventData {
    EventData::Attached(ClientNote { input: false })
}

fn lost() -> EventData {
    EventData::Exited(Ending::lost(at(9), serde_json::Map::new()))
}

fn degraded(length: usize) -> EventData {
    EventData::Degraded(Degraded { cause: "x".repeat(length) })
}

fn read(fixture: &Fixture) -> (Vec<Event>, Tail) {
    let mut reader = JournalReader::open(&fixture.dir).unwrap();
    let events = reader.read_new().unwrap();
    (events, reader.tail().clone())
}

fn path(fixture: &Fixture) -> PathBuf {
    fixture.dir.path().join(JOURNAL)
}

/// Puts a journal of these bytes in place of the one there is. As a new file: one that is truncated
/// and written is flushed to the disk when it is closed (ext4(5), `auto_da_alloc`).
fn put(fixture: &Fixture, bytes: impl AsRef<[u8]>) {
    fs::remove_file(path(fixture)).unwrap();
    fs::write(path(fixture), bytes).unwrap();
}

/// The journal's lines as bytes, and where each ends.
fn lines(fixture: &Fixture) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = fs::read(path(fixture)).unwrap();
    bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let ends = ends.collect();
    (bytes, ends)
}

#[test]
fn what_is_appended_is_read_once_and_in_order() {
    let fixture = Fixture::new();
    let mut reader = JournalReader::open(&fixture.dir).unwrap();
    assert_eq!(reader.read_new().unwrap().len(), 1);
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    let first = writer.append(started(), at(2)).unwrap();
    let second = writer.append(note(), at(3)).unwrap();
    assert_eq!((first.seq, second.seq, second.box_id), (2, 3, id(1)));
    assert_eq!(reader.read_new().unwrap(), [first, second]);
    assert_eq!(reader.read_new().unwrap(), []);
    let last = writer.append_durable(lost(), at(4)).unwrap();
    assert_eq!(reader.read_new().unwrap(), [last]);
    assert_eq!(writer.record().state, State::Stopped);
    assert_eq!(*reader.tail(), Tail::Clean);
}

#[test]
fn a_reader_beside_the_writer_sees_whole_events_only() {
    const EVENTS: u64 = 1500;
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        let mut reader = JournalReader::open(&fixture.dir).unwrap();
        scope.spawn(move || {
            let mut seen = 0;
            while seen < EVENTS {
                for event in reader.read_new().unwrap() {
                    seen += 1;
                    assert_eq!(event.seq, seen);
                }
                assert!(!matches!(reader.tail(), Tail::Broken { .. }), "{:?}", reader.tail());
            }
        });
        let mut writer = JournalWriter::open(&fixture.dir).unwrap();
        for n in 1..EVENTS {
            writer.append(degraded(usize::try_from(n * 37 % 900).unwrap()), at(2)).unwrap();
        }
    });
}

#[test]
fn an_event_that_cannot_follow_is_denied_and_leaves_no_trace() {
    let fixture = Fixture::new();
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    let error = writer.append(lost(), at(2)).unwrap_err();
    assert!(matches!(error, JournalError::Denied { source: Denied::NeverStarted { seq: 2 }, .. }));
    assert_eq!(writer.append(started(), at(2)).unwrap().seq, 2);
    writer.append(lost(), at(3)).unwrap();
    assert!(matches!(writer.append(lost(), at(4)), Err(JournalError::Denied { .. })));
    assert_eq!(read(&fixture).0.len(), 3);
}

/// At every byte at which a write can be torn, and whether the rest is missing or NULs: what was
/// whole reads exactly, and the next writer continues without a gap.
#[test]
fn torn_at_any_byte_the_whole_lines_remain() {
    let fixture = Fixture::new();
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    writer.append(started(), at(2)).unwrap();
    writer.append(note(), at(3)).unwrap();
    drop(writer);
    let (events, _) = read(&fixture);
    let (bytes, ends) = lines(&fixture);
    for cut in ends[0]..=bytes.len() {
        for nuls in [false, true] {
            let mut torn = bytes[..cut].to_vec();
            if nuls {
                torn.resize(STEP.try_into().unwrap(), 0);
            }
            put(&fixture, &torn);
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let (kept, tail) = read(&fixture);
            assert_eq!(kept, events[..whole], "cut at {cut}, nuls {nuls}");
            assert_eq!(tail == Tail::Clean, ends.contains(&cut), "cut at {cut}, nuls {nuls}");
            let mut writer = JournalWriter::open(&fixture.dir).unwrap();
            let next = if whole == 1 { started() } else { note() };
            let next = writer.append(next, at(4)).unwrap();
            assert_eq!(next.seq, whole as u64 + 1);
            let (kept, tail) = read(&fixture);
            assert_eq!((&kept[..whole], &kept[whole..]), (&events[..whole], &[next][..]));
            assert_eq!(tail, Tail::Clean, "the torn line is gone behind a shorter one");
        }
    }
}

#[test]
fn torn_in_the_first_line_there_is_no_box() {
    let fixture = Fixture::new();
    let (bytes, ends) = lines(&fixture);
    for cut in 0..ends[0] {
        put(&fixture, &bytes[..cut]);
        assert_eq!(read(&fixture).0, []);
        assert_eq!(Record::fold(&[]).unwrap_err(), Denied::Empty);
        let error = JournalWriter::open(&fixture.dir).unwrap_err();
        assert!(matches!(error, JournalError::Denied { source: Denied::Empty, .. }));
    }
}

#[test]
fn blocks_that_reached_the_disk_behind_a_hole_are_cut() {
    let fixture = Fixture::new();
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    writer.append(started(), at(2)).unwrap();
    drop(writer);
    let file = OpenOptions::new().write(true).open(path(&fixture)).unwrap();
    file.write_all_at(&[b'y'; 5000], 6000).unwrap();
    file.write_all_at(b"\n{}\n", STEP * 9).unwrap();
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    writer.append(note(), at(3)).unwrap();
    let bytes = fs::read(path(&fixture)).unwrap();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap();
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
    assert_eq!(read(&fixture).0.len(), 3);
}

#[test]
fn a_whole_line_that_is_no_event_stops_readers_and_writers() {
    let fixture = Fixture::new();
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    writer.append(started(), at(2)).unwrap();
    writer.append(lost(), at(3)).unwrap();
    drop(writer);
    let (mut bytes, ends) = lines(&fixture);
    bytes[ends[0]] = b'[';
    put(&fixture, &bytes);
    let (events, tail) = read(&fixture);
    assert_eq!(events.len(), 1);
    assert!(matches!(tail, Tail::Broken { offset, .. } if offset == ends[0] as u64));
    let error = JournalWriter::open(&fixture.dir).unwrap_err();
    assert!(matches!(error, JournalError::Broken { .. }), "{error}");
    assert_eq!(fs::read(path(&fixture)).unwrap(), bytes, "the ending behind it is not cut");
}

#[test]
fn the_reserve_is_there_for_the_ending_whatever_came_before() {
    let fixture = Fixture::new();
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    writer.append(started(), at(2)).unwrap();
    let size = || fs::metadata(path(&fixture)).unwrap().len();
    for length in [1, 100, 5000, 9000, 30_000, 3] {
        writer.append(degraded(length), at(3)).unwrap();
        let used = lines(&fixture).0.len() as u64;
        assert!(size() - used >= RESERVE, "{used} of {}", size());
        assert_eq!(size() % STEP, 0);
    }
    let before = size();
    writer.append(lost(), at(4)).unwrap();
    assert_eq!(size(), before, "the ending takes no new space");
}

#[test]
fn a_file_without_its_reserve_gets_it_back() {
    let fixture = Fixture::new();
    let (bytes, _) = lines(&fixture);
    put(&fixture, &bytes);
    drop(JournalWriter::open(&fixture.dir).unwrap());
    assert_eq!(fs::metadata(path(&fixture)).unwrap().len(), STEP);
}

#[test]
fn an_event_may_be_long_but_not_endless() {
    let fixture = Fixture::new();
    let mut writer = JournalWriter::open(&fixture.dir).unwrap();
    writer.append(degraded(MAX_LINE - 300), at(2)).unwrap();
    let error = writer.append(degraded(MAX_LINE), at(2)).unwrap_err();
    assert!(matches!(error, JournalError::LongEvent { .. }));
    assert_eq!(read(&fixture).0.len(), 2);
    let endless = [&lines(&fixture).0[..], &vec![b'x'; MAX_LINE + 5]].concat();
    put(&fixture, endless);
    assert!(matches!(read(&fixture), (events, Tail::Broken { .. }) if events.len() == 2));
}

#[test]
fn an_ending_is_shortened_to_what_matters() {
    let path = "p".repeat(5000);
    let ending =
        Ending::start_failed(StartFault::NotFound, "exec", &path, Some(2), at(1), Observer::Keeper);
    let data = EventData::Failed(ending.with_detail("log_end", 77));
    let event = Event { seq: 2, ts: at(2), box_id: id(1), parent: None, data };
    let event = shortened(event).unwrap();
    let EventData::Failed(ending) = &event.data else { panic!("{event:?}") };
    assert_eq!(ending.start_fault(), Some(StartFault::NotFound));
    assert_eq!(ending.detail()["log_end"], 77);
    assert_eq!(ending.detail()["shortened"], true);
    assert!(!ending.detail().contains_key("message"));
    assert_eq!(shortened(event), None, "there is nothing more to leave out");
}

#[test]
fn a_directory_in_the_journals_place_is_refused() {
    let fixture = Fixture::new();
    fs::remove_file(path(&fixture)).unwrap();
    assert!(matches!(JournalReader::open(&fixture.dir), Err(JournalError::Open { .. })));
    fs::create_dir(path(&fixture)).unwrap();
    assert!(matches!(JournalReader::open(&fixture.dir), Err(JournalError::Open { .. })));
    fs::remove_dir(path(&fixture)).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", path(&fixture)).unwrap();
    assert!(matches!(JournalReader::open(&fixture.dir), Err(JournalError::Open { .. })));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), keep: bool) {
        let fixture = Fixture::new();
        let head = if keep { lines(&fixture).0 } else { Vec::new() };
        put(&fixture, [head, bytes].concat());
        let (events, _) = read(&fixture);
        prop_assert!(events.len() >= usize::from(keep));
        drop(JournalWriter::open(&fixture.dir));
    }
}
