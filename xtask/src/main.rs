//! The project's own chores, as `cargo xtask <chore>`.
//!
//! `test` runs everything CI runs; `check` the part of it that builds no tests; `bench` measures;
//! `gen` writes the generated files. Start at `test.rs`.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "chores talk to a person")]

mod bench;
mod cargo;
mod check;
mod generate;
mod own_box;
mod packages;
mod report;
mod test;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <chore>

  test [part…] [-- word]   everything CI runs, or parts of it: check unit e2e tasks
                           release docs; after `--`: only tests whose name contains the word
  check                    formatting, lints, layout, licences
  bench [name…]            figures beside their floors and peers; table and target/bench.json
  gen                      write the generated files in docs/reference
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (chore, rest) = match args.split_first() {
        Some((chore, rest)) => (chore.as_str(), rest),
        None => ("help", [].as_slice()),
    };
    let outcome = match chore {
        "test" => test::test(rest),
        "check" => check::check(),
        "bench" => bench::bench(rest),
        "gen" => generate::generate(),
        _ => {
            print!("{USAGE}");
            return if matches!(chore, "help" | "--help" | "-h") {
                ExitCode::SUCCESS
            } else {
                2.into()
            };
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask {chore}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
