//! Locks are seen across processes and go with their process.

use minimal_store::{Holders, LifeLock, StateDir, try_lock_daemon};

use crate::child::Acting;
use crate::sample::create;

#[test]
fn a_lock_says_who_lives_and_goes_with_its_process() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let state = StateDir::open(&path).unwrap();
    let lock = LifeLock::open(&create(&state, 1)).unwrap();
    assert!(lock.holders().unwrap().nobody());

    let keeper = Acting::start("hold keeper", &path);
    assert_eq!(lock.holders().unwrap(), Holders { keeper: true, init: false });
    assert!(!lock.try_keeper().unwrap());
    assert!(!lock.try_both().unwrap());

    let init = Acting::start("hold init", &path);
    assert_eq!(lock.holders().unwrap(), Holders { keeper: true, init: true });

    keeper.kill();
    assert_eq!(lock.holders().unwrap(), Holders { keeper: false, init: true });
    assert!(!lock.try_both().unwrap(), "the init is still there");
    let next = Acting::start("hold keeper", &path);
    next.kill();

    init.kill();
    assert!(lock.try_both().unwrap(), "and the first attempt kept nothing");
    assert!(lock.try_both().unwrap(), "what one has can be taken again");
    lock.release_both().unwrap();
    Acting::start("hold keeper", &path).kill();
}

#[test]
fn there_is_one_daemon() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("state");
    let state = StateDir::open(&path).unwrap();
    let other = Acting::start("be the daemon", &path);
    assert!(try_lock_daemon(&state).unwrap().is_none());
    other.kill();
    let lock = try_lock_daemon(&state).unwrap();
    assert!(lock.is_some());
    drop(lock);
    Acting::start("be the daemon", &path).kill();
}
