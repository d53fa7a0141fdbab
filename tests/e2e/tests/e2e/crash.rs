//! Every step of create, run, stop, end and deletion: made to fail once, and every process killed
//! there once. After each: one legal record, no stray process, and the next box works.

use std::collections::BTreeSet;

use minimal_proto::Reason;
use minimal_store::hook::POINTS;
use minimal_store::{BoxDir, ExecDir};
use minimal_testkit::exec_link::{ExecLink, command, request};
use minimal_testkit::{LIMIT, Min, Paused, TestEnv, for_each_user, wait_until};
use rustix::io::Errno;
use serde_json::Value;

/// What is done so that a point is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journey {
    /// An attached run with output, to its end.
    Run,
    /// An attached run in a copy of the project.
    Copy,
    /// A detached run that is stopped.
    Stop,
    /// A service that returns, is started again, and returns too often.
    Restart,
    /// A service that is ready at once, and is stopped.
    Ready,
    /// A detached run that is paused, and stopped.
    Pause,
    /// A run whose keeper is killed, found by the next daemon.
    Lost,
    /// A detached run that the next daemon finds alive.
    Adopted,
    /// A run, and a further life of its box.
    Resume,
    /// A run, and its deletion.
    Remove,
    /// A command in a box that runs, and the end of that.
    Exec,
    /// The same, asked of the daemon.
    ExecByClient,
}

/// Which journey passes a point; by the first part of its name that fits.
const JOURNEYS: &[(&str, Journey)] = &[
    ("store.create.", Journey::Run),
    ("store.log.", Journey::Run),
    ("store.journal.", Journey::Run),
    ("store.reap.", Journey::Remove),
    ("store.exec.", Journey::Exec),
    ("keeper.exec.", Journey::Exec),
    ("keeper.blank.", Journey::Run),
    ("keeper.birth.", Journey::Run),
    ("keeper.copy.", Journey::Copy),
    ("keeper.started.", Journey::Run),
    ("keeper.returned.", Journey::Restart),
    ("keeper.restart.", Journey::Restart),
    ("keeper.ready.", Journey::Ready),
    ("keeper.pause.", Journey::Pause),
    ("keeper.stop.", Journey::Stop),
    ("keeper.end.", Journey::Run),
    ("daemon.create.", Journey::Run),
    ("daemon.stream.", Journey::Run),
    ("daemon.stop.", Journey::Stop),
    ("daemon.resume.", Journey::Resume),
    ("daemon.exec.", Journey::ExecByClient),
    ("daemon.adopt.", Journey::Adopted),
    ("daemon.reap.", Journey::Remove),
    ("daemon.reconcile.", Journey::Lost),
];

fn journey(point: &str) -> Option<Journey> {
    JOURNEYS.iter().find(|(prefix, _)| point.starts_with(prefix)).map(|(_, journey)| *journey)
}

/// Every point has a journey, and every journey a point: a new point without one fails here.
#[test]
fn every_point_is_exercised() {
    for point in POINTS {
        assert!(journey(point).is_some(), "no journey passes {point}: add it to the table");
    }
    for (prefix, _) in JOURNEYS {
        assert!(POINTS.iter().any(|point| point.starts_with(prefix)), "{prefix} names no point");
    }
    let distinct: BTreeSet<_> = POINTS.iter().collect();
    assert_eq!(distinct.len(), POINTS.len(), "a point is listed twice");
}

