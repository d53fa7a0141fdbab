//! Clients that go away.

use minimal_testkit::{LIMIT, for_each_user, wait_until};
use rustix::process::Signal;

for_each_user! {
    /// Killed while it writes input and reads output: the input ends, the box completes.
    fn killed_with_both_streams_busy(env) {
        let mut running = env.run_sh("cat; echo end of input; exit 12").stdin_piped().spawn();
        running.write(b"some input\n");
        running.wait_for_stdout("some input\n");
        let id = env.newest()["id"].as_str().expect("a box has an id").to_owned();
        running.process().kill();
        drop(running);
        assert_eq!(env.show(&id)["state"], "running");
        // Its input stays open for a minute in case it comes back; a person need not wait for that.
        env.min(["stop", &id]).run().assert_code(0);
        assert_eq!(env.logs(&id)[..11], *b"some input\n");
    }

    /// A hangup, as when a terminal closes, changes nothing.
    fn a_hangup(env) {
        let running = env.run_sh("echo up; trap 'exit 13' USR1; sleep 86451 & wait").spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86451");
        running.signal(Signal::HUP);
        assert_ne!(running.wait().code(), Some(0));
        assert_eq!(env.show("sh-1")["state"], "running");
        env.min(["kill", "-s", "USR1", "sh-1"]).run().assert_code(0);
        env.min(["wait", "sh-1"]).run().assert_code(13);
    }

    /// A client that is stopped (Ctrl-Z) stops alone; its box runs on, and it catches up.
    fn a_stopped_client_catches_up(env) {
        let script = "echo up; trap 'for i in 1 2 3; do echo line $i; done; exit 14' USR1; sleep 86452 & wait";
        let running = env.run_sh(script).spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86452");
        let client = running.process();
        client.stop();
        env.min(["kill", "-s", "USR1", "sh-1"]).run().assert_code(0);
        env.min(["wait", "sh-1"]).run().assert_code(14);
        client.signal(Signal::CONT);
        running.wait().assert_code(14).assert_stdout("up\nline 1\nline 2\nline 3\n");
    }

    /// The pin of a client that is gone is gone: a box that prints past its log limit runs on.
    fn a_lost_pin(env) {
        let running = env.run_sh("echo up; read _ || true; echo on; exit 15").stdin_piped().spawn();
        running.wait_for_stdout("up\n");
        running.process().kill();
        drop(running);
        wait_until("the daemon has seen it leave", LIMIT, || {
            let events = env.events("sh-1");
            let left = events.iter().any(|event| event["type"] == "detached");
            if left { Ok(()) } else { Err(events) }
        });
        env.min(["stop", "--force", "sh-1"]).run().assert_code(0);
    }
}
