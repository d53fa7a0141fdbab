//! Many execs, at once and on record.

use std::time::Duration;

use minimal_e2e::Execs;
use minimal_testkit::{TestEnv, for_each_user};

/// As many as are promised to run at once.
const MANY: usize = 500;

/// Runs many in the background; the lines of `statuses` are `<number> <status>`.
fn many(env: &TestEnv, id: &str, script: &str) -> Vec<(usize, i32)> {
    let run = format!(
        "for i in $(seq {MANY}); do (min exec --no-stdin {id} -- sh -c '{script}' sh $i >/dev/null 2>&1; \
         echo \"$i $?\" >> statuses) & done; wait"
    );
    // Hundreds of clients share the machine's processors.
    env.bash(&run).limit(Duration::from_secs(240)).run().assert_code(0);
    let statuses = std::fs::read_to_string(env.work().join("statuses")).expect("they were written");
    let pair = |line: &str| {
        let (number, status) = line.split_once(' ').expect("two words");
        (number.parse().expect("a number"), status.parse().expect("a status"))
    };
    statuses.lines().map(pair).collect()
}

for_each_user! {
    /// Each has its own output and code.
    fn five_hundred_at_once(env) {
        let id = env.detached("sleep 86651");
        let statuses = many(env, &id, "echo $1; exit $(($1 % 100))");
        assert_eq!(statuses.len(), MANY);
        for (number, status) in statuses {
            assert_eq!(usize::try_from(status).expect("a status"), number % 100, "{number}");
        }
        let all = Execs::of(env, &id).all();
        assert_eq!(all.len(), MANY);
        assert!(all.iter().all(|record| record["ending"]["reason"] == "exit"));
        assert_eq!(env.show(&id)["health"], "ok");
        let listed = env.events(&id).into_iter().filter(|event| event["type"] == "exec_exited").count();
        assert_eq!(listed, MANY);
    }

    /// The box ends under them: every one of them and the box have an ending.
    fn five_hundred_while_the_box_ends(env) {
        let id = env.detached("trap 'exit 3' USR1; sleep 86652 & wait");
        env.wait_for_process("sleep 86652");
        // Half of them go on until something ends them; one ends the box, and whom it can beside.
        let script = "if [ $1 = 250 ]; then kill -USR1 -1; fi; [ $(($1 % 2)) = 0 ] || exec sleep 86654; exit 4";
        let statuses = many(env, &id, script);
        assert_eq!(statuses.len(), MANY);
        env.min(["wait", &id]).run().assert_code(3);
        for record in Execs::of(env, &id).all() {
            let reason = record["ending"]["reason"].as_str().unwrap_or_default();
            let known = ["exit", "signal", "box_ended", "start_failed"].contains(&reason);
            assert!(known, "{record}");
        }
        // Refused before it ran (2), ended with the box, by itself, or by the signal.
        for (number, status) in statuses {
            assert!([0, 2, 4, 125, 128 + 10, 137, 143].contains(&status), "{number}: {status}");
        }
    }

    /// Ten thousand on record are listed, newest first, and each is found.
    fn ten_thousand_on_record(env) {
        let id = env.detached("sleep 86653");
        let execs = Execs::of(env, &id);
        let exec = execs.detached("echo first; exit 3");
        execs.verb("wait", &exec).assert_code(3);
        let place = env.box_dir(&id).join("execs");
        let read = |name: &str| std::fs::read_to_string(place.join(&exec).join(name)).expect(name);
        let (file, end) = (read("exec.json"), read("end.json"));
        for number in 0..10_000u32 {
            let copy = format!("01909a31-0000-7000-8000-{number:012x}");
            let directory = place.join(&copy);
            std::fs::create_dir(&directory).expect("make a directory");
            std::fs::write(directory.join("exec.json"), file.replace(&exec, &copy)).expect("write");
            std::fs::write(directory.join("end.json"), &end).expect("write");
            for path in [directory.join("exec.json"), directory.join("end.json"), directory] {
                env.account().own(&path);
            }
        }
        let listed = env.min(["box", "execs", &id]).run();
        listed.assert_code(0);
        assert_eq!(listed.text().lines().count(), 21, "{listed}");
        assert!(listed.text().lines().nth(1).is_some_and(|line| line.starts_with(&exec[28..])));
        let all = execs.all();
        assert_eq!(all.len(), 10_001);
        assert_eq!(all[10_000]["id"], "01909a31-0000-7000-8000-000000000000");
        execs.verb("wait", "01909a31-0000-7000-8000-000000001234").assert_code(3);
        execs.verb("wait", &exec[28..]).assert_code(3);
        execs.verb("wait", "01909a31").assert_code(2).assert_stderr_has("execs of the box");
        execs.sh("exit 5").run().assert_code(5);
    }
}
