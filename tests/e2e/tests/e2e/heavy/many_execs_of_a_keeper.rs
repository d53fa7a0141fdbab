//! Many execs of one box, asked of its keeper.

use minimal_proto::exec::ExecFile;
use minimal_store::{BoxDir, ExecDir};
use minimal_testkit::exec_link::{ExecLink, command, request};
use minimal_testkit::{TestEnv, for_each_user};

/// How many execs of a life have events.
const LISTED: usize = 1000;

fn at_once(env: &TestEnv, id: &str, count: usize) {
    let mut links: Vec<_> = (0..count)
        .map(|number| {
            let code = u8::try_from(number % 200).unwrap();
            let start = request(command(&["sh", "-c", &format!("echo {number}; exit {code}")]));
            (start.exec, code, ExecLink::run(env, id, start))
        })
        .collect();
    let dir = BoxDir::open(&env.box_dir(id)).unwrap();
    for (exec, code, link) in &mut links {
        link.started();
        let ending = link.ending();
        assert_eq!(ending.exit_code(), Some(*code), "{ending:?}");
        let kept = ExecDir::open(&dir, *exec).unwrap();
        assert_eq!(kept.read_end().unwrap().unwrap().ending, ending);
        let ExecFile { id, .. } = kept.read_file().unwrap();
        assert_eq!(id, *exec);
    }
}

for_each_user! {
    /// Five hundred at once: each has its own code. And the journal tells of a thousand, while the
    /// records are those of all.
    fn five_hundred_at_once(env) {
        let id = env.detached("exec sleep 86590");
        env.kill_daemon();
        at_once(env, &id, 500);
        at_once(env, &id, 500);
        at_once(env, &id, 5);
        let events = env.events(&id);
        let count = |name: &str| events.iter().filter(|event| event["type"] == name).count();
        assert_eq!([count("exec_started"), count("exec_exited")], [LISTED, LISTED]);
        assert_eq!(count("execs_not_listed"), 1);
        assert_eq!(events.last().unwrap()["data"]["listed"], LISTED);
        let dir = BoxDir::open(&env.box_dir(&id)).unwrap();
        assert_eq!(ExecDir::list(&dir).unwrap().len(), 1005);
    }
}
