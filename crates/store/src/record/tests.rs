#![expect(clippy::disallowed_methods, reason = "tests stand in for linux's wait")]

use minimal_proto::ending::{Observed, Observer, StartFault, WaitOutcome};
use minimal_proto::event::{ClientNote, Degraded, Renamed, StopRequested};
use proptest::prelude::*;

use super::*;

const IDS: [&str; 2] =
    ["01909a30-0000-7000-8000-000000000001", "01909a30-0000-7000-8000-000000000002"];

fn id(index: usize) -> BoxId {
    IDS[index].parse().unwrap()
}

fn name(text: &str) -> BoxName {
    text.parse().unwrap()
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn created() -> EventData {
    EventData::Created(Created {
        name: name("first"),
        remove: true,
        idempotency_key: Some("key".to_owned()),
        request_digest: Some("digest".to_owned()),
        spec_digest: None,
        client_digest: None,
        sources: None,
    })
}

fn started(life: u32) -> EventData {
    EventData::Started(Started {
        life,
        boot_id: "boot".to_owned(),
        keeper_pid: 7,
        enforcement: Enforcement {
            namespaces: vec!["user".to_owned()],
            users: "range".to_owned(),
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

fn ending(reason: Reason) -> Ending {
    match reason {
        Reason::StartFailed => {
            Ending::start_failed(StartFault::Other, "x", "x", None, at(99), Observer::Keeper)
        }
        Reason::Lost => Ending::lost(at(99), serde_json::Map::new()),
        observed => Ending::observed(observed, Observed::from_wait(WaitOutcome::Exited(3)), at(99)),
    }
}

fn event(seq: u64, box_id: BoxId, data: EventData) -> Event {
    Event { seq, ts: at(i64::try_from(seq).unwrap_or(0)), box_id, parent: None, data }
}

/// The kinds of events the model knows, by their number.
fn data(kind: u8, life: u32, reason: Reason) -> EventData {
    match kind {
        0 => created(),
        1 => started(life),
        2 => EventData::Exited(ending(reason)),
        3 => EventData::Failed(ending(reason)),
        4 => EventData::StopRequested(StopRequested { force: false, grace_ms: 1 }),
        5 => EventData::Degraded(Degraded { cause: "c".to_owned() }),
        6 => EventData::Renamed(Renamed { from: name("first"), to: name("second") }),
        7 => EventData::Attached(ClientNote { input: true }),
        8 => EventData::Detached(ClientNote { input: true }),
        9 => EventData::Resumed(Resumed { life, log_begin: 5, former: ending(reason) }),
        10 => EventData::ResumeFailed(ending(reason)),
        _ => EventData::Unknown { type_name: "later".to_owned(), data: serde_json::Value::Null },
    }
}

/// What a box is, told apart from the record's way of holding it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Model {
    Nothing,
    Made,
    /// In this life.
    Runs(u32),
    /// After this many.
    Over(State, u32),
    /// Before the next one after so many, and what it was.
    Again(State, u32),
}

impl Model {
    /// The rules once more, as a table: from where, what, to where.
    fn next(self, kind: u8, life: u32, reason: Reason) -> Option<Self> {
        match (self, kind) {
            (Self::Nothing, 0) => Some(Self::Made),
            (Self::Nothing, _) | (_, 0) => None,
            (Self::Made, 1) if life == 1 => Some(Self::Runs(1)),
            (Self::Again(_, lives), 1) if life == lives + 1 => Some(Self::Runs(life)),
            (Self::Runs(lives), 2) if reason != Reason::StartFailed => {
                Some(Self::Over(reason.state(), lives))
            }
            (Self::Made, 3) if reason == Reason::StartFailed => Some(Self::Over(State::Failed, 0)),
            (Self::Over(state, lives), 9) if state != State::Failed && life == lives + 1 => {
                Some(Self::Again(state, lives))
            }
            (Self::Again(state, lives), 10) if reason == Reason::StartFailed => {
                Some(Self::Over(state, lives))
            }
            (_, 1..=3 | 9 | 10) => None,
            (Self::Over(..), 4 | 5) => None,
            (same, _) => Some(same),
        }
    }

    fn state(self) -> Option<State> {
        match self {
            Self::Nothing => None,
            Self::Made => Some(State::Created),
            Self::Runs(_) => Some(State::Running),
            Self::Over(state, _) => Some(state),
            Self::Again(..) => Some(State::Pending),
        }
    }
}

proptest! {
    /// Whatever is offered, in whatever order: the record takes exactly what the model takes, is
    /// unchanged by what it denies, and folding what was taken gives the same record.
    #[test]
    fn the_record_follows_the_model(
        steps in proptest::collection::vec(
            (0u8..12, 0u32..4, 0usize..Reason::ALL.len(), 0u8..8, 0u8..8), 0..60),
    ) {
        let mut model = Model::Nothing;
        let mut record: Option<Record> = None;
        let mut taken = Vec::new();
        for (kind, life, reason, seq_fault, box_fault) in steps {
            let reason = Reason::ALL[reason];
            let right = taken.len() as u64 + 1;
            // One in eight events is misnumbered, one in eight belongs to another box.
            let seq = if seq_fault == 0 { right + 1 + u64::from(life) } else { right };
            let whose = id(usize::from(box_fault == 0 && record.is_some()));
            let event = event(seq, whose, data(kind, life, reason));
            let expected = model
                .next(kind, life, reason)
                .filter(|_| seq == right && (record.is_none() || whose == id(0)));
            let before = record.clone();
            let answer = match &mut record {
                None => Record::begin(&event).map(|begun| record = Some(begun)),
                Some(record) => record.apply(&event),
            };
            prop_assert_eq!(answer.is_ok(), expected.is_some(), "{:?}: {:?}", event, answer);
            match expected {
                Some(next) => {
                    model = next;
                    taken.push(event);
                }
                None => prop_assert_eq!(&record, &before),
            }
            prop_assert_eq!(record.as_ref().map(|record| record.state), model.state());
        }
        prop_assert_eq!(Record::fold(&taken).ok(), record);
    }
}

#[test]
fn a_whole_life_is_in_the_record() {
    let events = [
        event(1, id(0), created()),
        event(2, id(0), started(1)),
        event(3, id(0), data(6, 0, Reason::Exit)),
        event(4, id(0), data(5, 0, Reason::Exit)),
        event(5, id(0), data(4, 0, Reason::Exit)),
        event(6, id(0), data(2, 0, Reason::Stopped)),
        event(7, id(0), data(11, 0, Reason::Exit)),
    ];
    let record = Record::fold(&events).unwrap();
    assert_eq!(record.name, name("second"));
    assert_eq!((record.created_at, record.started_at), (at(1), Some(at(2))));
    assert_eq!((record.state, record.ended_at), (State::Stopped, Some(at(99))));
    assert_eq!((record.lives, record.last_seq), (1, 7));
    assert_eq!((record.boot_id.as_deref(), record.keeper_pid), (Some("boot"), Some(7)));
    assert_eq!(record.degraded.as_deref(), Some("c"));
    assert!(record.stop_requested && record.remove && record.enforcement.is_some());
    assert_eq!(record.request_digest.as_deref(), Some("digest"));
}

/// A try to begin a further life that fails leaves everything as it was, but for that it was one.
#[test]
fn a_failed_resume_is_undone() {
    let all = [
        created(),
        started(1),
        data(4, 0, Reason::Exit),
        data(5, 0, Reason::Exit),
        data(2, 0, Reason::Stopped),
    ];
    let mut record =
        Record::fold(&(1..).zip(all).map(|(seq, it)| event(seq, id(0), it)).collect::<Vec<_>>())
            .unwrap();
    let before = record.clone();
    assert_eq!((record.life(), record.generation, record.log_begin), (1, 1, 0));
    record.apply(&event(6, id(0), data(9, 2, Reason::Stopped))).unwrap();
    assert_eq!((record.life(), record.lives, record.generation, record.log_begin), (2, 1, 2, 5));
    assert_eq!((&record.ending, &record.degraded, record.started_at), (&None, &None, None));
    assert!(record.is_resuming() && !record.stop_requested && record.enforcement.is_none());
    record.apply(&event(7, id(0), data(10, 0, Reason::StartFailed))).unwrap();
    let expected = Record {
        last_seq: 7,
        generation: 2,
        resume_failure: Some(ending(Reason::StartFailed)),
        ..before
    };
    assert_eq!(record, expected);
    record.apply(&event(8, id(0), data(9, 2, Reason::Stopped))).unwrap();
    record.apply(&event(9, id(0), started(2))).unwrap();
    assert_eq!((record.lives, record.generation, &record.resume_failure), (2, 3, &None));
}

#[test]
fn each_denial_says_what_is_in_the_way() {
    let running = [event(1, id(0), created()), event(2, id(0), started(1))];
    let after = |last: Event| Record::fold(running.iter().chain([&last])).unwrap_err().to_string();
    assert_eq!(Record::fold([]).unwrap_err().to_string(), "the journal holds no event");
    assert_eq!(after(event(4, id(0), created())), "event 4 stands where event 3 belongs");
    assert_eq!(after(event(3, id(0), created())), "event 3 creates a box that exists");
    assert_eq!(
        after(event(3, id(0), started(2))),
        "event 3 starts life 2, but the last one has not ended"
    );
    assert_eq!(
        after(event(3, id(1), started(2))),
        format!("event 3 belongs to the box {}", IDS[1])
    );
    assert_eq!(
        after(event(3, id(0), data(3, 0, Reason::StartFailed))),
        "event 3 fails the start of a box that has started"
    );
    assert_eq!(
        after(event(3, id(0), EventData::Exited(ending(Reason::StartFailed)))),
        "event 3, `exited`, cannot hold an ending of reason start_failed"
    );
}

#[test]
fn a_return_of_the_entrypoint_is_no_end() {
    let returned = || EventData::EntrypointReturned(ending(Reason::Exit));
    let restarted = || EventData::Restarted(minimal_proto::event::Restarted { restarts: 1 });
    let events = |all: Vec<EventData>| -> Vec<Event> {
        (1..).zip(all).map(|(seq, data)| event(seq, id(0), data)).collect()
    };
    let all = vec![created(), started(1), returned(), restarted(), EventData::Ready];
    let record = Record::fold(&events(all.clone())).unwrap();
    assert_eq!((record.state, &record.ending), (State::Running, &None));
    let expected = Entrypoint {
        returned: Some(ending(Reason::Exit)),
        runs_again: true,
        restarts: 1,
        ready: true,
    };
    assert_eq!(record.entrypoint, expected);
    let again = all.into_iter().chain([returned()]).collect();
    assert!(!Record::fold(&events(again)).unwrap().entrypoint.runs_again);
    for event in [returned(), restarted(), EventData::Ready] {
        let early = Record::fold(&events(vec![created(), event.clone()]));
        assert!(matches!(early, Err(Denied::BeforeStart { seq: 2, .. })));
        let late = vec![created(), started(1), EventData::Exited(ending(Reason::Exit)), event];
        let late = Record::fold(&events(late));
        assert!(matches!(late, Err(Denied::AfterEnding { seq: 4, .. })));
    }
}
