//! A box's or an exec's terminal in the caller's own.
//!
//! ```text
//!  keys ─▶ input thread ─▶ leader ─▶ handle ─▶ box
//!  box ─▶ stream ─▶ the loop ─▶ modes ─▶ writer thread ─▶ stdout
//! ```
//!
//! The caller's terminal is raw meanwhile: every key is the box's, but for the leader's. Whatever way
//! the loop is left, the terminal is as it was (`raw`, `modes`).

mod attend;
mod leader;
mod modes;
mod raw;

use std::io;
use std::os::fd::AsFd as _;

use minimal_proto::TerminalSize;

use crate::error::Failure;

pub(crate) use attend::{Begin, Screen, TerminalSignals, Watched, watch};

/// Whether the caller has a terminal to show another in: to type in and to see.
pub(crate) fn is_at_hand() -> bool {
    rustix::termios::isatty(io::stdin()) && rustix::termios::isatty(io::stdout())
}

/// How large the caller's terminal is.
pub(crate) fn size() -> TerminalSize {
    let size = rustix::termios::tcgetwinsize(io::stdout().as_fd());
    size.map_or(TerminalSize::DEFAULT, |size| {
        TerminalSize { cols: size.ws_col, rows: size.ws_row }.or_default()
    })
}

/// That there is no terminal to show another in.
pub(crate) fn none_at_hand(what: &str, instead: &str) -> Failure {
    let message = format!("{what} needs a terminal on standard input and standard output");
    Failure::usage(message).hint(instead)
}

/// The same of `-t`.
pub(crate) fn no_tty() -> Failure {
    none_at_hand("-t", "leave -t out, or start it with -d and attach to it from a terminal")
}

/// What a program in a terminal wants to know of it and of who sits there, by name.
const ABOUT_IT: [&str; 15] = [
    "TERM",
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_ADDRESS",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MEASUREMENT",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NAME",
    "LC_NUMERIC",
    "LC_PAPER",
    "LC_TIME",
];

/// A terminal that does not say what it is, is taken for what every one can at least nearly do.
const PLAIN: &str = "xterm";

/// Whether a variable follows the terminal.
pub(crate) fn is_about_it(name: &str) -> bool {
    ABOUT_IT.contains(&name)
}

/// The caller's values of the variables that follow the terminal.
pub(crate) fn variables(env: &crate::env::Env) -> Vec<(String, minimal_proto::ByteString)> {
    ABOUT_IT
        .into_iter()
        .filter_map(|name| {
            let value = env.get(name).filter(|value| !value.is_empty());
            let value = value.or_else(|| (name == "TERM").then_some(PLAIN.as_ref()))?;
            Some((name.to_owned(), value.into()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;

    #[test]
    fn a_terminal_always_has_a_kind() {
        let names =
            |env: Env| variables(&env).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(
            names(Env::from([("HOME", "/x"), ("LC_TIME", "C"), ("LANG", "")])),
            ["TERM", "LC_TIME"]
        );
        let mine = variables(&Env::from([("TERM", "screen")]));
        assert_eq!(mine, [("TERM".to_owned(), "screen".into())]);
    }
}
