//! The measuring program of `cargo xtask bench`.
//!
//! Each row measures one thing beside its floor or peers, in turns within one run, so that whatever
//! else the machine does falls on all of them alike. State lies on a disk, below `TMPDIR`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]

mod peers;
mod rows;
mod samples;
mod table;

use std::process::ExitCode;

use anyhow::Result;

use crate::table::Row;

/// A measurement: its name, and what takes it.
type Bench = (&'static str, fn() -> Result<Vec<Row>>);

const BENCHES: [Bench; 9] = [
    ("create", rows::create::bench),
    ("run", rows::run::bench),
    ("exec", rows::exec::bench),
    ("cold", rows::cold::bench),
    ("pipe", rows::pipe::bench),
    ("memory", rows::many::memory),
    ("adoption", rows::many::adoption),
    ("burst", rows::many::burst),
    ("list", rows::list::bench),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| BENCHES.iter().all(|(known, _)| known != name))
    {
        let known: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no figure `{unknown}`: {}", known.join(" "));
        return ExitCode::from(2);
    }
    let mut measured = Vec::new();
    let mut failed = false;
    for (name, bench) in BENCHES {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == name) {
            continue;
        }
        eprintln!("measuring: {name}");
        match bench() {
            Ok(rows) => measured.extend(rows),
            Err(error) => {
                eprintln!("{name}: {error:#}");
                failed = true;
            }
        }
    }
    table::print(&measured);
    if let Err(error) = table::write_json(&measured) {
        eprintln!("{error:#}");
        failed = true;
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