/// Goes on a journey with a fault armed. Whatever the client is told, it is not success that was not.
fn travel(env: &TestEnv, journey: Journey, name: &str) {
    match journey {
        Journey::Run => {
            let output =
                env.min(["run", "--name", name, "--", "sh", "-c", "echo out; exit 42"]).run();
            check_code(&output, 42);
        }
        Journey::Copy => {
            env.file("out", "out\n");
            let args = ["run", "--name", name, "--workspace", "copy", "--"];
            let output = env.min(args.into_iter().chain(["sh", "-c", "cat out; exit 42"])).run();
            check_code(&output, 42);
        }
        Journey::Stop => {
            let start = env.min(["run", "-d", "--name", name, "--", "sleep", "86591"]).run();
            if start.code() == Some(0) {
                let output = env.min(["stop", name]).run();
                if output.code() != Some(0) {
                    env.min(["stop", name]).run().assert_code(0);
                }
                wait_until("it has ended", LIMIT, || {
                    let record = env.show(name);
                    if record["ending"].is_object() { Ok(()) } else { Err(record) }
                });
            }
        }
        Journey::Restart => travel_again(env, name),
        Journey::Ready => travel_when_ready(env, name),
        Journey::Pause => {
            env.min(["run", "-d", "--name", name, "--", "sleep", "86595"]).run().assert_code(0);
            env.min(["pause", name]).run();
            if env.show(name)["ending"].is_null() {
                env.min(["stop", name]).run();
            }
        }
        Journey::Lost => {
            env.min(["run", "-d", "--name", name, "--", "sleep", "86592"]).run().assert_code(0);
            let id = env.show(name)["id"].as_str().unwrap().to_owned();
            let keeper = env.keeper(&id);
            env.kill_daemon();
            keeper.kill();
            env.min(["wait", name]).run().assert_code(125);
        }
        Journey::Adopted => {
            env.min(["run", "-d", "--name", name, "--", "sleep", "86592"]).run().assert_code(0);
            env.kill_daemon();
            env.min(["stop", name]).run().assert_code(0);
        }
        Journey::Resume => {
            env.min(["run", "--name", name, "--", "sh", "-c", "exit 42"]).run().assert_code(42);
            travel_once_more(env, name);
        }
        Journey::Remove => {
            env.min(["run", "--name", name, "--", "sh", "-c", "exit 42"]).run().assert_code(42);
            let output = env.min(["rm", name]).run();
            if output.code() != Some(0) {
                env.min(["rm", name]).run().assert_code(0);
            }
            env.min(["show", name]).run().assert_code(4);
        }
        Journey::Exec => travel_into(env, name),
        Journey::ExecByClient => {
            env.min(["run", "-d", "--name", name, "--", "sleep", "86594"]).run().assert_code(0);
            let output = env.min(["exec", name, "--", "sh", "-c", "echo out; exit 42"]).run();
            check_code(&output, 42);
            env.min(["stop", name]).run().assert_code(0);
        }
    }
}

/// Has a box go on that has ended: it does, or is what it was, and then it does.
fn travel_once_more(env: &TestEnv, name: &str) {
    let lives = |record: &Value| record["lives"].as_u64().unwrap();
    let before = lives(&env.show(name));
    check_code(&env.min(["box", "resume", name]).run(), 42);
    let after = wait_until("the box has ended", LIMIT, || {
        let record = env.show(name);
        if record["ending"].is_null() { Err(record) } else { Ok(record) }
    });
    let tries = env.events(name).into_iter().rev();
    let last = tries.map(|event| event["type"].clone()).find(|it| it != "degraded").unwrap();
    if lives(&after) == before {
        assert_eq!(after["ending"]["exit_code"], 42, "{after}");
        assert!(last == "exited" || last == "resume_failed", "{last}");
    } else {
        assert_eq!((lives(&after), &last), (before + 1, &"exited".into()), "{after}");
    }
    env.min(["box", "resume", name]).run().assert_code(42);
    assert_eq!(lives(&env.show(name)), lives(&after) + 1);
}

/// A service that returns too often.
fn again(env: &TestEnv, name: &str) -> Min {
    let service = "[services.again]\nexec = [\"sh\", \"-c\", \"exit 42\"]\n\
                   restart = { policy = \"always\", max = 1, backoff = \"1ms\" }\n";
    env.file("minimal.toml", service);
    env.min(["box", "start", "--name", name, "again"])
}

/// Starts it.
fn travel_again(env: &TestEnv, name: &str) {
    again(env, name).run().assert_code(0);
    env.min(["wait", name]).run().assert_code(125);
}

