//! Input: forwarded exactly, and ended by a real end of file only.

use minimal_testkit::for_each_user;

for_each_user! {
    /// Bytes of every value, and then the end of file.
    fn exact_with_end_of_file(env) {
        let input: Vec<u8> = (0..=255u8).cycle().take(300_000).collect();
        let output = env.run(["cat"]).stdin(input.clone()).run();
        output.assert_code(0).assert_stdout(&input);
    }

    /// Nothing on stdin is an immediate end of file.
    fn an_empty_input(env) {
        env.run_sh("wc -c").run().assert_code(0).assert_stdout("0\n");
    }

    /// Input is not ended while the client keeps it open, and ends when it closes.
    fn an_open_input_stays_open(env) {
        let mut running = env.run(["cat"]).stdin_piped().spawn();
        running.write(b"one\n");
        running.wait_for_stdout("one\n");
        running.write(b"two\n");
        running.wait_for_stdout("two\n");
        running.close_stdin();
        running.wait().assert_code(0).assert_stdout("one\ntwo\n");
    }

    /// A killed daemon neither ends the input nor repeats it.
    fn across_a_killed_daemon(env) {
        let mut running = env.run_sh("cat; echo ended").stdin_piped().spawn();
        running.write(b"one\n");
        running.wait_for_stdout("one\n");
        env.kill_daemon();
        running.write(b"two\n");
        running.wait_for_stdout("two\n");
        env.kill_daemon();
        running.close_stdin();
        running.wait().assert_code(0).assert_stdout("one\ntwo\nended\n");
    }

    /// A command that does not read does not stop the client from ending with it.
    fn a_command_that_ignores_its_input(env) {
        let running = env.run_sh("exit 31").stdin(vec![b'x'; 4 << 20]).spawn();
        running.wait().assert_code(31);
        let running = env.run_sh("exec <&-; echo closed; exit 32").stdin_piped().spawn();
        running.wait().assert_code(32).assert_stdout("closed\n");
    }

    /// One that reads a line leaves the rest to nobody.
    fn a_command_that_reads_a_part(env) {
        let input: String = (0..200_000).map(|n| format!("{n}\n")).collect();
        env.run(["head", "-n", "1"]).stdin(input).run().assert_code(0).assert_stdout("0\n");
    }

    /// `--no-stdin` and `-d` give the command no input.
    fn no_input_on_request(env) {
        env.min(["run", "--no-stdin", "--", "wc", "-c"])
            .stdin("ignored")
            .run()
            .assert_code(0)
            .assert_stdout("0\n");
        let id = env.min(["run", "-d", "--", "wc", "-c"]).stdin("ignored").run().word().to_owned();
        env.min(["wait", &id]).run().assert_code(0);
        assert_eq!(env.logs(&id), b"0\n");
    }
}
