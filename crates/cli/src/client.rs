//! The client's process: from words to an exit status.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use minimal_proto::{ErrorCode, Signal};
use tokio::runtime::Runtime;

use crate::args::{Cli, Color, Global, OutputArg};
use crate::commands;
use crate::context::Context;
use crate::ending_file::EndingFile;
use crate::env::Env;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::nothing_was_run;

/// Runs the client.
#[must_use]
pub fn main(words: &[OsString]) -> ExitCode {
    // Then a file that grows past the limit of whoever started us fails to be written, and that is
    // told, instead of our end.
    minimal_linux::signals::ignore(Signal::XFSZ);
    let env = Env::read();
    let exit = match Cli::read(words) {
        Ok(cli) => {
            let context = Context::new(&cli.global, env);
            carry_out(&context, cli)
        }
        Err(error) => not_understood(words, &error, env),
    };
    if let Exit::DieOf(signal) = exit {
        minimal_linux::signals::restore_default(signal);
        if let Some(signal) = rustix::process::Signal::from_named_raw(signal.number()) {
            // If it is blocked we live on, and return what a shell would report for it.
            rustix::process::kill_process(rustix::process::getpid(), signal).ok();
        }
    }
    ExitCode::from(exit.status())
}

fn carry_out(context: &Context, cli: Cli) -> Exit {
    let is_run = commands::is_run(&cli.command);
    let said = |failure: Failure| if is_run { nothing_was_run(failure) } else { failure };
    if let Some(directory) = &cli.global.directory
        && let Err(error) = std::env::set_current_dir(directory)
    {
        let message = format!("-C: change to `{}`", directory.display());
        return told(context, &said(Failure::usage(message).because(&error)));
    }
    let opened = commands::ending_args(&cli.command).map(EndingFile::open);
    let mut ending = match opened.unwrap_or_else(|| Ok(EndingFile::none())) {
        Ok(ending) => ending,
        Err(failure) => return told(context, &said(failure)),
    };
    let outcome = event_loop().map_err(said).and_then(|runtime| {
        in_runtime(
            runtime,
            commands::dispatch(context, cli.command, cli.global.output, &mut ending),
        )
    });
    let exit = match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            let failure = commands::with_kernels_cause(failure);
            ending.failed(&failure);
            told(context, &failure)
        }
    };
    finish(context, ending, exit)
}

/// Descriptors of an event loop: its queue twice, its waker, a socket pair for signals and a copy of
/// it. One more connects.
const LOOP_DESCRIPTORS: usize = 7;

/// One thread is enough: what blocks has threads of its own.
fn event_loop() -> Result<Runtime, Failure> {
    // Without descriptors for its signals the runtime panics instead of saying so.
    minimal_linux::fds::have_room(LOOP_DESCRIPTORS)
        .and_then(|()| tokio::runtime::Builder::new_current_thread().enable_all().build())
        .map_err(|error| {
            Failure::new(ErrorCode::NoResources, "start an event loop").because(&error)
        })
}

fn in_runtime(
    runtime: Runtime,
    command: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let outcome = runtime.block_on(command);
    // A call that hangs in the kernel must not hold up the end.
    runtime.shutdown_background();
    outcome
}

fn told(context: &Context, failure: &Failure) -> Exit {
    context.printer.failure(failure);
    failure.exit
}

/// A success whose ending could not be written is none for whoever reads it there.
fn finish(context: &Context, ending: EndingFile, exit: Exit) -> Exit {
    match ending.finish() {
        Ok(()) => exit,
        Err(failure) => told(context, &failure).or_worse(exit),
    }
}

/// A command line that clap did not take: help and version are asked for in this way too.
fn not_understood(words: &[OsString], error: &clap::Error, env: Env) -> Exit {
    let before_dashes = || words.iter().take_while(|word| *word != "--");
    let color = if env.has("NO_COLOR") { Color::Never } else { Color::Auto };
    let context = Context::new(&options(before_dashes(), color), env);
    let text = error.render().to_string();
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match context.printer.data(text.as_bytes()) {
            Ok(()) => Exit::Done,
            Err(failure) => told(&context, &failure),
        };
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        context.printer.help(&text);
        return Exit::Fault(ErrorCode::BadRequest);
    }
    let (message, usage) = split(&text);
    let mut failure = Failure::usage(message);
    failure.hint = usage;
    if before_dashes().any(|word| word == "run" || word == "exec") {
        if before_dashes().count() == words.len() && before_dashes().any(|word| word == "run") {
            let hint = "a command stands behind two dashes: `min run -- <command>`";
            failure.hint = Some(hint.to_owned());
        }
        failure = nothing_was_run(failure);
    }
    let exit = told(&context, &failure);
    match EndingFile::open(&EndingFile::scan(words)) {
        Ok(mut ending) => {
            ending.failed(&failure);
            finish(&context, ending, exit)
        }
        Err(_) => exit,
    }
}

/// The options that matter for telling what is wrong, as far as they can be made out.
fn options<'a>(words: impl Iterator<Item = &'a OsString>, color: Color) -> Global {
    let words: Vec<&str> = words.filter_map(|word| word.to_str()).collect();
    let given = |format: &str| {
        words.windows(2).any(|pair| ["-o", "--output"].contains(&pair[0]) && pair[1] == format)
            || words.iter().any(|word| {
                word.strip_prefix("--output=").or_else(|| word.strip_prefix("-o")) == Some(format)
            })
    };
    let output = match (given("json"), given("jsonl")) {
        (_, true) => OutputArg::Jsonl,
        (true, false) => OutputArg::Json,
        (false, false) => OutputArg::Table,
    };
    Global { directory: None, output, no_input: true, color, verbose: false, quiet: false }
}

/// clap's text, cut into what is wrong and how to say it.
pub(crate) fn split(text: &str) -> (String, Option<String>) {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let message = message.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
    // "to pass '-x' as a value, use '-- -x'" would make a box or a command of it.
    let tip = rest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("tip: "))
        .find(|tip| !tip.starts_with("to pass '"));
    let usage = rest.lines().find_map(|line| line.strip_prefix("Usage: "));
    let hint = match (tip, usage) {
        (Some(tip), _) => Some(tip.to_owned()),
        (None, Some(usage)) => Some(format!("usage: {usage}")),
        (None, None) => None,
    };
    (message, hint)
}
