#![expect(clippy::disallowed_methods, reason = "tests stand in for linux's wait")]

use super::*;

const AT: Timestamp = Timestamp::from_micros(0);

fn exit(reason: Reason, code: u8) -> Ending {
    Ending::observed(reason, Observed::from_wait(WaitOutcome::Exited(code)), AT)
}

fn killed(reason: Reason, signal: Signal) -> Ending {
    Ending::observed(reason, Observed::from_wait(WaitOutcome::Killed(signal)), AT)
}

#[test]
fn a_returned_139_is_not_a_segmentation_fault() {
    let returned = exit(Reason::Exit, 139);
    let crashed = killed(Reason::Signal, "SEGV".parse().unwrap());
    assert_eq!(returned.shell_status(), crashed.shell_status());
    assert_eq!((returned.exit_code(), returned.signal()), (Some(139), None));
    assert_eq!((crashed.exit_code(), crashed.signal().unwrap().number()), (None, 11));
}

#[test]
fn the_reason_decides_the_shell_status_first() {
    assert_eq!(exit(Reason::Timeout, 0).shell_status(), 124);
    assert_eq!(killed(Reason::Oom, Signal::KILL).shell_status(), 137);
    assert_eq!(exit(Reason::Stopped, 0).shell_status(), 0);
    assert_eq!(killed(Reason::Stopped, Signal::TERM).shell_status(), 143);
    assert_eq!(Ending::lost(AT, Map::new()).shell_status(), 125);
    for (fault, status) in
        [(StartFault::NotFound, 127), (StartFault::NotExecutable, 126), (StartFault::Other, 125)]
    {
        let ending = Ending::start_failed(fault, "exec", "x", Some(2), AT, Observer::Keeper);
        assert_eq!(ending.shell_status(), status);
    }
}

#[test]
fn json_writes_nulls_out_and_round_trips() {
    let ending = killed(Reason::Signal, Signal::KILL);
    let json = serde_json::to_value(&ending).unwrap();
    assert_eq!(json["exit_code"], Value::Null);
    assert_eq!(json["signal"], "SIGKILL");
    assert_eq!(json["signal_number"], 9);
    assert_eq!(serde_json::from_value::<Ending>(json).unwrap(), ending);
}

#[test]
fn an_ending_with_both_or_neither_is_refused() {
    let mut json = serde_json::to_value(exit(Reason::Exit, 0)).unwrap();
    json["signal"] = "SIGTERM".into();
    assert!(serde_json::from_value::<Ending>(json.clone()).is_err());
    json["signal"] = Value::Null;
    json["exit_code"] = Value::Null;
    assert!(serde_json::from_value::<Ending>(json.clone()).is_err());
    json["reason"] = "lost".into();
    assert!(serde_json::from_value::<Ending>(json.clone()).is_ok());
    json["exit_code"] = 0.into();
    assert!(serde_json::from_value::<Ending>(json).is_err());
}

#[test]
fn every_reason_prints_its_wire_word() {
    for reason in Reason::ALL {
        assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
    }
}
