//! A box to test with.

use minimal_proto::event::{Created, Started};
use minimal_proto::keeper::Enforcement;
use minimal_proto::{BoxId, EventData, Spec, Timestamp};

use crate::{BoxDir, StateDir};

/// A state directory with one new box, deleted when dropped.
pub(crate) struct Fixture {
    _root: tempfile::TempDir,
    pub(crate) state: StateDir,
    pub(crate) dir: BoxDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(&root.path().join("state")).unwrap();
        let dir = create(&state, 1);
        Self { _root: root, state, dir }
    }
}

pub(crate) fn id(n: u64) -> BoxId {
    format!("01909a30-0000-7000-8000-{n:012x}").parse().unwrap()
}

pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub(crate) fn created() -> Created {
    Created {
        name: "web-1".parse().unwrap(),
        remove: false,
        idempotency_key: None,
        request_digest: None,
        spec_digest: None,
        client_digest: None,
        sources: None,
    }
}

pub(crate) fn create(state: &StateDir, n: u64) -> BoxDir {
    state.create_box(id(n), &Spec::task(vec!["true".into()]), created(), at(1)).unwrap()
}

pub(crate) fn started() -> EventData {
    EventData::Started(Started {
        life: 1,
        boot_id: "boot".to_owned(),
        keeper_pid: 7,
        enforcement: Enforcement {
            namespaces: vec![],
            users: "single".to_owned(),
            uid_map: vec![],
            network: "none".to_owned(),
            workspace: Some("none".into()),
            no_new_privs: true,
            seccomp: true,
            capabilities: vec![],
            limits: vec![],
            install: "none".to_owned(),
            freezer: None,
            missing: vec![],
        },
    })
}
