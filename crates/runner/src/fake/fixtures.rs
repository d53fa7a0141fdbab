//! The suite's commands as scripts.

use crate::conformance::Fixtures;
use crate::wire::CommandLine;

/// A command of these instructions.
pub(crate) fn script(args: &[&str]) -> CommandLine {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    CommandLine { cmd: "script".to_owned(), args, ..CommandLine::default() }
}

pub(crate) fn fixtures() -> Fixtures {
    Fixtures {
        hello: script(&["out:hello", "exit:0"]),
        fail: script(&["out:oops", "exit:3"]),
        killed: script(&["signal:15"]),
        both: script(&["out:out", "err:err"]),
        stay: script(&["out:ready", "stay"]),
        much: (script(&["much:3000000"]), 3_000_000),
        hang: script(&["hang"]),
        env: script(&["env:CONFORMANCE"]),
        dir: script(&["dir"]),
        cat: script(&["file:a/b/file"]),
        mode: script(&["mode:a/b/file"]),
        lost: Some(script(&["out:partial", "drop"])),
    }
}
