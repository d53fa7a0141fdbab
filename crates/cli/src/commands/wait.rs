//! `min wait`

use std::time::Duration;

use minimal_proto::api::WaitAnswer;
use minimal_proto::{ErrorCode, Reason};
use minimal_sdk::CallError;

use super::exec::{self, find_one};
use super::run::{lost, not_started};
use super::several::{ask_each, print_values, resolve, tell};
use crate::addressee::Addressee;
use crate::args::{Format, WaitArgs};
use crate::context::Context;
use crate::daemon;
use crate::ending_file::{EndingFile, ending_json};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::ending_in_words;
use crate::run::address;

/// Waits until boxes have ended.
pub(super) async fn run(
    context: &Context,
    args: &WaitArgs,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    if args.some.addresses.len() > 1
        && (args.ending.ending_file.is_some() || args.ending.ending_fd.is_some())
    {
        return Err(Failure::usage("there is one ending in a file: wait for one box at a time"));
    }
    if let Some(exec) = &args.exec.exec {
        return wait_for_exec(context, args, exec, ending_file).await;
    }
    let (client, records, mut worst) = resolve(context, &args.some).await?;
    let timeout = args.timeout;
    let answers = ask_each(&records, |record| {
        let (client, id) = (client.clone(), record.id);
        async move { client.wait(id, timeout).await }
    })
    .await;
    let (mut values, mut endings) = (Vec::new(), Vec::new());
    for (record, answer) in records.iter().zip(answers) {
        match answer {
            Ok(WaitAnswer { id, ending }) => {
                let whose = Addressee { box_id: id, ..record.into() };
                ending_file.ended(&whose, &ending);
                values.push(ending_json(&whose, &ending));
                endings.push((record, ending));
            }
            Err(error) => {
                let failure = failed(&Addressee::from(record).words(), error, timeout);
                ending_file.failed(&failure);
                worst = worst.or_worse(tell(context, &failure));
            }
        }
    }
    print_values(context, &values)?;
    for (record, ending) in endings {
        if context.printer.format() == Format::Table {
            context.printer.line(&format!("{}: {}", address(record), ending_in_words(&ending)))?;
            match ending.reason() {
                Reason::Lost => context.printer.failure(&lost(record, &ending)),
                Reason::StartFailed => context.printer.failure(&not_started(record, &ending)),
                _ => {}
            }
        }
        worst = worst.or_worse(Exit::Ending(ending.shell_status()));
    }
    Ok(worst)
}

/// Waits until an exec has ended.
async fn wait_for_exec(
    context: &Context,
    args: &WaitArgs,
    exec: &str,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let (whose, record) = find_one(&client, &args.some.addresses, exec).await?;
    let ending = client
        .wait_exec(whose.box_id, record.id, args.timeout)
        .await
        .map_err(|error| failed(&whose.words(), error, args.timeout))?
        .ending;
    ending_file.ended(&whose, &ending);
    print_values(context, &[ending_json(&whose, &ending)])?;
    if context.printer.format() == Format::Table {
        let words = format!("{} {}", whose.of_box(), record.id.short());
        context.printer.line(&format!("{words}: {}", ending_in_words(&ending)))?;
        match ending.reason() {
            Reason::Lost | Reason::StartFailed => exec::tell(context, &whose, &ending),
            _ => {}
        }
    }
    Ok(Exit::Ending(ending.shell_status()))
}

fn failed(words: &str, error: CallError, timeout: Option<Duration>) -> Failure {
    let failure = match error {
        CallError::GaveUp { .. } | CallError::Lost { .. } => {
            let mut failure = Failure::from(error);
            failure.code = ErrorCode::ExitUnknown;
            failure.exit(Exit::Unknown)
        }
        error => Failure::from(error),
    };
    match (failure.code, timeout) {
        (ErrorCode::WaitTimeout, Some(timeout)) => {
            let mut failure = failure;
            failure.message = format!("{words} has not ended within {timeout:?}");
            failure
        }
        _ => failure.while_trying(format!("wait for {words}")),
    }
}
