//! One build of the daemon hands over to another.

use minimal_testkit::{LIMIT, binary, for_each_user, wait_until};

for_each_user! {
    /// A client of another build brings its own daemon; boxes, streams and waits go on.
    fn between_builds(env) {
        let other = binary::other_build();
        let id = env.detached("echo up; trap 'echo got it; exit 9' USR1; sleep 86561 & wait");
        env.wait_for_process("sleep 86561");
        let wait = env.min(["wait", &id]).spawn();
        let follow = env.min(["logs", "-f", &id]).spawn();
        follow.wait_for_stdout("up\n");
        let old = env.daemon().expect("a daemon of this build");
        let output = env.run_sh("exit 4").program(&other).run();
        output.assert_code(4);
        old.wait_gone(LIMIT);
        wait_until("one daemon is left", LIMIT, || {
            let daemons = env.daemons();
            if daemons.len() == 1 { Ok(()) } else { Err(daemons) }
        });
        env.min(["kill", "-s", "USR1", &id]).program(&other).run().assert_code(0);
        wait.wait().assert_code(9);
        follow.wait().assert_code(0).assert_stdout("up\ngot it\n");
        assert_eq!(env.boxes().len(), 2);
    }

    /// A foreground run of the old build goes on under the new one's daemon, input and output.
    fn under_a_foreground_run(env) {
        let other = binary::other_build();
        let mut running = env.run_sh("cat; exit 6").stdin_piped().spawn();
        running.write(b"before\n");
        running.wait_for_stdout("before\n");
        env.min(["ls"]).program(&other).run().assert_code(0);
        running.write(b"after\n");
        running.wait_for_stdout("after\n");
        running.close_stdin();
        running.wait().assert_code(6).assert_stdout("before\nafter\n");
    }
}
