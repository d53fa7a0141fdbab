//! Execs, as a box's keeper runs them: asked for by its own protocol, without a daemon.

use minimal_proto::exec::ExecMode;
use minimal_proto::keeper::{FromKeeper, ToKeeper};
use minimal_proto::stream::Stream;
use minimal_proto::{Ending, ErrorCode, ExecId, Reason, Signal};
use minimal_store::{BoxDir, Chunk, ExecDir, LogHome as _, LogReader};
use minimal_testkit::exec_link::{ExecLink, command, request};
use minimal_testkit::{
    LIMIT, TestEnv, Tmpfs, for_each_kind_of_user, for_each_user, need, wait_until,
};

/// A box in which nothing happens, and the daemon that made it gone.
fn quiet_box(env: &TestEnv) -> String {
    let id = env.detached("exec sleep 86570");
    env.kill_daemon();
    id
}

fn sh(script: &str) -> minimal_proto::exec::ExecCommand {
    command(&["sh", "-c", script])
}

fn kept(env: &TestEnv, box_id: &str, exec: ExecId) -> ExecDir {
    ExecDir::open(&BoxDir::open(&env.box_dir(box_id)).unwrap(), exec).unwrap()
}

fn kept_ending(env: &TestEnv, box_id: &str, exec: ExecId) -> Ending {
    kept(env, box_id, exec).read_end().unwrap().expect("it has ended").ending
}

