//! Directories that are damaged, deleted or not ours: named, and in nobody's way.

use std::fs;
use std::io::Write as _;

use minimal_e2e::Gate;
use minimal_testkit::{LIMIT, TestEnv, for_each_user, wait_until};
use serde_json::Value;

/// Something that happened to a box's directory.
type Damage = fn(&std::path::Path);

fn made(env: &TestEnv) -> String {
    env.run_sh("echo kept; exit 3").run().assert_code(3);
    env.newest()["id"].as_str().unwrap().to_owned()
}

fn a_box_whose_lock_was_replaced(env: &TestEnv, without_socket: bool) {
    let gate = Gate::new(env, &format!("gate-{without_socket}"));
    let script = format!("{}; exit 6", gate.wait());
    let id = env
        .min(["run", "-d", "--workspace", "bind", "--", "sh", "-c", &script])
        .run()
        .word()
        .to_owned();
    let lock = env.box_dir(&id).join("life.lock");
    fs::remove_file(&lock).unwrap();
    fs::write(&lock, "").unwrap();
    env.account().own(&lock);
    if without_socket {
        wait_until("the keeper listens, and no more", LIMIT, || {
            fs::remove_file(env.box_dir(&id).join("keeper.sock"))
        });
    }
    env.kill_daemon();
    assert_eq!(env.show(&id)["state"], "running");
    env.min(["rm", &id]).run().assert_code(2);
    let wait = env.min(["wait", &id]).spawn();
    gate.open();
    wait.wait().assert_code(6);
}

