//! `min exec`

use minimal_proto::api::{BoxRecord, ExecRecord};
use minimal_proto::ending::StartFault;
use minimal_proto::{Ending, ErrorCode, Reason};
use minimal_sdk::{AttachOptions, StreamError};
use serde_json::json;

use crate::addressee::Addressee;
use crate::args::{ExecArgs, Format};
use crate::context::Context;
use crate::daemon;
use crate::ending_file::EndingFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::{self, Attended, Joined, Role, Signals};

/// Runs a command in a box that runs.
pub(super) async fn run(
    context: &Context,
    args: &ExecArgs,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    let request = run::exec_request(context, args).map_err(run::nothing_was_run)?;
    let mut signals = Signals::listen().map_err(|error| {
        run::nothing_was_run(
            Failure::new(ErrorCode::Internal, "listen for signals").because(&error),
        )
    })?;
    let is_shown = args.tty && !args.detach;
    let mut terminal_signals =
        super::attach::listen(context, is_shown).map_err(run::nothing_was_run)?;
    let client = daemon::contact(context).await.map_err(run::nothing_was_run)?;
    let of = client.get(&args.address).await.map_err(|error| run::nothing_was_run(error.into()))?;
    let (record, pending) = run::create_exec(&client, &of, &request, &mut signals).await?;
    let whose = Addressee::exec(&of, &record);
    if let Some(ending) = &record.ending
        && ending.reason() == Reason::StartFailed
    {
        ending_file.ended(&whose, ending);
        return Err(not_started(&whose, ending));
    }
    if args.detach {
        let printed = match context.printer.format() {
            Format::Table => context.printer.line(&record.id.to_string()),
            Format::Json | Format::Jsonl => context.printer.json(&record),
        };
        return printed.map(|()| Exit::Done).map_err(|failure| unheard(&whose, failure));
    }
    context.printer.detail(&format!("This is {}.", whose.words()));
    if let Some(terminal_signals) = &mut terminal_signals {
        let seen = super::attach::show(
            context,
            (&client, &whose),
            super::attach::Place::FRESH,
            terminal_signals,
        )
        .await?;
        let Some(ending) = seen else { return Ok(Exit::Done) };
        ending_file.ended(&whose, &ending);
        tell(context, &whose, &ending);
        return Ok(Exit::Ending(ending.shell_status()));
    }
    let input = request.command.input;
    let options = AttachOptions { input, pin: true, ..AttachOptions::default() };
    let (stream, handle) = client
        .attach(whose.subject(), options)
        .await
        .map_err(|error| run::unknown(&whose, StreamError::Lost(error)))?;
    let role = Role::OfExec;
    let joined = Joined { client, whose: whose.clone(), role, stream, handle, input, pending };
    let Attended { ending, exit } = run::attend_to(context, joined, &mut signals).await?;
    ending_file.ended(&whose, &ending);
    tell(context, &whose, &ending);
    Ok(exit)
}

/// It runs, and its id could not be printed: it is named where somebody may hear it.
fn unheard(whose: &Addressee, failure: Failure) -> Failure {
    let (what, causes) = match failure.exit {
        Exit::StdoutClosed => ("standard output was closed", Vec::new()),
        _ => ("write to standard output", failure.causes.clone()),
    };
    let stop = whose.command("stop");
    let message = format!("{what}; {} runs on: stop it with `{stop}`", whose.words());
    whose.in_details(Failure { message, causes, silent: false, ..failure })
}

/// Says what an exit status does not.
pub(super) fn tell(context: &Context, whose: &Addressee, ending: &Ending) {
    let printer = &context.printer;
    let words = whose.words();
    match ending.reason() {
        Reason::Lost => printer.failure(&whose.lost(ending.shell_status())),
        Reason::StartFailed => printer.failure(&not_started(whose, ending)),
        Reason::Timeout => printer.note(&format!("The {words} ran past its timeout.")),
        Reason::Stopped => printer.note(&format!("The {words} was stopped.")),
        Reason::BoxEnded => printer.note(&format!("The {words} ended with its box.")),
        Reason::ClientLost => printer.note(&format!("The {words} ended with its client.")),
        Reason::Oom => printer.note(&format!("The {words} ran out of memory.")),
        Reason::Exit | Reason::Signal | Reason::Disk | Reason::NotReady => {}
    }
}

/// A start that failed: the exec is on record, and its ending says why.
pub(super) fn not_started(whose: &Addressee, ending: &Ending) -> Failure {
    let failure = Failure::new(ErrorCode::StartFailed, format!("{} did not start", whose.words()))
        .exit(Exit::Ending(ending.shell_status()))
        .detail("ending", json!(ending));
    let mut failure = whose.in_details(failure);
    let message = ending.detail().get("message").and_then(serde_json::Value::as_str);
    failure.causes.extend(message.map(str::to_owned));
    match ending.start_fault() {
        Some(StartFault::NotFound) => failure
            .hint("it is looked for in the box, by its PATH; a path in the box begins with /"),
        Some(StartFault::NotExecutable | StartFault::Other) | None => failure,
    }
}

/// The box that an address means, and the exec in it.
pub(super) async fn find(
    client: &minimal_sdk::Client,
    of: &str,
    exec: &str,
) -> Result<(BoxRecord, ExecRecord), Failure> {
    let of = client.get(of).await?;
    let record = client.exec(of.id, exec).await?;
    Ok((of, record))
}

/// The exec that several boxes and `--exec` mean together: there can be only one box.
pub(super) async fn find_one(
    client: &minimal_sdk::Client,
    boxes: &[String],
    exec: &str,
) -> Result<(Addressee, ExecRecord), Failure> {
    let [of] = boxes else {
        return Err(Failure::usage("an exec is in one box: --exec takes a single box"));
    };
    let (of, record) = find(client, of, exec).await?;
    Ok((Addressee::exec(&of, &record), record))
}
