use minimal_proto::exec::{EXEC_LOG_MAX, ExecCommand, ExecMode};
use minimal_proto::stream::Stream;

use super::*;
use crate::LogReader;
use crate::fixture::{Fixture, at, id};

fn exec_id(n: u64) -> ExecId {
    format!("01909a31-0000-7000-8000-{n:012x}").parse().unwrap()
}

fn file(n: u64) -> ExecFile {
    ExecFile {
        schema: FILE_SCHEMA.to_owned(),
        id: exec_id(n),
        box_id: id(1),
        life: 1,
        command: ExecCommand {
            argv: vec!["true".into()],
            cwd: None,
            user: None,
            variables: vec!["TOKEN".to_owned()],
            timeout_ms: None,
            stop_grace_ms: None,
            mode: ExecMode::Detached,
            input: false,
            terminal: None,
        },
        created_at: at(5),
        idempotency_key: None,
        request_digest: None,
    }
}

fn create(fixture: &Fixture, n: u64) -> ExecDir {
    ExecDir::create(&fixture.dir, &file(n), EXEC_LOG_MAX).unwrap().0
}

#[test]
fn an_exec_is_kept_whole_and_the_newest_comes_first() {
    let fixture = Fixture::new();
    assert_eq!(ExecDir::list(&fixture.dir).unwrap(), []);
    for n in [2, 1, 3] {
        create(&fixture, n);
    }
    assert_eq!(ExecDir::list(&fixture.dir).unwrap(), [exec_id(3), exec_id(2), exec_id(1)]);
    let dir = ExecDir::open(&fixture.dir, exec_id(2)).unwrap();
    assert_eq!(dir.read_file().unwrap(), file(2));
    assert_eq!(dir.read_end().unwrap(), None);
    let end = ExecDir::lost(at(9));
    Unsaved::new(&dir, &end).save().unwrap();
    assert_eq!(dir.read_end().unwrap(), Some(end));
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(matches!(ExecDir::open(&fixture.dir, exec_id(4)), Err(ExecDirError::Missing { .. })));
    let twice = ExecDir::create(&fixture.dir, &file(2), EXEC_LOG_MAX);
    assert!(matches!(twice, Err(ExecDirError::Write { .. })));
    assert_eq!(dir.read_file().unwrap(), file(2), "the first is as it was");
}

#[test]
fn its_output_is_a_log_like_a_boxs() {
    let fixture = Fixture::new();
    let (dir, mut log) = ExecDir::create(&fixture.dir, &file(1), EXEC_LOG_MAX).unwrap();
    log.append(Stream::Stdout, at(6), b"hello\n");
    let end = log.seal();
    let mut reader = LogReader::open(&dir, 0, end).unwrap();
    assert!(reader.next_chunk(end, 100).unwrap().is_some());
    assert_eq!(crate::figures(&dir).unwrap().bytes, 6);
    assert_eq!(crate::figures(&fixture.dir).unwrap().bytes, 0, "the box's own has nothing of it");
}

#[test]
fn an_exec_whose_keeper_is_gone_is_lost_and_others_keep_what_they_had() {
    let fixture = Fixture::new();
    for n in [1, 2] {
        create(&fixture, n);
    }
    let earlier = ExecDir::lost(at(7));
    let first = ExecDir::open(&fixture.dir, exec_id(1)).unwrap();
    Unsaved::new(&first, &earlier).save().unwrap();
    let started = BTreeMap::from([(exec_id(2), at(3))]);
    assert_eq!(ExecDir::conclude_all(&fixture.dir, at(9), &started).unwrap(), 1);
    assert_eq!(first.read_end().unwrap(), Some(earlier));
    let second = ExecDir::open(&fixture.dir, exec_id(2)).unwrap().read_end().unwrap().unwrap();
    assert_eq!((second.started_at, second.ending.at()), (Some(at(3)), at(9)));
    assert_eq!(second.ending.detail()["log_end"], 0);
    assert_eq!(ExecDir::conclude_all(&fixture.dir, at(10), &BTreeMap::new()).unwrap(), 0);
}

#[test]
fn whatever_stands_in_its_place_is_told_and_hides_no_other() {
    let fixture = Fixture::new();
    let execs = fixture.dir.path().join("execs");
    for n in 1..=6 {
        create(&fixture, n);
    }
    let place = |n| execs.join(exec_id(n).to_string());
    std::fs::write(place(1).join("exec.json"), "{").unwrap();
    std::fs::write(place(1).join("end.json"), "[]").unwrap();
    std::fs::remove_file(place(2).join("exec.json")).unwrap();
    std::fs::rename(place(3).join("exec.json"), place(4).join("exec.json")).unwrap();
    std::fs::write(place(5).join("end.json"), [0; 300]).unwrap();
    std::fs::write(place(7), "a file").unwrap();
    std::os::unix::fs::symlink(place(5), place(8)).unwrap();
    std::fs::write(execs.join("notes.txt"), "").unwrap();
    assert_eq!(ExecDir::list(&fixture.dir).unwrap().len(), 8);
    let open = |n| ExecDir::open(&fixture.dir, exec_id(n));
    assert!(matches!(open(1).unwrap().read_file(), Err(ExecDirError::Form { .. })));
    assert!(matches!(open(1).unwrap().read_end(), Err(ExecDirError::Form { .. })));
    assert!(matches!(open(2).unwrap().read_file(), Err(ExecDirError::Missing { .. })));
    assert!(matches!(open(4).unwrap().read_file(), Err(ExecDirError::OtherExec { .. })));
    assert_eq!(open(5).unwrap().read_end().unwrap(), None, "NULs are no ending");
    assert!(matches!(open(7), Err(ExecDirError::Read { .. })));
    assert!(matches!(open(8), Err(ExecDirError::Read { .. })), "a link leads nowhere");
    // Only those that may have run: 5 and 6.
    assert_eq!(ExecDir::conclude_all(&fixture.dir, at(9), &BTreeMap::new()).unwrap(), 2);
}

#[test]
fn what_was_being_made_when_the_keeper_was_killed_is_no_exec() {
    let fixture = Fixture::new();
    let dir = create(&fixture, 1);
    std::fs::rename(dir.path().join("exec.json"), dir.path().join("exec.new")).unwrap();
    assert!(matches!(dir.read_file(), Err(ExecDirError::Missing { .. })));
    assert_eq!(ExecDir::conclude_all(&fixture.dir, at(9), &BTreeMap::new()).unwrap(), 0);
}

#[test]
fn a_removed_directory_is_seen_to_be_gone() {
    let fixture = Fixture::new();
    let dir = create(&fixture, 1);
    assert!(dir.is_linked());
    std::fs::remove_dir_all(dir.path()).unwrap();
    assert!(!dir.is_linked());
    assert!(Unsaved::new(&dir, &ExecDir::lost(at(1))).save().is_err());
}

#[test]
fn several_endings_are_saved_together_and_each_has_its_own_answer() {
    let fixture = Fixture::new();
    let dirs: Vec<_> = (1..=3).map(|n| create(&fixture, n)).collect();
    std::fs::remove_dir_all(dirs[1].path()).unwrap();
    let end = ExecDir::lost(at(1));
    let several: Vec<_> = dirs.iter().map(|dir| Unsaved::new(dir, &end)).collect();
    let saved: Vec<_> = Unsaved::save_all(&several).iter().map(Result::is_ok).collect();
    assert_eq!(saved, [true, false, true]);
    assert_eq!(dirs[2].read_end().unwrap(), Some(end));
}