/// A service that is ready at once.
fn ready(env: &TestEnv, name: &str) -> Min {
    let service = "[services.once]\nexec = [\"sh\", \"-c\", \"exit 42\"]\nrestart = \"never\"\n\
                   ready = { exec = \"true\", interval = \"1ms\" }\n";
    env.file("minimal.toml", service);
    env.min(["box", "start", "--name", name, "once"])
}

/// Starts it, and stops it.
fn travel_when_ready(env: &TestEnv, name: &str) {
    let start = ready(env, name).run();
    if start.code() == Some(0) {
        env.min(["stop", name]).run().assert_code(0);
    } else {
        start.assert_code(125);
    }
}

/// Runs a command in a box. Its end is its own, that of one that never ran, or, with the keeper, of
/// none; and what is kept says the same.
fn travel_into(env: &TestEnv, name: &str) {
    env.min(["run", "-d", "--name", name, "--", "sleep", "86594"]).run().assert_code(0);
    let id = env.show(name)["id"].as_str().unwrap().to_owned();
    let start = request(command(&["sh", "-c", "echo out; exit 42"]));
    let exec = start.exec;
    let mut link = ExecLink::run(env, &id, start);
    let answer = link.answer();
    let end = match &answer {
        Some(Ok(_)) => link.end().map(|(ending, _)| ending),
        Some(Err(_)) | None => None,
    };
    if let Some(ending) = &end {
        let never_ran = ending.reason() == Reason::StartFailed;
        assert!(never_ran || ending.exit_code() == Some(42), "{ending:?}");
    }
    if env.show(name)["ending"].is_null() {
        env.min(["stop", name]).run();
    }
    let kept = wait_until("the box has ended", LIMIT, || {
        let record = env.show(name);
        if record["ending"].is_null() {
            return Err(record);
        }
        let dir = BoxDir::open(&env.box_dir(&id)).unwrap();
        Ok(ExecDir::open(&dir, exec).ok().filter(|kept| kept.read_file().is_ok()))
    });
    match (kept, end) {
        (Some(kept), Some(told)) => {
            assert_eq!(kept.read_end().unwrap().unwrap().ending, told);
        }
        // Its keeper was killed, before or after it had written.
        (Some(kept), None) => {
            let ending =
                kept.read_end().unwrap().expect("nothing is left without an ending").ending;
            let is_lost = ending.reason() == Reason::Lost;
            assert!(is_lost || ending.exit_code() == Some(42), "{ending:?}");
        }
        (None, None) => assert!(!matches!(answer, Some(Ok(_))), "{answer:?}"),
        (None, Some(told)) => panic!("nothing is kept of {told:?}"),
    }
}

/// The same, with the daemon killed while the keeper is held at a point.
fn travel_into_without_daemon(env: &TestEnv, name: &str, paused: Paused) {
    env.min(["run", "-d", "--name", name, "--", "sleep", "86594"]).run().assert_code(0);
    let id = env.show(name)["id"].as_str().unwrap().to_owned();
    let start = request(command(&["sh", "-c", "echo out; exit 42"]));
    let mut link = ExecLink::run(env, &id, start);
    let held = paused.reached();
    env.kill_daemon();
    held.release();
    link.started();
    assert_eq!(link.ending().exit_code(), Some(42));
    env.min(["stop", name]).run().assert_code(0);
    aftermath(env, name);
}

/// Journeys of boxes that live on, with the daemon killed while the keeper is held at a point.
fn travel_on_without_daemon(env: &TestEnv, journey: Journey, name: &str, paused: Paused) {
    let client = match journey {
        Journey::Restart => again(env, name),
        Journey::Ready => ready(env, name),
        _ => {
            env.min(["run", "-d", "--name", name, "--", "sleep", "86595"]).run().assert_code(0);
            env.min(["pause", name])
        }
    };
    let client = client.spawn();
    let held = paused.reached();
    env.kill_daemon();
    held.release();
    client.wait().assert_code(0);
    if journey == Journey::Restart {
        env.min(["wait", name]).run().assert_code(125);
    } else {
        env.min(["stop", name]).run().assert_code(0);
    }
    aftermath(env, name);
}