/// What an exec printed, stream by stream.
fn printed(env: &TestEnv, box_id: &str, exec: ExecId, end: u64) -> (String, String) {
    let mut reader = LogReader::open(&kept(env, box_id, exec), 0, end).unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    while let Some(Chunk::Frames(frames)) = reader.next_chunk(end, 1 << 20).unwrap() {
        for frame in frames {
            match frame.stream {
                Stream::Stderr => stderr.extend(frame.bytes),
                _ => stdout.extend(frame.bytes),
            }
        }
    }
    (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Runs a script to its end.
fn finish(env: &TestEnv, box_id: &str, script: &str) -> (Ending, String) {
    let start = request(sh(script));
    let exec = start.exec;
    let mut link = ExecLink::run(env, box_id, start);
    link.started();
    let (ending, end) = link.end().unwrap();
    assert_eq!(kept_ending(env, box_id, exec), ending, "on disk before it is told");
    (ending, printed(env, box_id, exec, end).0)
}

for_each_kind_of_user! {
    /// It is in the box like the entrypoint: the same user, root, limits and privileges, with the
    /// box's variables and its own, and nothing of ours.
    fn an_exec_is_in_the_box_like_its_entrypoint(env) {
        let own = env
            .min(["run", "-d", "-e", "SECRET=given", "--", "sh", "-c",
                "pwd; cd /proc/self; (grep -E '^(Uid|Gid|Cap|NoNew|Seccomp)' status; cat limits; ls -l ns; ls -d /*) > /tmp/own; exec sleep 86570"])
            .run();
        let id = own.assert_code(0).word().to_owned();
        env.wait_for_process("sleep 86570");
        let mut start = request(sh(
            "pwd; cd /proc/self; (grep -E '^(Uid|Gid|Cap|NoNew|Seccomp)' status; cat limits; ls -l ns; ls -d /*) > /tmp/exec; \
             cmp /tmp/own /tmp/exec || { diff /tmp/own /tmp/exec; exit 3; }; \
             cmp /proc/1/cgroup /proc/self/cgroup || exit 4; \
             env | grep -c SECRET; echo $OWN; ls /proc/self/fd | wc -l",
        ));
        start.command.variables = vec!["OWN".to_owned()];
        start.values.insert("OWN".to_owned(), "its own".into());
        start.command.cwd = Some("/tmp".into());
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        let standing = link.started();
        assert_eq!(standing.exec, exec);
        let (ending, end) = link.end().unwrap();
        // The first three, and the one by which ls lists them.
        let expected = "/tmp\n0\nits own\n4\n".to_owned();
        assert_eq!(printed(env, &id, exec, end), (expected, String::new()), "{ending:?}");
        let file = std::fs::read_to_string(kept(env, &id, exec).path().join("exec.json")).unwrap();
        assert!(!file.contains("its own"), "{file}");
    }

    /// Whoever enters is in the box's control groups, whether or not its keeper still is, and whether or
    /// not somebody was there before.
    fn an_exec_is_in_the_boxs_control_groups(env) {
        let id = quiet_box(env);
        let groups = |beginning: &str| {
            let pid = env.wait_for_process(beginning).pid;
            std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap()
        };
        let own = groups("sleep 86570");
        let keeper = env.keeper(&id).pid;
        let outside = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        if own != outside {
            wait_until("the keeper has left", LIMIT, || {
                let now = std::fs::read_to_string(format!("/proc/{keeper}/cgroup")).unwrap();
                if now == own { Err(now) } else { Ok(()) }
            });
        }
        for (name, argument) in [("the first", "86571"), ("by the door", "86572"), ("again", "86573")] {
            let mut link = ExecLink::run(env, &id, request(command(&["sleep", argument])));
            link.started();
            assert_eq!(groups(&format!("sleep {argument}")), own, "{name}");
            if own != outside {
                wait_until("the door is in its place", LIMIT, || {
                    let now = groups("min-door");
                    if now == own { Ok(()) } else { Err(now) }
                });
            }
        }
        if own != outside {
            // One that is gone costs nobody the way in.
            env.wait_for_process("min-door").kill();
            let mut link = ExecLink::run(env, &id, request(command(&["sleep", "86574"])));
            link.started();
            assert_eq!(groups("sleep 86574"), own, "without a door");
        }
        env.min(["stop", "--force", &id]).run().assert_code(0);
        env.wait_for_no_process("min-door");
    }

    /// Another user of the box, where it has several.
    fn another_user_of_the_box(env) {
        let id = quiet_box(env);
        let mut start = request(sh("id -u; echo $HOME; grep ^NoNew /proc/self/status"));
        start.command.user = Some("root".to_owned());
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        let standing = link.answer().unwrap().unwrap();
        let (ending, end) = link.end().unwrap();
        if standing.started_at.is_some() {
            assert_eq!(printed(env, &id, exec, end).0, "0\n/root\nNoNewPrivs:\t1\n");
        } else {
            let message = ending.detail()["message"].as_str().unwrap();
            assert!(message.contains("one user"), "{message}");
        }
    }
}

for_each_user! {
    /// Input, both outputs, its code; and all of it kept after the box has ended.
    fn an_exec_has_streams_and_an_ending_of_its_own(env) {
        let id = quiet_box(env);
        let mut start = request(sh("tr a-z A-Z; echo err >&2; exit 42"));
        start.command.input = true;
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        assert!(link.started().input_open);
        link.input(0, b"one ");
        // What may not have arrived is sent again.
        link.input(2, b"e two");
        link.send(&ToKeeper::Eof { offset: 7 });
        let (ending, end) = link.end().unwrap();
        assert_eq!((ending.reason(), ending.exit_code()), (Reason::Exit, Some(42)));
        assert_eq!(printed(env, &id, exec, end), ("ONE TWO".to_owned(), "err\n".to_owned()));
        let events = env.events(&id);
        let names: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(names, ["created", "started", "exec_started", "exec_exited"]);
        assert_eq!(events[2]["data"]["argv"][2], "tr a-z A-Z; echo err >&2; exit 42");
        assert_eq!(events[3]["data"]["ending"]["exit_code"], 42);
        env.min(["stop", &id]).run().assert_code(0);
        assert_eq!(kept_ending(env, &id, exec), ending);
    }

    /// What cannot be executed is a start that failed, with its step and the kernel's answer.
    fn what_cannot_be_executed_is_a_failed_start(env) {
        let id = quiet_box(env);
        let mut cases = Vec::new();
        cases.push((command(&["no-such-program"]), 127, "PATH"));
        cases.push((command(&["/etc"]), 126, "directory"));
        let mut gone = command(&["true"]);
        gone.cwd = Some("gone".into());
        cases.push((gone, 125, "/workbench/gone"));
        let mut unknown = command(&["true"]);
        unknown.user = Some("mallory".to_owned());
        cases.push((unknown, 125, "no such user"));
        cases.push((command(&[]), 125, "arguments"));
        for (command, status, word) in cases {
            let start = request(command);
            let exec = start.exec;
            let mut link = ExecLink::run(env, &id, start);
            let standing = link.answer().unwrap().unwrap();
            assert_eq!(standing.started_at, None);
            let ending = link.ending();
            assert_eq!(ending.reason(), Reason::StartFailed);
            assert_eq!(ending.shell_status(), status);
            let message = ending.detail()["message"].as_str().unwrap();
            assert!(message.contains(word), "{message}");
            assert_eq!(kept_ending(env, &id, exec), ending);
        }
        assert_eq!(finish(env, &id, "exit 3").0.exit_code(), Some(3), "the box is as it was");
    }

    /// A stop reaches everything in its group, also what ignores TERM, and nothing else.
    fn a_stop_reaches_its_group_and_leaves_the_box(env) {
        let id = quiet_box(env);
        // Another one's group, and one that left it.
        let mut other = ExecLink::run(env, &id, request(command(&["sleep", "86571"])));
        other.started();
        let mut link = ExecLink::run(env, &id, request(sh(
            "setsid sleep 86572 & (trap '' TERM; exec sleep 86573) & sleep 86574",
        )));
        link.started();
        for number in 86572..=86574 {
            env.wait_for_process(&format!("sleep {number}"));
        }
        let stop = ToKeeper::Stop { request: 1, force: false, grace_ms: Some(300) };
        assert_eq!(link.ask(&stop), None);
        let ending = link.ending();
        assert_eq!((ending.reason(), ending.signal()), (Reason::Stopped, Some(Signal::TERM)));
        env.wait_for_no_process("sleep 86573");
        env.wait_for_no_process("sleep 86574");
        env.wait_for_process("sleep 86570");
        env.wait_for_process("sleep 86571");
        env.wait_for_process("sleep 86572");
        let force = ToKeeper::Stop { request: 2, force: true, grace_ms: None };
        assert_eq!(other.ask(&force), None);
        let ending = other.ending();
        assert_eq!((ending.reason(), ending.signal()), (Reason::Stopped, Some(Signal::KILL)));
    }

    /// Its own time ends it alone; a signal changes nothing but what it does.
    fn time_and_signals_are_its_own(env) {
        let id = quiet_box(env);
        let mut start = request(command(&["sleep", "86571"]));
        start.command.timeout_ms = Some(50);
        let ending = ExecLink::run(env, &id, start).ending();
        assert_eq!((ending.reason(), ending.shell_status()), (Reason::Timeout, 124));
        let mut link = ExecLink::run(env, &id, request(command(&["sleep", "86571"])));
        link.started();
        let signal = |signal, group| ToKeeper::Signal { request: 1, signal, group };
        assert_eq!(link.ask(&signal(Signal::INT, true)), None);
        let ending = link.ending();
        assert_eq!((ending.reason(), ending.signal()), (Reason::Signal, Some(Signal::INT)));
        env.wait_for_process("sleep 86570");
    }

    /// One that lives by its client ends when a living daemon says that it is gone; one that does not
    /// live by it does not.
    fn an_exec_ends_with_its_client_if_it_lives_by_it(env) {
        let id = quiet_box(env);
        let mut start = request(command(&["sleep", "86571"]));
        start.command.mode = ExecMode::Attached;
        let mut link = ExecLink::run(env, &id, start);
        assert!(link.started().pinned);
        link.send(&ToKeeper::Pin { offset: 0 });
        link.send(&ToKeeper::Unpin);
        let ending = link.ending();
        assert_eq!((ending.reason(), ending.signal()), (Reason::ClientLost, Some(Signal::TERM)));
        let start = request(command(&["sleep", "86572"]));
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        link.started();
        link.send(&ToKeeper::Unpin);
        drop(link);
        let mut link = ExecLink::connect(env, &id).unwrap();
        assert_eq!(link.hello().unwrap().execs, Some(vec![exec]));
        link.send(&ToKeeper::JoinExec { exec });
        assert_eq!(link.started().exec, exec);
        link.ask(&ToKeeper::Stop { request: 1, force: true, grace_ms: None });
        assert_eq!(link.ending().reason(), Reason::Stopped);
    }

    /// A process that holds its output delays the end by no more than a moment, and stays.
    fn what_it_leaves_running_stays(env) {
        let id = quiet_box(env);
        let (ending, printed) = finish(env, &id, "sleep 86571 & echo started; exit 5");
        assert_eq!((ending.exit_code(), printed.as_str()), (Some(5), "started\n"));
        assert_eq!(ending.detail()["output_still_open"], true);
        env.wait_for_process("sleep 86571");
    }

    /// All of the output of one whose reader is slow, however much that is.
    fn an_attached_exec_waits_for_its_reader(env) {
        let id = quiet_box(env);
        let mut start = request(sh("head -c 30000000 /dev/zero | tr '\\0' x; exit 6"));
        start.command.mode = ExecMode::Attached;
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        link.started();
        link.send(&ToKeeper::Pin { offset: 0 });
        let (mut end, mut read) = (0, 0);
        let mut ending = None;
        let dir = kept(env, &id, exec);
        let mut reader = LogReader::open(&dir, 0, 0).unwrap();
        while ending.is_none() || read < end {
            while read < end {
                match reader.next_chunk(end, 1 << 20).unwrap() {
                    Some(Chunk::Frames(frames)) => {
                        read += frames.iter().map(|frame| frame.bytes.len() as u64).sum::<u64>();
                    }
                    other => panic!("{other:?}"),
                }
                link.send(&ToKeeper::Pin { offset: read });
            }
            link.send(&ToKeeper::Consumed { end });
            if ending.is_none() {
                match link.next_message().expect("the keeper is there") {
                    FromKeeper::LogEnd { end: grown } => end = grown,
                    FromKeeper::Ended { ending: told, log_end } => {
                        (ending, end) = (Some(told), log_end);
                    }
                    _ => {}
                }
            }
        }
        assert_eq!((read, ending.unwrap().exit_code()), (30_000_000, Some(6)));
    }

    /// The same key is the same exec, while it runs and after; with another request it is refused.
    fn a_repeated_request_is_joined_to_the_first(env) {
        let id = quiet_box(env);
        let keyed = |digest: &str, script: &str| {
            let mut start = request(sh(script));
            start.idempotency_key = Some("key".to_owned());
            start.request_digest = Some(digest.to_owned());
            start
        };
        let first = keyed("a", "echo ran >> /tmp/ran; read x; exit 7");
        let exec = first.exec;
        let mut first = { let mut start = first; start.command.input = true; ExecLink::run(env, &id, start) };
        first.started();
        let mut again = ExecLink::run(env, &id, keyed("a", "echo ran >> /tmp/ran"));
        assert_eq!(again.started().exec, exec);
        let refused = ExecLink::run(env, &id, keyed("b", "true")).answer().unwrap().unwrap_err();
        assert_eq!(refused.code, ErrorCode::KeyReused);
        first.send(&ToKeeper::Eof { offset: 0 });
        assert_eq!(first.ending().exit_code(), Some(7));
        assert_eq!(again.ending().exit_code(), Some(7));
        let mut late = ExecLink::run(env, &id, keyed("a", "true"));
        assert_eq!(late.started().exec, exec);
        assert_eq!(late.ending().exit_code(), Some(7));
        assert_eq!(finish(env, &id, "cat /tmp/ran").1, "ran\n");
        let nobody = ToKeeper::JoinExec { exec };
        let mut link = ExecLink::connect(env, &id).unwrap();
        link.send(&nobody);
        assert_eq!(link.answer().unwrap().unwrap_err().code, ErrorCode::NotFound);
    }

    /// The end of the box is theirs, with what the kernel said; one that had ended keeps its own.
    fn a_box_that_ends_ends_its_execs_first(env) {
        let id = quiet_box(env);
        let mut early = ExecLink::run(env, &id, request(sh("exit 8")));
        assert_eq!(early.ending().reason(), Reason::Exit);
        let start = request(sh("trap 'exit 9' TERM; sleep 86571 & wait"));
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        link.started();
        env.wait_for_process("sleep 86571");
        let mut killed = ExecLink::run(env, &id, request(sh("trap '' TERM; sleep 86572; sleep 86573")));
        killed.started();
        env.wait_for_process("sleep 86572");
        let mut boxes = ExecLink::connect(env, &id).unwrap();
        assert_eq!(boxes.ask(&ToKeeper::Stop { request: 1, force: false, grace_ms: Some(300) }), None);
        let ending = link.ending();
        assert_eq!((ending.reason(), ending.exit_code()), (Reason::BoxEnded, Some(9)));
        let late = ExecLink::run(env, &id, request(sh("true"))).answer();
        if let Some(answer) = late {
            assert_eq!(answer.unwrap_err().code, ErrorCode::WrongState);
        }
        let ending = killed.ending();
        assert_eq!((ending.reason(), ending.signal()), (Reason::BoxEnded, Some(Signal::KILL)));
        assert_eq!(boxes.end().unwrap().0.reason(), Reason::Stopped);
        assert_eq!(kept_ending(env, &id, exec).reason(), Reason::BoxEnded);
    }

    /// When the entrypoint returns, an exec has the time of everything else in the box.
    fn an_exec_may_clean_up_when_the_entrypoint_returns(env) {
        let id = env.detached("until test -e /tmp/go; do sleep 0.01; done");
        let script = "trap 'echo cleaning; sleep 0.1; echo done; exit 9' TERM; sleep 86571 & wait";
        let start = request(sh(script));
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        link.started();
        env.wait_for_process("sleep 86571");
        let mut go = ExecLink::run(env, &id, request(command(&["touch", "/tmp/go"])));
        go.started();
        let (ending, end) = link.end().unwrap();
        assert_eq!((ending.reason(), ending.exit_code()), (Reason::BoxEnded, Some(9)));
        assert_eq!(printed(env, &id, exec, end).0, "cleaning\ndone\n");
        env.min(["wait", &id]).run().assert_code(0);
    }

    /// A keeper that is killed leaves its execs lost, and nothing of them running.
    fn a_lost_keeper_leaves_lost_execs(env) {
        let id = env.detached("exec sleep 86570");
        let done = request(sh("exit 4"));
        let early = done.exec;
        ExecLink::run(env, &id, done).ending();
        let start = request(command(&["sleep", "86571"]));
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        link.started();
        env.keeper(&id).kill();
        assert_eq!(link.end(), None);
        wait_until("the box is lost", LIMIT, || {
            let ending = env.ending(&id);
            if ending["reason"] == "lost" { Ok(()) } else { Err(ending) }
        });
        assert_eq!(kept_ending(env, &id, exec).reason(), Reason::Lost);
        assert_eq!(kept_ending(env, &id, early).exit_code(), Some(4));
        env.wait_for_no_process("sleep 86571");
    }

    /// A full disk costs output and new execs, and no ending.
    fn a_full_disk_costs_no_ending(env) {
        if !need::tmpfs() {
            return;
        }
        let disk = Tmpfs::mount(&env.root().join("d"), 24 << 20, env.account());
        env.set_state_dir(disk.path().join("s"));
        let id = quiet_box(env);
        let mut start = request(sh("read x; echo lost; exit 11"));
        start.command.input = true;
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        link.started();
        let ballast = disk.fill();
        link.send(&ToKeeper::Eof { offset: 0 });
        let (ending, _) = link.end().unwrap();
        assert_eq!(ending.exit_code(), Some(11), "{ending:?}");
        assert_eq!(ending.detail()["output_dropped_bytes"], 5, "{ending:?}");
        assert_eq!(kept_ending(env, &id, exec), ending);
        let refused = ExecLink::run(env, &id, request(sh("true"))).answer().unwrap().unwrap_err();
        assert_eq!(refused.code, ErrorCode::NoSpace, "{refused}");
        drop(ballast);
        assert_eq!(finish(env, &id, "exit 12").0.exit_code(), Some(12));
        env.stop_all();
    }

    /// One whose directory is deleted under it goes on, and so does everything else.
    fn a_deleted_record_harms_nobody_else(env) {
        let id = quiet_box(env);
        let mut start = request(sh("read x; echo out; exit 13"));
        start.command.input = true;
        let exec = start.exec;
        let mut link = ExecLink::run(env, &id, start);
        link.started();
        std::fs::remove_dir_all(env.box_dir(&id).join("execs")).unwrap();
        link.send(&ToKeeper::Eof { offset: 0 });
        assert_eq!(link.ending().exit_code(), Some(13));
        assert!(ExecDir::open(&BoxDir::open(&env.box_dir(&id)).unwrap(), exec).is_err());
        assert_eq!(finish(env, &id, "exit 14").0.exit_code(), Some(14));
        env.min(["stop", &id]).run().assert_code(0);
    }

    /// Whoever gives up before the keeper comes to it runs nothing.
    fn what_was_given_up_is_not_run(env) {
        let id = quiet_box(env);
        let keeper = env.keeper(&id);
        keeper.stop();
        drop(ExecLink::run(env, &id, request(sh("echo ran > /tmp/ran"))));
        keeper.signal(rustix::process::Signal::CONT);
        assert_eq!(finish(env, &id, "test -e /tmp/ran; echo $?").1, "1\n");
    }

    /// Many at once while the box ends under them: every one has an ending, and so has the box.
    fn many_execs_while_their_box_ends(env) {
        let id = quiet_box(env);
        let mut links: Vec<_> = (0..200)
            .map(|number| {
                let start = request(sh(&format!("echo {number}; exit {}", number % 100)));
                (number, start.exec, ExecLink::run(env, &id, start))
            })
            .collect();
        let mut boxes = ExecLink::connect(env, &id).unwrap();
        boxes.send(&ToKeeper::Signal { request: 1, signal: Signal::KILL, group: false });
        let mut ran = 0;
        for (number, exec, link) in &mut links {
            match link.answer() {
                Some(Ok(_)) => {
                    let (ending, _) = link.end().expect("each has an ending");
                    match ending.reason() {
                        Reason::Exit => {
                            ran += 1;
                            assert_eq!(ending.exit_code(), Some(*number % 100));
                        }
                        Reason::BoxEnded | Reason::StartFailed => {}
                        other => panic!("{other}: {ending:?}"),
                    }
                    assert_eq!(kept_ending(env, &id, *exec), ending);
                }
                Some(Err(error)) => assert_eq!(error.code, ErrorCode::WrongState, "{error:?}"),
                // It came too late for anybody to answer: nothing was run.
                None => {
                    let dir = BoxDir::open(&env.box_dir(&id)).unwrap();
                    assert!(ExecDir::open(&dir, *exec).is_err());
                }
            }
        }
        eprintln!("{ran} of {} had ended by themselves", links.len());
        let ending = boxes.end().unwrap().0;
        assert_eq!((ending.reason(), ending.signal()), (Reason::Signal, Some(Signal::KILL)));
    }
}
