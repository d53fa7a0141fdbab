//! Every step fails once, and the process dies at every step.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Output;

use minimal_proto::Timestamp;
use minimal_proto::stream::Stream;
use minimal_store::journal::JournalError;
use minimal_store::{
    Chunk, CreateError, Entry, JournalReader, JournalWriter, LogReader, LogWriter, Record,
    StateDir, figures, hook,
};

use crate::child;
use crate::sample::{AT, create, created, id, lost, spec, started};

const NO_SPACE: &str = "28";
const IO: &str = "5";

/// A state directory and a hook directory.
struct World {
    root: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("hooks")).unwrap();
        Self { root }
    }

    fn state(&self) -> StateDir {
        StateDir::open(&self.root.path().join("state")).unwrap()
    }

    fn hooks(&self) -> PathBuf {
        self.root.path().join("hooks")
    }

    /// Has another process do something with one fault in its way.
    fn act(&self, act: &str, fault: &str, content: &str) -> Output {
        fs::write(self.hooks().join(fault), content).unwrap();
        let mut command = child::command(act, self.state().path());
        let output = command.env("MINIMAL_HOOKS", self.hooks()).output().unwrap();
        assert!(self.hooks().join(format!("{fault}.fired")).exists(), "{fault} was never passed");
        output
    }

    /// The same, where the process gets to its end.
    fn survive(&self, act: &str, fault: &str, content: &str) {
        let output = self.act(act, fault, content);
        assert!(output.status.success(), "{fault}: {}", String::from_utf8_lossy(&output.stdout));
    }

    /// The same, where the process is killed.
    fn die(&self, act: &str, point: &str) {
        let status = self.act(act, &format!("{point}.kill"), "").status;
        assert_eq!(status.signal(), Some(9), "{point}: {status}");
    }

    /// Starts a daemon's work: afterwards there are whole boxes and nothing else.
    fn recover(&self) -> Vec<Entry> {
        let state = self.state();
        let errors = state.finish_reaping();
        assert!(errors.is_empty(), "{errors:?}");
        let boxes = state.box_ids().unwrap();
        let count = |name: &str| fs::read_dir(state.path().join(name)).unwrap().count();
        assert_eq!((count("boxes"), count("new"), count("reaping")), (boxes.len(), 0, 0));
        boxes
    }
}

/// What a child does, by its name.
#[expect(clippy::panic, reason = "a test's way to fail")]
pub(crate) fn act(act: &str, state: &StateDir) {
    match act {
        "create" => drop(state.create_box(id(1), &spec(), created(), AT)),
        "create and be told" => {
            let error = state.create_box(id(1), &spec(), created(), AT).unwrap_err();
            assert!(matches!(error, CreateError::NoSpace { .. }), "{error}");
            assert_eq!(state.box_ids().unwrap(), []);
            create(state, 1);
        }
        "reap" => drop(state.reap(id(1))),
        "reap and be told" => {
            state.reap(id(1)).unwrap_err();
            state.reap(id(1)).unwrap();
        }
        "blank" => {
            let count = || fs::read_dir(state.path().join("new")).unwrap().count();
            drop(state.blank_dir().unwrap());
            assert_eq!(count(), 1, "the hook fails its removal");
            let next = state.blank_dir().unwrap();
            assert_eq!(count(), 1, "the first went with the next");
            drop(next);
            assert_eq!(count(), 0);
        }
        "log" => log(state),
        "journal" => journal(state),
        "journal and die" => {
            let dir = state.box_dir(id(1)).unwrap();
            let mut writer = JournalWriter::open(&dir).unwrap();
            writer.append(started(), AT).unwrap();
            writer.append_durable(lost(), AT).unwrap();
        }
        "sync" => sync(state),
        other => panic!("nobody knows how to {other}"),
    }
}

fn log(state: &StateDir) {
    let dir = create(state, 1);
    let mut writer = LogWriter::create_or_open(&dir, 1 << 20).unwrap();
    assert!(writer.append(Stream::Stdout, AT, &[b'a'; 100]).dropped, "the hook fails the first");
    let at_once = Timestamp::from_micros(2);
    assert!(writer.append(Stream::Stdout, at_once, &[b'b'; 10]).dropped, "not tried so soon");
    assert_eq!(writer.dropped(), 110);
    let later = Timestamp::from_micros(1_000_000);
    let appended = writer.append(Stream::Stdout, later, b"kept");
    assert!(!appended.dropped);
    assert_eq!(appended.end, 114);
    let mut reader = LogReader::open(&dir, 0, 114).unwrap();
    assert_eq!(reader.next_chunk(114, 999).unwrap(), Some(Chunk::Gap { from: 0, to: 110 }));
    assert!(matches!(reader.next_chunk(114, 999).unwrap(), Some(Chunk::Frames(frames))
        if frames[0].bytes == b"kept"));
    assert_eq!(figures(&dir).unwrap(), writer.figures());
    assert_eq!(writer.figures().dropped_bytes, 110);
}

