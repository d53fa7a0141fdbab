//! Values to make boxes of.

use minimal_proto::event::{Created, Started};
use minimal_proto::keeper::Enforcement;
use minimal_proto::{BoxId, Ending, EventData, Spec, Timestamp};
use minimal_store::{BoxDir, StateDir};

pub(crate) const AT: Timestamp = Timestamp::from_micros(1);

pub(crate) fn id(n: u64) -> BoxId {
    format!("01909a30-0000-7000-8000-{n:012x}").parse().unwrap()
}

pub(crate) fn spec() -> Spec {
    Spec::task(vec!["true".into()])
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
    state.create_box(id(n), &spec(), created(), AT).unwrap()
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

pub(crate) fn lost() -> EventData {
    EventData::Exited(Ending::lost(AT, serde_json::Map::new()))
}
