//! What a command leaves behind in its box ends with it.

use minimal_testkit::for_each_user;

for_each_user! {
    /// Daemons, sessions, process groups: nothing gets out of the box.
    fn double_forks_and_sessions(env) {
        let script = "(setsid sh -c 'sleep 86441 & sleep 86442 & exit 0' &) ; nohup sleep 86443 >/dev/null 2>&1 & exit 11";
        env.run_sh(script).run().assert_code(11);
        assert_eq!(env.find("sleep 8644"), []);
    }

    /// A background child that holds the output and dies of TERM: the run returns with what it
    /// printed last.
    fn a_child_that_dies_of_term(env) {
        let script = "sh -c 'trap \"echo bye; exit 0\" TERM; echo up; sleep 86444 & wait' & \
                      read _ ; exit 3";
        let mut running = env.run_sh(script).stdin_piped().spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86444");
        running.write(b"go\n");
        running.wait().assert_code(3).assert_stdout("up\nbye\n");
        assert_eq!(env.find("sleep 86444"), []);
        assert_eq!(env.ending("sh-1")["reason"], "exit");
    }

    /// One that ignores TERM is killed, and what it printed before is kept.
    fn a_child_that_ignores_term(env) {
        let script = "sh -c 'trap \"echo no\" TERM; echo up; while :; do sleep 86445 & wait; done' & \
                      read _ ; exit 3";
        let mut running = env.run_sh(script).stdin_piped().spawn();
        running.wait_for_stdout("up\n");
        env.wait_for_process("sleep 86445");
        running.write(b"go\n");
        running.wait().assert_code(3).assert_stdout("up\nno\n");
        assert_eq!(env.find("sleep 86445"), []);
        assert_eq!(env.ending("sh-1")["exit_code"], 3);
    }

    /// A stopped child cannot hold up the end.
    fn a_child_that_is_stopped(env) {
        let script = "sleep 86446 & kill -STOP $!; exit 8";
        env.run_sh(script).run().assert_code(8);
        assert_eq!(env.find("sleep 86446"), []);
    }

    /// A box full of processes that respawn each other ends all the same.
    fn a_swarm(env) {
        let script = "f() { while :; do sleep 0.01; done; }; \
                      for i in $(seq 40); do (trap '' TERM HUP; f) & done; exit 2";
        env.run_sh(script).run().assert_code(2);
        assert_eq!(env.find("sleep 0.01"), []);
        env.wait_for_no_process("min-keeper");
    }
}
