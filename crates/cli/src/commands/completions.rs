//! `min completions`

use clap::CommandFactory as _;
use clap_complete::generate;

use crate::args::{Cli, Shell};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// Prints a script that completes commands and options.
pub(super) fn run(context: &Context, shell: Shell) -> Result<Exit, Failure> {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "min", &mut script);
    context.printer.data(&script)?;
    Ok(Exit::Done)
}