/// The command's own code, one of our refusals, or unknown: never success or another number.
#[track_caller]
fn check_code(output: &minimal_testkit::Output, code: i32) {
    let allowed = [code, 1, 7, 8, 125];
    assert!(output.code().is_some_and(|found| allowed.contains(&found)), "{output}");
}

/// What must hold after any fault.
fn aftermath(env: &TestEnv, name: &str) {
    let records: Vec<Value> =
        env.boxes().into_iter().filter(|record| record["name"] == *name).collect();
    assert!(records.len() <= 1, "one box, not one for each try: {records:?}");
    for record in &records {
        let id = record["id"].as_str().unwrap();
        // Wherever it was cut off, it comes to an end that says what is known.
        let ended = wait_until(&format!("{name} has ended"), LIMIT, || {
            let record = env.show(id);
            if record["ending"].is_object() { Ok(record) } else { Err(record) }
        });
        let ending = &ended["ending"];
        match ending["reason"].as_str().unwrap_or_default() {
            "exit" | "not_ready" => assert_eq!(ending["exit_code"], 42, "{ended}"),
            // It may have returned by itself before the signal that was sent had reached it.
            "stopped" if ending["exit_code"] == 42 => {}
            "stopped" | "signal" => assert!(ending["signal"].is_string(), "{ended}"),
            "lost" | "start_failed" => {
                assert_eq!(ending["exit_code"], Value::Null, "{ended}");
                assert_eq!(ending["signal"], Value::Null, "{ended}");
            }
            other => panic!("{other}: {ended}"),
        }
        let events = env.events(id);
        for (index, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], index + 1, "{events:?}");
        }
        let ends =
            events.iter().filter(|event| event["type"] == "exited" || event["type"] == "failed");
        let lives = ended["lives"].as_u64().unwrap().max(1);
        assert_eq!(ends.count() as u64, lives, "{events:?}");
    }
    wait_until("no keeper is left", LIMIT, || {
        let left = env.keepers();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    env.wait_for_no_process("sleep 8659");
    if !left_by_others(env).is_empty() {
        // Left by a daemon that was killed: the next one sweeps it.
        env.kill_daemon();
        env.boxes();
        assert_eq!(left_by_others(env), [""; 0]);
    }
    // The same again, without the fault.
    env.min(["run", "--rm", "--", "sh", "-c", "exit 43"]).run().assert_code(43);
}

/// Directories for boxes to come that are not the living daemon's: they bear the pid of theirs.
fn left_by_others(env: &TestEnv) -> Vec<String> {
    let own = env.daemon().map(|daemon| format!("{}-", daemon.pid)).unwrap_or_default();
    let entries = std::fs::read_dir(env.state_dir().join("new")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| own.is_empty() || !name.starts_with(&own)).collect()
}

/// Whether boxes of this user can be paused on this host.
fn can_pause(env: &TestEnv) -> bool {
    let id = env.detached("sleep 86596");
    let freezer = env.show(&id)["enforcement"]["freezer"].is_string();
    env.min(["rm", "--force", &id]).run().assert_code(0);
    freezer
}

/// Arms a fault of this kind at each point in turn.
fn at_each_point(env: &TestEnv, kind: &str, points: impl Iterator<Item = &'static str>) {
    for (number, point) in points.enumerate() {
        let journey = journey(point).expect("held by every_point_is_exercised");
        // Passed by a process that sees nothing outside its box: all it can do is wait.
        if point.ends_with(".inside") {
            continue;
        }
        if journey == Journey::Pause && !can_pause(env) {
            continue;
        }
        let name = format!("{kind}-{number}");
        // A daemon that is up, so that its own start does not take the fault.
        env.boxes();
        match kind {
            "fail" => env.hooks().fail(point, Errno::IO),
            _ => env.hooks().kill(point),
        }
        eprintln!("{kind} at {point}: {journey:?}");
        travel(env, journey, &name);
        env.hooks().wait_fired(&format!("{point}.{kind}"));
        aftermath(env, &name);
    }
}

fn points_of(owner: &'static str) -> impl Iterator<Item = &'static str> {
    POINTS.iter().copied().filter(move |point| point.starts_with(owner))
}

for_each_user! {
    /// Each step of the daemon fails.
    fn daemon_steps_fail(env) { at_each_point(env, "fail", points_of("daemon.")); }

    /// Each step of a keeper fails.
    fn keeper_steps_fail(env) { at_each_point(env, "fail", points_of("keeper.")); }

    /// Each write to the disk fails.
    fn store_steps_fail(env) { at_each_point(env, "fail", points_of("store.")); }

    /// The daemon is killed at each of its steps.
    fn daemon_killed_at_each_step(env) { at_each_point(env, "kill", points_of("daemon.")); }

    /// A keeper is killed at each of its steps.
    fn keeper_killed_at_each_step(env) { at_each_point(env, "kill", points_of("keeper.")); }

    /// Whoever writes to the disk is killed there.
    fn writer_killed_at_each_step(env) { at_each_point(env, "kill", points_of("store.")); }

    /// The keeper of a further life fails, and is killed, at each step; and the daemon is while it is
    /// there.
    fn a_further_life_cut_short_at_each_step(env) {
        let steps = ["keeper.blank.", "keeper.birth.", "keeper.started.", "keeper.end."];
        let points = points_of("keeper.").filter(|point| steps.iter().any(|step| point.starts_with(step)));
        for (number, point) in points.enumerate() {
            let name = format!("life-{number}");
            env.min(["run", "--name", &name, "--", "sh", "-c", "exit 42"]).run().assert_code(42);
            for kind in ["fail", "kill", "pause"] {
                // Passed by a process that sees nothing outside its box: all it can do is wait.
                if kind != "pause" && point.ends_with(".inside") {
                    continue;
                }
                eprintln!("{kind} at {point}");
                match kind {
                    "fail" => env.hooks().fail(point, Errno::IO),
                    "kill" => env.hooks().kill(point),
                    _ => {
                        let paused = env.hooks().pause(point);
                        let resume = env.min(["box", "resume", &name]).spawn();
                        let held = paused.reached();
                        env.kill_daemon();
                        held.release();
                        check_code(&resume.wait(), 42);
                    }
                }
                travel_once_more(env, &name);
                env.hooks().wait_fired(&format!("{point}.{kind}"));
            }
            aftermath(env, &name);
        }
    }

    /// The daemon is killed while a keeper is at each of its steps.
    fn daemon_killed_while_a_keeper_is_at_each_step(env) {
        for (number, point) in points_of("keeper.").enumerate() {
            let name = format!("pause-{number}");
            let journey = journey(point).expect("held by every_point_is_exercised");
            if journey == Journey::Pause && !can_pause(env) {
                continue;
            }
            env.boxes();
            let paused = env.hooks().pause(point);
            match journey {
                Journey::Exec => {
                    travel_into_without_daemon(env, &name, paused);
                    continue;
                }
                Journey::Restart | Journey::Ready | Journey::Pause => {
                    travel_on_without_daemon(env, journey, &name, paused);
                    continue;
                }
                _ => {}
            }
            let stops = journey == Journey::Stop;
            eprintln!("daemon killed while a keeper is at {point}");
            let script = if stops { "exec sleep 86593" } else { "echo out; exit 42" };
            let workspace = if journey == Journey::Copy { "copy" } else { "overlay" };
            let args = ["run", "--name", &name, "--workspace", workspace, "--", "sh", "-c", script];
            let run = env.min(args).spawn();
            if stops {
                env.wait_for_process("sleep 86593");
            }
            let stop = stops.then(|| env.min(["stop", &name]).spawn());
            let held = paused.reached();
            env.kill_daemon();
            held.release();
            let output = run.wait();
            if let Some(stop) = stop {
                stop.wait().assert_code(0);
                assert!(matches!(output.code(), Some(143 | 125)), "{point}: {output}");
            } else {
                check_code(&output, 42);
            }
            aftermath(env, &name);
        }
    }
}
