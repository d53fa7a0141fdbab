//! The executable: one file, every role.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use minimal_cli::{client, daemon};
use minimal_keeper::nursery;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let (name, rest) = match words.split_first() {
        Some((name, rest)) => (Path::new(name).file_name().unwrap_or_default(), rest),
        None => ("".as_ref(), &words[..]),
    };
    match rest.split_first() {
        _ if name == daemon::ARGV0 => daemon::main(rest),
        _ if name == nursery::ARGV0 => nursery::main(rest),
        _ if name == minimal_daemon::screen::ARGV0 => minimal_daemon::screen::main(rest),
        // Where argv[0] cannot be chosen.
        Some((first, rest)) if first == daemon::SUBCOMMAND => daemon::main(rest),
        _ => client::main(&words),
    }
}
