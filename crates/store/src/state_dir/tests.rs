use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::fixture::{Fixture, at, create, created, id};
use crate::{JournalReader, Record};
use minimal_proto::{Spec, State};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn it_is_made_private_with_what_is_above_it_and_opens_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b/state");
    for _ in 0..2 {
        let state = StateDir::open(&path).unwrap();
        assert_eq!(state.path(), path);
        assert_eq!(fs::read_to_string(path.join("format")).unwrap(), "1\n");
        assert_eq!(state.box_ids().unwrap(), []);
    }
    for made in ["a", "a/b", "a/b/state", "a/b/state/boxes", "a/b/state/new", "a/b/state/reaping"] {
        assert_eq!(mode(&root.path().join(made)), 0o700, "{made}");
    }
}

#[test]
fn a_directory_open_to_others_is_refused_unless_it_is_empty() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    fs::create_dir(&path).unwrap();
    for open in [0o755, 0o770, 0o777, 0o1777] {
        chmod(&path, open);
        fs::write(path.join("theirs"), "").unwrap();
        let error = StateDir::open(&path).unwrap_err();
        assert!(matches!(error, StateDirError::Exposed { mode, .. } if mode == open), "{error}");
        assert!(error.hint().contains("chmod 700"));
        fs::remove_file(path.join("theirs")).unwrap();
    }
    StateDir::open(&path).unwrap();
    assert_eq!(mode(&path), 0o700);
}

