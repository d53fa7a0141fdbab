//! A file system that is full, or read-only.

use std::fs;

use minimal_proto::Spec;
use minimal_proto::State;
use minimal_proto::stream::Stream;
use minimal_store::{
    Chunk, CreateError, JournalReader, JournalWriter, LogReader, LogWriter, Record, StateDir,
    StateDirError,
};
use minimal_testkit::{Account, Tmpfs, need};

use crate::sample::{AT, create, created, id, lost, spec, started};

fn small_disk(root: &tempfile::TempDir) -> Option<Tmpfs> {
    need::tmpfs().then(|| Tmpfs::mount(&root.path().join("disk"), 2 << 20, &Account::current()))
}

#[test]
fn the_ending_is_kept_and_the_log_says_what_it_dropped() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = small_disk(&root) else { return };
    let state = StateDir::open(&disk.path().join("state")).unwrap();
    let dir = create(&state, 1);
    let mut journal = JournalWriter::open(&dir).unwrap();
    let mut log = LogWriter::create_or_open(&dir, 1 << 20).unwrap();
    journal.append(started(), AT).unwrap();
    assert!(!log.append(Stream::Stdout, AT, &[b'a'; 3000]).dropped);

    let ballast = disk.fill();
    // What the file's last page still takes is kept; then there is no space.
    let mut first_dropped = None;
    for _ in 0..20 {
        let before = log.end();
        if log.append(Stream::Stdout, AT, &[b'b'; 1000]).dropped {
            first_dropped.get_or_insert(before);
        }
    }
    let first_dropped = first_dropped.unwrap();
    assert_eq!(log.end(), 23_000, "offsets count what was dropped");
    assert_eq!(log.dropped(), 23_000 - first_dropped);
    assert_eq!(log.fault().unwrap().kind(), std::io::ErrorKind::StorageFull);

    journal.append_durable(lost(), AT).unwrap();
    let events = JournalReader::open(&dir).unwrap().read_new().unwrap();
    assert_eq!(Record::fold(&events).unwrap().state, State::Stopped);

    drop(ballast);
    let later = minimal_proto::Timestamp::from_micros(60_000_000);
    assert!(!log.append(Stream::Stdout, later, b"space again").dropped);
    assert!(log.fault().is_none());
    let mut reader = LogReader::open(&dir, first_dropped, log.end()).unwrap();
    let gap = Chunk::Gap { from: first_dropped, to: 23_000 };
    assert_eq!(reader.next_chunk(log.end(), 1000).unwrap(), Some(gap));
    let Some(Chunk::Frames(frames)) = reader.next_chunk(log.end(), 1000).unwrap() else {
        panic!("what came after the gap is kept")
    };
    assert_eq!(frames[0].bytes, b"space again");
}

#[test]
fn no_box_is_made_and_nothing_of_it_is_left() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = small_disk(&root) else { return };
    let state = StateDir::open(&disk.path().join("state")).unwrap();
    let big = Spec::task(vec![vec![b'x'; 3 << 20].into()]);
    let ballast = disk.fill();
    for spec in [spec(), big.clone()] {
        let error = state.create_box(id(1), &spec, created(), AT).unwrap_err();
        assert!(matches!(error, CreateError::NoSpace { .. }), "{error}");
    }
    drop(ballast);
    let error = state.create_box(id(1), &big, created(), AT).unwrap_err();
    assert!(matches!(error, CreateError::NoSpace { .. }), "{error}");
    assert_eq!(state.box_ids().unwrap(), []);
    assert_eq!(fs::read_dir(state.path().join("boxes")).unwrap().count(), 0);
    create(&state, 1);
}

#[test]
fn a_state_directory_that_cannot_be_made_says_why() {
    let root = tempfile::tempdir().unwrap();
    let Some(disk) = small_disk(&root) else { return };
    let path = disk.path().join("state");
    let ballast = disk.fill();
    let error = StateDir::open(&path).unwrap_err();
    assert!(matches!(error, StateDirError::Full { .. }), "{error}");
    assert!(error.hint().contains("df "), "{}", error.hint());
    drop(ballast);

    disk.set_read_only(true);
    let error = StateDir::open(&path.join("other")).unwrap_err();
    assert!(matches!(error, StateDirError::ReadOnly { .. }), "{error}");
    disk.set_read_only(false);
    drop(StateDir::open(&path).unwrap());
}

#[test]
fn another_users_directory_is_refused() {
    let root = tempfile::tempdir().unwrap();
    if !need::root() {
        return;
    }
    let path = root.path().join("state");
    fs::create_dir(&path).unwrap();
    std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
    let error = StateDir::open(&path).unwrap_err();
    assert!(matches!(error, StateDirError::OtherOwner { owner: 12_345, .. }), "{error}");
    assert!(error.to_string().contains("12345"));
}
