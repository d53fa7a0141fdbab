//! From the command line to an exec.

use minimal_proto::api::{BoxRecord, CreateExec, ExecRecord};
use minimal_proto::exec::{ExecCommand, ExecMode};
use minimal_proto::{ByteString, ErrorCode, Signal};
use minimal_sdk::{CallError, Client};
use uuid::Uuid;

use super::create::nothing_was_run;
use super::plan::milliseconds;
use super::{Signals, input, terminal};
use crate::args::ExecArgs;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::variables;

/// The request that a command line asks for.
///
/// # Errors
/// A mistake of usage.
pub(crate) fn exec_request(context: &Context, args: &ExecArgs) -> Result<CreateExec, Failure> {
    let Some(program) = args.argv.first() else {
        return Err(Failure::usage("there is no command to run")
            .hint("write it behind the box: `min exec <box> -- <command>`"));
    };
    if program.as_encoded_bytes().starts_with(b"-") {
        let program = program.to_string_lossy();
        return Err(Failure::usage(format!("`{program}` is no option of `min exec`"))
            .hint("`min exec --help` lists them; a program of that name is called by its path"));
    }
    if args.tty && !args.detach && !terminal::is_at_hand() {
        return Err(terminal::no_tty());
    }
    let mut values = variables::collect(&args.env_file, &args.env, &context.env)?;
    if args.tty {
        for (name, value) in terminal::variables(&context.env) {
            values.entry(name).or_insert(value);
        }
    }
    let mode = match (args.tty, args.detach) {
        (true, _) => ExecMode::Tty,
        (false, true) => ExecMode::Detached,
        (false, false) => ExecMode::Attached,
    };
    let command = ExecCommand {
        argv: args.argv.iter().cloned().map(ByteString::from).collect(),
        cwd: args.workdir.clone().map(ByteString::from),
        user: args.user.clone(),
        variables: values.keys().cloned().collect(),
        timeout_ms: args.timeout.map(milliseconds),
        stop_grace_ms: None,
        mode,
        input: !args.tty && !args.detach && !args.no_stdin && input::is_worth_reading(),
        terminal: args.tty.then(terminal::size),
    };
    Ok(CreateExec { command, values })
}

/// Runs a command in a box: its record, and the signals that came meanwhile.
///
/// # Errors
/// Nothing was run, or it is not known; the message says which.
pub(crate) async fn create_exec(
    client: &Client,
    of: &BoxRecord,
    request: &CreateExec,
    signals: &mut Signals,
) -> Result<(ExecRecord, Vec<Signal>), Failure> {
    let mut pending = Vec::new();
    let creating = client.create_exec(of.id, request, Uuid::now_v7());
    tokio::pin!(creating);
    let created = loop {
        tokio::select! {
            created = &mut creating => break created,
            signal = signals.next() => {
                let ends = |signal: &Signal| [Signal::INT, Signal::TERM].contains(signal);
                if ends(&signal) && pending.iter().any(ends) {
                    return Err(Failure::new(
                        ErrorCode::Interrupted,
                        "interrupted while the command was being started; it may run",
                    )
                    .hint(format!("`min box execs {}` shows whether it does", of.id))
                    .exit(Exit::Interrupted(signal)));
                }
                pending.push(signal);
            }
        }
    };
    match created {
        Ok(record) => Ok((record, pending)),
        Err(error) if is_unknown(&error) => Err(Failure::from(error)
            .while_trying("it is not known whether the command was run")
            .hint(format!("`min box execs {}` shows whether it was", of.id))
            .exit(Exit::Unknown)),
        Err(error) => Err(nothing_was_run(error.into())),
    }
}

/// Whether the command may have been run all the same.
fn is_unknown(error: &CallError) -> bool {
    matches!(error, CallError::GaveUp { .. } | CallError::Lost { .. })
        || error.code() == ErrorCode::ExitUnknown
}