#[test]
fn what_is_not_a_directory_is_named() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("state"), file.join("a/b/state")] {
        let error = StateDir::open(&path).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` is not a directory", file.display()));
        assert!(error.hint().contains("MINIMAL_STATE_DIR"));
    }
    let path = root.path().join("state");
    drop(StateDir::open(&path).unwrap());
    fs::remove_dir(path.join("boxes")).unwrap();
    symlink("/", path.join("boxes")).unwrap();
    let error = StateDir::open(&path).unwrap_err();
    assert!(matches!(error, StateDirError::NotADirectory { path } if path.ends_with("boxes")));
}

#[test]
fn another_format_is_refused_and_a_lost_one_is_written_again() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let format = path.join("format");
    drop(StateDir::open(&path).unwrap());
    for lost in ["", "\0\0", "1"] {
        fs::write(&format, lost).unwrap();
        StateDir::open(&path).unwrap();
    }
    for (other, shown) in [("2\n", "`2`"), ("1 2", "`1 2`"), (&"9".repeat(999), "long")] {
        fs::write(&format, other).unwrap();
        let error = StateDir::open(&path).unwrap_err();
        assert!(error.to_string().contains(shown), "{error}");
        assert_eq!(fs::read_to_string(&format).unwrap(), *other, "it is not touched");
    }
}

#[test]
fn a_parent_that_cannot_be_made_is_named() {
    // Nothing can be made in /proc, whoever asks.
    let error = StateDir::open(Path::new("/proc/minimal/state")).unwrap_err();
    assert!(
        matches!(&error, StateDirError::Make { path, .. } if path == Path::new("/proc/minimal")),
        "{error}"
    );
    assert!(error.hint().contains("/proc/minimal"), "{}", error.hint());
}

#[test]
fn a_new_box_is_complete_and_private() {
    let fixture = Fixture::new();
    let path = fixture.dir.path();
    assert_eq!(path, fixture.state.box_path(id(1)));
    let mut found: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, ["fs", "journal.ndjson", "life.lock", "log", "spec.json"]);
    for name in &found {
        assert_eq!(mode(&path.join(name)) & 0o077, 0, "{name}");
    }
    assert_eq!(fixture.dir.read_spec().unwrap(), Spec::task(vec!["true".into()]));
    assert_eq!(fixture.dir.read_generation().unwrap(), 1);
    let events = JournalReader::open(&fixture.dir).unwrap().read_new().unwrap();
    assert_eq!(Record::fold(&events).unwrap().state, State::Created);
    assert!(fixture.dir.is_linked());
    assert!(fixture.dir.disk_bytes().unwrap() > 16 << 10);
}

#[test]
fn an_id_is_never_given_twice() {
    let fixture = Fixture::new();
    let again =
        || fixture.state.create_box(id(1), &Spec::task(vec!["false".into()]), created(), at(2));
    assert!(matches!(again(), Err(CreateError::Exists { .. })));
    assert_eq!(fixture.dir.read_spec().unwrap(), Spec::task(vec!["true".into()]));
    let boxes = fixture.state.path().join("boxes");
    assert_eq!(fs::read_dir(&boxes).unwrap().count(), 1, "nothing is left of the attempt");
}

#[test]
fn a_spec_beyond_the_limit_is_not_written() {
    let fixture = Fixture::new();
    let spec = Spec::task(vec![vec![b'x'; 17 << 20].into()]);
    let error = fixture.state.create_box(id(2), &spec, created(), at(2)).unwrap_err();
    assert!(matches!(error, CreateError::LongSpec { .. }));
    fs::write(fixture.dir.path().join("spec.json"), vec![b' '; 17 << 20]).unwrap();
    assert!(matches!(fixture.dir.read_spec(), Err(BoxDirError::TooLong { .. })));
}

#[test]
fn a_directory_of_the_wrong_form_says_what_is_wrong() {
    let fixture = Fixture::new();
    let file = |name: &str| fixture.dir.path().join(name);
    for (content, life) in
        [("1\n", Some(1)), ("7", Some(7)), ("", Some(1)), ("\0\0", Some(1)), ("x\n", None)]
    {
        fs::write(file("generation"), content).unwrap();
        assert_eq!(fixture.dir.read_generation().ok(), life, "{content:?}");
    }
    fs::remove_file(file("generation")).unwrap();
    assert_eq!(fixture.dir.read_generation().unwrap(), 1);
    // What a crash has left half-written is in nobody's way.
    fs::write(file("generation.new"), "9").unwrap();
    for generation in [2, 4_294_967_295] {
        fixture.dir.write_generation(generation).unwrap();
        assert_eq!(fixture.dir.read_generation().unwrap(), generation);
        assert!(!file("generation.new").exists());
    }
    fs::write(file("spec.json"), "{").unwrap();
    assert!(matches!(fixture.dir.read_spec(), Err(BoxDirError::Spec { .. })));
    fs::remove_file(file("spec.json")).unwrap();
    assert!(matches!(fixture.dir.read_spec(), Err(BoxDirError::Read { .. })));
    rustix::fs::mknodat(
        rustix::fs::CWD,
        file("spec.json"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();
    let error = fixture.dir.read_spec().unwrap_err();
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "it is not a regular file",
        "and it does not wait for a writer"
    );
    assert!(matches!(fixture.state.box_dir(id(9)), Err(BoxDirError::Missing { .. })));
    fs::write(fixture.state.box_path(id(9)), "").unwrap();
    assert!(matches!(fixture.state.box_dir(id(9)), Err(BoxDirError::Open { .. })));
}

#[test]
fn a_listing_has_boxes_first_and_no_unfinished_ones() {
    let fixture = Fixture::new();
    create(&fixture.state, 3);
    create(&fixture.state, 2);
    let boxes = fixture.state.path().join("boxes");
    let blank = fixture.state.blank_dir().unwrap();
    fs::create_dir(boxes.join(id(5).to_string().to_uppercase())).unwrap();
    fs::write(boxes.join("notes"), "").unwrap();
    let foreign = |name: &str| Entry::Foreign(name.into());
    let entries = fixture.state.box_ids().unwrap();
    let upper = id(5).to_string().to_uppercase();
    let boxes = [1, 2, 3].map(|n| Entry::Box(id(n)));
    assert_eq!(entries[..3], boxes);
    assert_eq!(entries[3..], [foreign(&upper), foreign("notes")]);
    let new = fixture.state.path().join("new");
    assert_eq!(fs::read_dir(&new).unwrap().count(), 1);
    drop(blank);
    assert_eq!(fs::read_dir(&new).unwrap().count(), 0, "one that is not used goes");
}

#[test]
fn a_reaped_box_is_gone_and_so_is_its_keepers_directory() {
    let fixture = Fixture::new();
    fs::write(fixture.dir.path().join("fs/file"), "x").unwrap();
    fixture.state.reap(id(1)).unwrap();
    assert!(!fixture.dir.is_linked());
    assert_eq!(fixture.state.box_ids().unwrap(), []);
    assert_eq!(fs::read_dir(fixture.state.path().join("reaping")).unwrap().count(), 0);
    assert!(matches!(fixture.state.reap(id(1)), Err(ReapError::Missing { .. })));
}

#[test]
fn what_a_crash_left_is_finished() {
    let fixture = Fixture::new();
    fixture.state.condemn(id(1)).unwrap();
    assert!(!fixture.dir.is_linked(), "it is no box from here on");
    let boxes = fixture.state.path().join("boxes");
    fs::create_dir_all(fixture.state.path().join("new/1-0/fs")).unwrap();
    fs::create_dir(boxes.join("theirs")).unwrap();
    drop(StateDir::open(fixture.state.path()).unwrap());
    let errors = fixture.state.finish_reaping();
    assert!(errors.is_empty(), "{errors:?}");
    assert_eq!(fs::read_dir(fixture.state.path().join("reaping")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(fixture.state.path().join("new")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&boxes).unwrap().count(), 1, "what is not ours stays");
}

#[test]
fn a_reap_that_stopped_half_way_can_be_repeated() {
    let fixture = Fixture::new();
    fixture.state.condemn(id(1)).unwrap();
    fixture.state.reap(id(1)).unwrap();
    assert_eq!(fs::read_dir(fixture.state.path().join("reaping")).unwrap().count(), 0);
}

#[test]
fn several_daemons_may_open_a_new_directory_at_once() {
    let root = tempfile::tempdir().unwrap();
    for round in 0..100 {
        let path = root.path().join(round.to_string());
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    StateDir::open(&path).unwrap()
                });
            }
        });
    }
}
