//! `min attach`

use minimal_proto::{ErrorCode, Reason};
use minimal_sdk::{AttachHandle, AttachOptions, AttachStream, CallError, Client};

use super::exec;
use super::run::{lost, not_started};
use crate::addressee::Addressee;
use crate::args::AttachArgs;
use crate::context::Context;
use crate::daemon;
use crate::ending_file::EndingFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::{self, Attended, Joined, Role, Signals};

/// Joins the streams of a box or of an exec, and stays until it has ended or a signal comes.
pub(super) async fn run(
    context: &Context,
    args: &AttachArgs,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()
        .map_err(|error| Failure::new(ErrorCode::Internal, "listen for signals").because(&error))?;
    let client = daemon::contact(context).await?;
    let of = client.get(&args.one.address).await?;
    let whose = match &args.exec.exec {
        None => Addressee::from(&of),
        Some(exec) => Addressee::exec(&of, &client.exec(of.id, exec).await?),
    };
    let from = args.from.unwrap_or(0);
    let wants_input = !args.watch && run::is_worth_reading();
    let (input, (stream, handle)) = join(context, &client, &whose, from, wants_input).await?;
    let joined = Joined {
        client,
        whose: whose.clone(),
        role: Role::Visitor,
        stream,
        handle,
        input,
        pending: Vec::new(),
    };
    let Attended { ending, exit } = run::attend_to(context, joined, &mut signals).await?;
    ending_file.ended(&whose, &ending);
    match (whose.exec, ending.reason()) {
        (Some(_), _) => exec::tell(context, &whose, &ending),
        (None, Reason::Lost) => context.printer.failure(&lost(&of, &ending)),
        (None, Reason::StartFailed) => context.printer.failure(&not_started(&of, &ending)),
        (None, _) => {}
    }
    Ok(exit)
}

/// Joins, with input if that is wanted and free: whether it is ours, and the streams.
async fn join(
    context: &Context,
    client: &Client,
    whose: &Addressee,
    from: u64,
    input: bool,
) -> Result<(bool, (AttachStream, AttachHandle)), CallError> {
    let options = AttachOptions { from, input, ..AttachOptions::default() };
    match client.attach(whose.subject(), options).await {
        Ok(joined) => Ok((input, joined)),
        Err(error) if input && error.code() == ErrorCode::InputHeld => {
            context.printer.note(&format!("Another client writes to {}.", whose.words()));
            let options = AttachOptions { input: false, ..options };
            Ok((false, client.attach(whose.subject(), options).await?))
        }
        Err(error) => Err(error),
    }
}