for_each_user! {
    /// Each kind of damage is listed as broken with its reason, and every other box works.
    fn broken_directories(env) {
        let good = made(env);
        let damages: [(&str, Damage); 6] = [
            ("no journal", |dir| fs::remove_file(dir.join("journal.ndjson")).unwrap()),
            ("empty journal", |dir| fs::write(dir.join("journal.ndjson"), "").unwrap()),
            ("garbage journal", |dir| fs::write(dir.join("journal.ndjson"), [0xff; 5000]).unwrap()),
            ("foreign journal", |dir| fs::write(dir.join("journal.ndjson"), "{\"seq\":1}\n").unwrap()),
            ("journal is a directory", |dir| {
                fs::remove_file(dir.join("journal.ndjson")).unwrap();
                fs::create_dir(dir.join("journal.ndjson")).unwrap();
            }),
            ("journal is a link", |dir| {
                fs::remove_file(dir.join("journal.ndjson")).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", dir.join("journal.ndjson")).unwrap();
            }),
        ];
        let ids: Vec<String> = damages.iter().map(|_| made(env)).collect();
        env.kill_daemon();
        for ((_, damage), id) in damages.iter().zip(&ids) {
            damage(&env.box_dir(id));
        }
        fs::create_dir(env.state_dir().join("boxes/not-a-box")).unwrap();
        fs::write(env.state_dir().join("boxes/a-file"), "x").unwrap();
        let boxes = env.boxes();
        for ((damage, _), id) in damages.iter().zip(&ids) {
            let record = boxes.iter().find(|record| record["id"] == **id);
            let record = record.unwrap_or_else(|| panic!("{damage}: not listed"));
            assert_eq!(record["health"], "broken", "{damage}");
            assert!(record["health_reason"].is_string(), "{damage}: {record}");
            assert_eq!(record["ending"], Value::Null, "{damage}");
            let wait = env.min(["wait", id]).run();
            assert_ne!(wait.code(), Some(0), "{damage}");
            assert_ne!(wait.code(), Some(3), "{damage}: nothing is made up");
        }
        env.min(["wait", &good]).run().assert_code(3);
        assert_eq!(env.logs(&good), b"kept\n");
        env.run_sh("exit 4").run().assert_code(4);
        // A broken box can be removed, like any other that has ended.
        for id in &ids {
            env.min(["rm", "--force", id]).run().assert_code(0);
        }
        assert!(env.state_dir().join("boxes/not-a-box").exists(), "what is not ours is left alone");
    }

    /// A box that runs while its directory cannot be read is listed, and ended through its keeper by
    /// whoever is asked to.
    fn broken_boxes_that_run(env) {
        let damages: [Damage; 2] = [
            |dir| fs::write(dir.join("journal.ndjson"), "").unwrap(),
            |dir| fs::remove_file(dir.join("spec.json")).unwrap(),
        ];
        let end: [&[&str]; 3] = [&["stop", "--force"], &["rm", "--force"], &["host", "stop", "--boxes", "--force"]];
        for damage in damages {
            for words in end {
                let id = env.detached("exec sleep 86547");
                env.wait_for_process("sleep 86547");
                let keeper = env.keeper(&id);
                damage(&env.box_dir(&id));
                env.kill_daemon();
                let listed = env.min(["ls"]).run();
                assert!(listed.text().contains("(broken)"), "{listed}");
                env.min(["rm", &id]).run().assert_code(2).assert_stderr_has("its keeper (pid ");
                let whole = env.min(words);
                if words[0] == "host" { whole } else { whole.arg(&id) }.run().assert_code(0);
                keeper.wait_gone(LIMIT);
                env.wait_for_no_process("sleep 86547");
                env.min(["rm", "--force", &id]).run();
            }
        }
    }

    /// The log of an ended box, deleted: its record says so, as `logs` does.
    fn an_ended_boxs_deleted_log(env) {
        let id = made(env);
        assert_eq!(env.show(&id)["log"]["dropped_bytes"], 0);
        fs::remove_dir_all(env.box_dir(&id).join("log")).unwrap();
        let record = env.show(&id);
        assert_eq!(record["log"]["dropped_bytes"], 5, "{record}");
        assert_eq!(record["health"], "degraded");
        assert_eq!(record["ending"]["exit_code"], 3);
    }

    /// A lock file that was replaced says that nobody is there; the keeper's socket says otherwise, and
    /// where that is gone too, the process itself.
    fn a_replaced_lock(env) {
        for without_socket in [false, true] {
            a_box_whose_lock_was_replaced(env, without_socket);
        }
    }

    /// A journal torn in the middle of its last line: the events before are the truth.
    fn a_torn_journal(env) {
        let id = made(env);
        env.kill_daemon();
        let path = env.box_dir(&id).join("journal.ndjson");
        let whole = fs::read(&path).unwrap();
        let end = whole.iter().position(|byte| *byte == 0).unwrap_or(whole.len());
        let last = whole[..end - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
        // In the middle of the ending's line: it never was.
        let mut torn = whole[..last + (end - last) / 2].to_vec();
        torn.resize(whole.len(), 0);
        fs::write(&path, torn).unwrap();
        env.min(["wait", &id]).run().assert_code(125);
        let record = env.show(&id);
        assert_eq!(record["ending"]["reason"], "lost");
        let events = env.events(&id);
        assert_eq!(events.last().unwrap()["type"], "exited");
        assert_eq!(events.last().unwrap()["seq"], events.len());
        assert_eq!(env.logs(&id), b"kept\n");
    }

    /// A torn log: whole frames are read, the rest is cut.
    fn a_torn_log(env) {
        let id = made(env);
        let other = made(env);
        env.kill_daemon();
        for (id, cut) in [(&id, 1), (&other, 6)] {
            let log = env.box_dir(id).join("log");
            let segment = fs::read_dir(&log).unwrap().flatten().next().unwrap().path();
            let length = fs::metadata(&segment).unwrap().len();
            fs::OpenOptions::new().write(true).open(&segment).unwrap().set_len(length - cut).unwrap();
        }
        for id in [&id, &other] {
            env.min(["wait", id]).run().assert_code(3);
            let output = env.min(["logs", id]).run();
            assert!(b"kept\n".starts_with(&output.stdout), "{output}");
        }
    }

    /// The log of a running box is deleted: the box runs on, the ending is kept, the loss is told.
    fn a_deleted_log(env) {
        let mut running = env.run_sh("echo one; read _; echo two; exit 3").stdin_piped().spawn();
        running.wait_for_stdout("one\n");
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        fs::remove_dir_all(env.box_dir(&id).join("log")).unwrap();
        running.write(b"go\n");
        running.wait().assert_code(3);
        env.min(["wait", &id]).run().assert_code(3);
    }

    /// The whole directory of a running box is deleted: the box is ended, nobody hangs, and no number
    /// is made up.
    fn a_deleted_box_directory(env) {
        let running = env.run_sh("echo up; sleep 86571").spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86571");
        let id = env.newest()["id"].as_str().unwrap().to_owned();
        fs::remove_dir_all(env.box_dir(&id)).unwrap();
        // Asking for its end is what a person would do.
        env.min(["stop", "--force", &id]).run();
        let output = running.wait();
        assert_ne!(output.code(), Some(0), "{output}");
        env.wait_for_no_process("sleep 86571");
        env.run_sh("exit 4").run().assert_code(4);
    }

    /// A log directory that was swapped for a link is refused: a box is not started onto it.
    fn a_foreign_log_directory(env) {
        let held = env.hooks().pause("daemon.create.after_dir");
        let running = env.run_sh("echo secret; exit 0").spawn();
        let held = held.reached();
        let boxes = env.state_dir().join("boxes");
        let id = fs::read_dir(&boxes).unwrap().flatten().next().unwrap().file_name();
        let log = boxes.join(&id).join("log");
        drop(fs::remove_dir_all(&log));
        let elsewhere = env.work().join("elsewhere");
        env.account().make_dir(&elsewhere);
        std::os::unix::fs::symlink(&elsewhere, &log).unwrap();
        held.release();
        running.wait().assert_code(125);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "nothing was written there");
    }

    /// A state directory of a later format is refused by name, and left as it is.
    fn a_later_format(env) {
        made(env);
        env.stop_all();
        fs::File::create(env.state_dir().join("format")).unwrap().write_all(b"999\n").unwrap();
        let output = env.run(["true"]).run();
        assert!(matches!(output.code(), Some(1 | 7)), "{output}");
        output.assert_stderr_has("format");
        assert_eq!(fs::read(env.state_dir().join("format")).unwrap(), b"999\n");
        // Whoever stops the scenario's boxes afterwards must be able to read them.
        fs::File::create(env.state_dir().join("format")).unwrap().write_all(b"1\n").unwrap();
    }
}
