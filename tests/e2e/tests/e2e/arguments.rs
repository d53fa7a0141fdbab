//! Arguments and environment, up to what the kernel takes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use minimal_testkit::for_each_user;

/// The longest single argument or variable: 32 pages, with its end (execve(2)).
const LONGEST: usize = 128 << 10;

for_each_user! {
    /// Nothing to run is a mistake of usage, and nothing is made.
    fn no_command(env) {
        for args in [&["run"][..], &["run", "--"], &["run", "-d", "--"]] {
            let output = env.min(args).run();
            output.assert_code(2).assert_stdout("");
            assert!(!output.stderr.is_empty(), "{output}");
        }
        env.run([""]).run().assert_code(2);
        assert_eq!(env.boxes().len(), 0);
    }

    /// Empty words, spaces, newlines, quotes, bytes that are no text: as given.
    fn words_arrive_as_given(env) {
        let odd = OsString::from_vec(vec![0xff, 0xfe, b'\n', 0x80]);
        let output = env
            .run(["printf", "[%s]"])
            .arg("").arg(" a  b ").arg("\n\t").arg("\"'$x`;&|").arg("--help").arg(odd)
            .run();
        output.assert_code(0);
        assert_eq!(
            output.stdout,
            b"[][ a  b ][\n\t][\"'$x`;&|][--help][\xff\xfe\n\x80]",
        );
    }

    /// The longest argument there can be arrives; one byte more is refused by the kernel, and the
    /// message says that it is the arguments.
    fn one_long_argument(env) {
        let longest = "x".repeat(LONGEST - 1);
        // The client itself is started by the same kernel with the same limit, so the longer one is
        // put together by the box's own variable.
        env.run(["sh", "-c", "echo ${#1}", "sh"])
            .arg(&longest)
            .run()
            .assert_code(0)
            .assert_stdout(format!("{}\n", LONGEST - 1));
        env.file("values", format!("LONG={}\n", "y".repeat(LONGEST)));
        let output = env.min(["run", "--env-file", "values", "--", "true"]).run();
        output.assert_code(125).assert_stderr_has("Argument list too long");
        assert_eq!(env.newest()["ending"]["detail"]["errno"], rustix::io::Errno::TOOBIG.raw_os_error());
    }

    /// Many arguments, megabytes of them together.
    fn many_arguments(env) {
        let many: Vec<String> = (0..15_000).map(|n| format!("argument-number-{n:06}-{}", "z".repeat(60))).collect();
        let total: usize = many.iter().map(String::len).sum();
        let mut command = env.run(["sh", "-c", "echo $#; printf %s \"$@\" | wc -c", "sh"]);
        for word in &many {
            command = command.arg(word);
        }
        command.run().assert_code(0).assert_stdout(format!("15000\n{total}\n"));
    }

    /// Variables: by value, by name from the caller, from a file; nothing else of the caller's.
    fn variables(env) {
        env.file("file.env", "# a comment\nFROM_FILE=a b=c\n\nEMPTY=\n");
        let output = env
            .min(["run", "-e", "GIVEN=one two", "-e", "TAKEN", "--env-file", "file.env", "--", "env"])
            .env("TAKEN", "from the caller")
            .env("LEAKED", "must not arrive")
            .run();
        output.assert_code(0);
        let text = output.text();
        for line in ["GIVEN=one two", "TAKEN=from the caller", "FROM_FILE=a b=c", "EMPTY="] {
            assert!(text.lines().any(|found| found == line), "{line}: {output}");
        }
        for ours in ["LEAKED", "MINIMAL_STATE_DIR", "MINIMAL_HOOKS", "must not arrive"] {
            assert!(!text.contains(ours), "{ours}: {output}");
        }
    }

    /// Variables that cannot be are refused before anything is made.
    fn wrong_variables(env) {
        env.min(["run", "-e", "=x", "--", "true"]).run().assert_code(2);
        env.min(["run", "-e", "", "--", "true"]).run().assert_code(2);
        let missing = env.min(["run", "--env-file", "nosuch.env", "--", "true"]).run();
        assert!(matches!(missing.code(), Some(2 | 3)), "{missing}");
        missing.assert_stderr_has("nosuch.env");
        assert_eq!(env.boxes().len(), 0);
    }

    /// A NUL cannot come through a command line, but it can through a file.
    fn a_nul_byte(env) {
        env.file("nul.env", b"NUL=a\0b\n");
        let output = env.min(["run", "--env-file", "nul.env", "--", "true"]).run();
        assert!(matches!(output.code(), Some(2 | 3)), "{output}");
        output.assert_stderr_has("NUL");
        assert_eq!(env.boxes().len(), 0);
    }
}
