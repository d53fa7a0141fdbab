use minimal_proto::event::Created;
use minimal_proto::{Event, EventData, Spec};
use minimal_store::Record;

use super::*;
use crate::boxes::Facts;

fn id(n: u64) -> BoxId {
    format!("01909a30-0000-7000-8000-{n:012x}").parse().unwrap()
}

fn name(text: &str) -> BoxName {
    text.parse().unwrap()
}

fn ended(n: u64, called: &str) -> Entry {
    let ts = Timestamp::from_micros(i64::try_from(n).unwrap());
    let event = |seq, data| Event { seq, ts, box_id: id(n), parent: None, data };
    let created = Created {
        name: name(called),
        remove: false,
        idempotency_key: None,
        request_digest: None,
        spec_digest: None,
        client_digest: None,
        sources: None,
    };
    let failed = serde_json::from_value(serde_json::json!({
        "reason": "start_failed", "exit_code": null, "signal": null, "signal_number": null,
        "core_dumped": false, "at": ts, "observed_by": "keeper", "detail": {},
    }));
    let events =
        [event(1, EventData::Created(created)), event(2, EventData::Failed(failed.unwrap()))];
    let record = Record::fold(&events).unwrap();
    let mut spec = Spec::task(vec!["sh".into()]);
    spec.files.project_root = Some(format!("/p{}", n % 2).as_str().into());
    let ended = Ended::new(&record, &Facts::from(&spec), Default::default(), "h").unwrap();
    Entry::Ended(Arc::new(ended))
}

fn reserve(index: &Arc<Index>, n: u64, asked: &str, key: Option<&RequestKey>) -> Admission {
    index.admit(id(n), Some(&name(asked)), b"sh", key).unwrap()
}

#[test]
fn a_name_is_held_from_its_reservation_on_and_free_if_nothing_comes_of_it() {
    let index = Arc::new(Index::default());
    let reservation = reserve(&index, 1, "web", None);
    let refused = index.admit(id(2), Some(&name("web")), b"sh", None).unwrap_err();
    assert_eq!(refused, AdmitError::Name(NameHeld { name: name("web"), holder: id(1) }));
    assert!(index.resolve("web").is_err(), "it is not there yet");
    drop(reservation);
    let Admission::New(reservation) = reserve(&index, 3, "web", None) else { panic!() };
    reservation.publish(ended(3, "web"));
    assert_eq!(index.resolve("web").unwrap().id(), id(3));
    assert_eq!(
        index.admit(id(3), None, b"sh", None).unwrap_err(),
        AdmitError::IdTaken { id: id(3) }
    );
    assert!(index.admit(id(4), Some(&name("web")), b"sh", None).is_ok(), "it has ended");
}

#[tokio::test]
async fn a_repeat_waits_for_the_first_and_is_told_apart_from_another_request() {
    let index = Arc::new(Index::default());
    let key = RequestKey { key: "k".into(), digest: "d".into() };
    let Admission::New(first) = reserve(&index, 1, "a", Some(&key)) else { panic!() };
    let Admission::Repeat { id: repeated, mut made } = reserve(&index, 2, "a", Some(&key)) else {
        panic!()
    };
    assert_eq!(repeated, id(1));
    assert!(!made.has_changed().unwrap(), "the outcome is not known");
    let other = RequestKey { digest: "e".into(), ..key.clone() };
    let refused = index.admit(id(3), None, b"sh", Some(&other)).unwrap_err();
    assert_eq!(refused, AdmitError::KeyReused { id: id(1) });
    first.publish(ended(1, "a"));
    assert!(made.changed().await.is_err(), "the outcome is known");

    // A key lives as long as its box.
    index.remove(id(1));
    assert!(matches!(reserve(&index, 4, "a", Some(&key)), Admission::New(_)));
}

#[tokio::test]
async fn a_box_that_is_being_resumed_holds_its_name_and_is_not_deleted() {
    let index = Arc::new(Index::default());
    index.put(ended(1, "web"));
    index.put(ended(2, "web"));
    let Resumable::Now(held, _) = index.resume(id(1)).unwrap() else { panic!() };
    let refused = index.admit(id(3), Some(&name("web")), b"sh", None).unwrap_err();
    let by = NameHeld { name: name("web"), holder: id(1) };
    assert_eq!(refused, AdmitError::Name(by.clone()));
    assert_eq!(index.resume(id(2)).unwrap_err(), by, "the other box of the name waits too");
    assert!(index.condemn(id(1)).is_err());
    let Resumable::Soon(mut known) = index.resume(id(1)).unwrap() else { panic!() };
    assert!(!known.has_changed().unwrap(), "the outcome is not known");
    drop(held);
    assert!(known.changed().await.is_err(), "the outcome is known");
    assert!(matches!(index.resume(id(2)), Ok(Resumable::Now(..))));
    assert!(index.condemn(id(1)).unwrap().is_some());
    assert!(matches!(index.resume(id(1)), Ok(Resumable::Not)));
}

#[test]
fn pages_are_newest_first_and_filtered() {
    let index = Index::default();
    for n in 0..10 {
        index.put(ended(n, "x"));
    }
    index.put(Entry::Broken(Arc::new(Broken { id: id(10), reason: "torn".into() })));
    let ids = |page: &[Entry]| page.iter().map(Entry::id).collect::<Vec<_>>();
    let all = Filter::default();
    let (page, more) = index.page(&all, 3, None);
    assert_eq!((ids(&page), more), (vec![id(10), id(9), id(8)], true));
    let (page, more) = index.page(&all, 100, Some(id(2)));
    assert_eq!((ids(&page), more), (vec![id(1), id(0)], false));
    let odd = Filter { project: Some("/p1".into()), ..Filter::default() };
    let (page, more) = index.page(&odd, 2, Some(id(6)));
    assert_eq!((ids(&page), more), (vec![id(5), id(3)], true));
    let running = Filter { states: Some(vec![State::Running]), ..Filter::default() };
    assert!(index.page(&running, 5, None).0.is_empty());
    assert_eq!(index.counts(), [("broken".to_owned(), 1), ("failed".to_owned(), 10)].into());
}

#[test]
fn the_newest_of_a_name_is_meant_and_parts_of_ids_are_found() {
    let index = Index::default();
    index.put(ended(0xabcdef, "x"));
    index.put(ended(0xabcdee, "x"));
    assert_eq!(index.resolve("x").unwrap().id(), id(0xabcdef));
    assert_eq!(index.resolve("abcdee").unwrap().id(), id(0xabcdee));
    assert!(index.resolve("abcde").is_err());
    assert_eq!(index.resolve(&id(0xabcdee).to_string()).unwrap().id(), id(0xabcdee));
    // When the newest is gone, the name means the next.
    index.remove(id(0xabcdef));
    assert_eq!(index.resolve("x").unwrap().id(), id(0xabcdee));
}
