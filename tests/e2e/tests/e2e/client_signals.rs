//! Signals to a foreground client reach the command.

use minimal_testkit::{Running, TestEnv, for_each_user};
use rustix::process::Signal;

fn started(env: &TestEnv, script: &str, marker: &str) -> Running {
    let running = env.run_sh(script).spawn();
    running.wait_for_stdout("up\n");
    env.wait_for_process(marker);
    running
}

for_each_user! {
    /// Each of them, handled by the command as it likes.
    fn relayed_to_the_command(env) {
        for (signal, name) in [
            (Signal::INT, "INT"),
            (Signal::TERM, "TERM"),
            (Signal::QUIT, "QUIT"),
            (Signal::USR1, "USR1"),
            (Signal::USR2, "USR2"),
        ] {
            let script = format!("trap 'echo got {name}; exit 21' {name}; echo up; sleep 86461 & wait");
            let running = started(env, &script, "sleep 86461");
            running.signal(signal);
            let output = running.wait();
            output.assert_code(21).assert_stdout(format!("up\ngot {name}\n"));
            env.wait_for_no_process("sleep 86461");
        }
    }

    /// To the whole process group, as from a terminal.
    fn relayed_to_the_group(env) {
        let script = "echo up; sleep 86462; echo \"sleep said $?\"; exit 22";
        let running = started(env, &format!("trap : USR1; {script}"), "sleep 86462");
        running.signal(Signal::USR1);
        let output = running.wait();
        output.assert_code(22).assert_stdout("up\nsleep said 138\n");
    }

    /// A client that was interrupted, and whose command died of it, dies of it: a shell loop stops.
    fn an_interrupt_ends_the_client_the_same_way(env) {
        let running = started(env, "echo up; exec sleep 86463", "sleep 86463");
        running.signal(Signal::INT);
        let output = running.wait();
        assert_eq!(output.signal(), Some(Signal::INT.as_raw()), "{output}");
        let ending = env.ending("sh-1");
        assert_eq!(ending["reason"], "signal");
        assert_eq!(ending["signal"], "SIGINT");
    }

    /// A command that ignores it: the second stops the box, a third kills it.
    fn a_third_interrupt_kills(env) {
        let script = "trap '' INT TERM; echo up; while :; do sleep 86464; done";
        let running = started(env, script, "sleep 86464");
        running.signal(Signal::INT);
        running.signal(Signal::INT);
        // The stop is on its way once it is in the journal; without it a third could be a first.
        minimal_testkit::wait_until("the stop is recorded", minimal_testkit::LIMIT, || {
            let events = env.events("sh-1");
            let stopping = events.iter().any(|event| event["type"] == "stop_requested");
            if stopping {
                return Ok(());
            }
            // Two signals that arrive together are one.
            running.signal(Signal::INT);
            Err(events)
        });
        running.signal(Signal::INT);
        let output = running.wait();
        assert_eq!(output.code(), Some(137), "{output}");
        let ending = env.ending("sh-1");
        assert_eq!(ending["reason"], "stopped");
        assert_eq!(ending["signal"], "SIGKILL");
        env.wait_for_no_process("sleep 86464");
    }

    /// An interrupt before there is anything to interrupt.
    fn an_interrupt_while_waiting_is_no_ending(env) {
        let id = env.detached("sleep 86465");
        let wait = env.min(["wait", &id]).spawn();
        env.wait_for_process("min wait");
        wait.signal(Signal::INT);
        let output = wait.wait();
        assert_ne!(output.code(), Some(0), "{output}");
        assert_eq!(env.show(&id)["state"], "running");
        env.min(["stop", "--force", &id]).run().assert_code(0);
    }
}