fn journal(state: &StateDir) {
    let dir = create(state, 1);
    let mut writer = JournalWriter::open(&dir).unwrap();
    let error = writer.append(started(), AT).unwrap_err();
    assert!(matches!(error, JournalError::NoSpace { .. }), "{error}");
    assert_eq!(writer.append(started(), AT).unwrap().seq, 2);
    assert_eq!(JournalReader::open(&dir).unwrap().read_new().unwrap().len(), 2);
}

fn sync(state: &StateDir) {
    let dir = create(state, 1);
    let mut writer = JournalWriter::open(&dir).unwrap();
    writer.append(started(), AT).unwrap();
    let error = writer.append_durable(lost(), AT).unwrap_err();
    assert!(matches!(error, JournalError::Sync { .. }), "{error}");
    let event = writer.append_durable(lost(), Timestamp::from_micros(2)).unwrap();
    assert_eq!((event.seq, event.ts), (3, AT), "the same call again does not append again");
    assert_eq!(JournalReader::open(&dir).unwrap().read_new().unwrap().len(), 3);
}

fn points(prefix: &str) -> impl Iterator<Item = &'static str> {
    hook::POINTS.iter().copied().filter(move |point| point.starts_with(prefix))
}

#[test]
fn a_create_that_fails_at_any_step_leaves_nothing_and_can_be_repeated() {
    for point in points("store.create.") {
        let world = World::new();
        world.survive("create and be told", &format!("{point}.fail"), NO_SPACE);
        assert_eq!(world.recover(), [Entry::Box(id(1))], "{point}");
    }
}

#[test]
fn a_create_that_dies_at_any_step_leaves_a_whole_box_or_none() {
    for point in points("store.create.") {
        let world = World::new();
        world.die("create", point);
        if point == "store.create.after_rename" {
            assert_eq!(world.recover(), [Entry::Box(id(1))]);
            let dir = world.state().box_dir(id(1)).unwrap();
            let events = JournalReader::open(&dir).unwrap().read_new().unwrap();
            assert_eq!(Record::fold(&events).unwrap().last_seq, 1);
            dir.read_spec().unwrap();
        } else {
            assert_eq!(world.recover(), [], "{point}");
            create(&world.state(), 1);
        }
    }
}

/// A box with something to remove.
fn with_files(world: &World) -> PathBuf {
    let path = create(&world.state(), 1).path().to_owned();
    fs::create_dir_all(path.join("fs/a/b/c")).unwrap();
    fs::write(path.join("fs/a/b/file"), "x").unwrap();
    path
}

#[test]
fn a_reap_that_fails_at_any_step_can_be_repeated() {
    for point in points("store.reap.") {
        let world = World::new();
        with_files(&world);
        world.survive("reap and be told", &format!("{point}.fail"), IO);
        assert_eq!(world.recover(), [], "{point}");
    }
}

#[test]
fn a_reap_that_dies_at_any_step_is_finished_or_never_began() {
    for point in points("store.reap.") {
        let world = World::new();
        let path = with_files(&world);
        world.die("reap", point);
        if point == "store.reap.before_rename" {
            assert_eq!(world.recover(), [Entry::Box(id(1))]);
            assert!(path.join("fs/a/b/file").exists(), "all of it is there");
        } else {
            assert_eq!(world.recover(), [], "{point}");
        }
    }
}

#[test]
fn a_blank_directory_that_could_not_be_removed_is_removed_with_the_next() {
    World::new().survive("blank", "store.reap.during_remove.fail", IO);
}

#[test]
fn output_that_cannot_be_written_is_counted() {
    World::new().survive("log", "store.log.append.fail", NO_SPACE);
}

#[test]
fn an_event_that_cannot_be_written_can_be_repeated() {
    World::new().survive("journal", "store.journal.append.fail", NO_SPACE);
}

#[test]
fn an_ending_that_cannot_be_synced_is_written_once() {
    World::new().survive("sync", "store.journal.sync.fail", IO);
}

#[test]
fn a_writer_that_dies_leaves_what_it_had_written() {
    for (point, whole) in [("store.journal.append", 1), ("store.journal.sync", 3)] {
        let world = World::new();
        let dir = create(&world.state(), 1);
        world.die("journal and die", point);
        assert_eq!(JournalReader::open(&dir).unwrap().read_new().unwrap().len(), whole);
        assert_eq!(JournalWriter::open(&dir).unwrap().record().last_seq, whole as u64);
    }
}

/// Watches that no point of the store is left out above.
#[test]
fn every_point_of_the_store_is_exercised_here() {
    let source = include_str!("hooks.rs");
    for point in points("store.") {
        let group = point.rsplit_once('.').unwrap().0;
        assert!(
            source.contains(&format!("points(\"{group}.\")")) || source.contains(point),
            "{point}"
        );
    }
}
