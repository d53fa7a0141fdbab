//! `min box resume`

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use minimal_proto::api::{BoxRecord, FileId, ResumeBox, StartOptions};
use minimal_proto::spec::{EnvSource, Lifetime, Workspace};
use minimal_proto::{ByteString, Ending, ErrorCode, Signal, Spec};
use minimal_sdk::{CallError, Client};

use super::run::{attended, print_id, tell_what_is_missing};
use super::several::{resolve, tell};
use super::start::await_ready;
use crate::addressee::Addressee;
use crate::args::{BoxOptions, ResumeArgs};
use crate::context::Context;
use crate::ending_file::EndingFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::terminal::{self, TerminalSignals};
use crate::run::{self, Created, Signals, Streams, address};
use crate::variables;

/// Values by name.
type Values = BTreeMap<String, ByteString>;

/// Begins a further life of each box. One is attended as `min run` does; several are left running.
pub(super) async fn run(
    context: &Context,
    args: &ResumeArgs,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    let given = variables::collect(&args.env_file, &args.env, &context.env)
        .map_err(run::nothing_was_run)?;
    let mut signals = listen()?;
    // Heard from the first moment on, whether or not there will be a terminal to show.
    let can_show = !args.detach && terminal::is_at_hand();
    let mut terminal_signals =
        super::attach::listen(context, can_show).map_err(run::nothing_was_run)?;
    let (client, records, mut worst) = resolve(context, &args.some).await?;
    let is_one = args.some.addresses.len() == 1;
    for record in &records {
        let exit = if is_one && !args.detach {
            let signals = (&mut signals, terminal_signals.as_mut());
            return one(context, (&client, record), args, &given, ending_file, signals).await;
        } else {
            match left_running(context, (&client, record), args, &given, &mut signals).await {
                Ok(exit) => exit,
                Err(failure) if is_one => return Err(failure),
                Err(failure) => tell(context, &failure),
            }
        };
        worst = worst.or_worse(exit);
    }
    Ok(worst)
}

fn listen() -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| {
        run::nothing_was_run(
            Failure::new(ErrorCode::Internal, "listen for signals").because(&error),
        )
    })
}

/// Resumes a box and stays with it, if it ends by itself.
async fn one(
    context: &Context,
    (client, record): (&Client, &BoxRecord),
    args: &ResumeArgs,
    given: &Values,
    ending_file: &mut EndingFile,
    (signals, terminal_signals): (&mut Signals, Option<&mut TerminalSignals>),
) -> Result<Exit, Failure> {
    if runs(record) {
        return Ok(already_runs(context, record));
    }
    let spec = client.spec(record.id).await.map_err(|error| run::nothing_was_run(error.into()))?;
    if spec.identity.lifetime == Lifetime::UntilStopped {
        return left_running(context, (client, record), args, given, signals).await;
    }
    let has_terminal = spec.io.pty_enabled;
    if has_terminal && terminal_signals.is_none() {
        let instead = "leave it running with -d";
        let failure = terminal::none_at_hand("a box with a terminal", instead);
        return Err(run::nothing_was_run(failure));
    }
    let input = !has_terminal && !args.no_stdin && run::is_worth_reading();
    let pin = !has_terminal;
    let streams = Streams { input, pin, terminal: has_terminal.then(terminal::size) };
    let resumed = resume(context, (client, record), &spec, given, (streams, &mut *signals)).await;
    let created = match resumed {
        Ok(created) => created,
        Err(failure) => {
            if let Some(ending) = ending_of(&failure) {
                ending_file.ended(&Addressee::from(record), &ending);
            }
            return Err(failure);
        }
    };
    let terminal_signals = terminal_signals.filter(|_| has_terminal);
    let signals = (signals, terminal_signals);
    let exit = attended(context, input, created, ending_file, signals).await?;
    Ok(exit.unwrap_or(Exit::Done))
}

/// Resumes a box and prints its id.
async fn left_running(
    context: &Context,
    (client, record): (&Client, &BoxRecord),
    args: &ResumeArgs,
    given: &Values,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    if runs(record) {
        return Ok(already_runs(context, record));
    }
    let spec = client.spec(record.id).await.map_err(|error| run::nothing_was_run(error.into()))?;
    let streams = Streams { input: false, pin: false, terminal: None };
    let resumed = resume(context, (client, record), &spec, given, (streams, &mut *signals)).await?;
    let mut record = resumed.record;
    if spec.execution.ready.is_some() && !args.no_wait {
        record = await_ready(context, client, record, signals).await?;
    }
    print_id(context, &record)
}

fn runs(record: &BoxRecord) -> bool {
    record.state.is_some_and(|state| !state.is_ended())
}

fn already_runs(context: &Context, record: &BoxRecord) -> Exit {
    let name = address(record);
    context.printer.note(&format!("Box {name} runs already: `min attach {name}` joins it."));
    Exit::Done
}

/// Begins a further life of a box that has ended, with the caller's values.
///
/// # Errors
/// It is as it was, or it is not known; the message says which.
pub(super) async fn resume(
    context: &Context,
    (client, record): (&Client, &BoxRecord),
    spec: &Spec,
    given: &Values,
    (streams, signals): (Streams, &mut Signals),
) -> Result<Created, Failure> {
    let values = values(context, record, spec, given).map_err(run::nothing_was_run)?;
    let Streams { input, pin, terminal } = streams;
    let project = project_file(spec).await;
    let start = StartOptions { input, pin, terminal, project, ..StartOptions::default() };
    let request = ResumeBox { life: Some(record.lives.saturating_add(1)), values, start };
    let mut pending = Vec::new();
    let resumed = {
        let resuming = client.resume(record.id, &request);
        tokio::pin!(resuming);
        loop {
            tokio::select! {
                resumed = &mut resuming => break resumed,
                signal = signals.next() => {
                    let ends = |signal: &Signal| [Signal::INT, Signal::TERM].contains(signal);
                    if ends(&signal) && pending.iter().any(ends) {
                        let message = "interrupted while the box was being resumed; it may run";
                        return Err(Failure::new(ErrorCode::Interrupted, message)
                            .hint(format!("`min show {}` says whether it does", address(record)))
                            .exit(Exit::Interrupted(signal)));
                    }
                    pending.push(signal);
                }
            }
        }
    };
    let record = resumed.map_err(|error| not_resumed(record, error))?;
    tell_what_is_missing(context, &BoxOptions::default(), &record);
    Ok(Created { client: client.clone(), record, pending })
}

/// How long the project's directory may take to say which it is.
const LOOK_LIMIT: Duration = Duration::from_secs(2);

/// Which directory the project's path means for the caller, if the box is given it: see
/// [`StartOptions::project`]. What does not answer is told of by whoever makes the box.
async fn project_file(spec: &Spec) -> Option<FileId> {
    if spec.files.workspace == Workspace::None {
        return None;
    }
    let root = PathBuf::from(spec.files.project_root.as_ref()?.as_os_str());
    let looking = tokio::task::spawn_blocking(move || root.metadata());
    let looked = tokio::time::timeout(LOOK_LIMIT, looking).await.ok()?.ok()?.ok()?;
    Some(FileId { device: looked.dev(), inode: looked.ino() })
}

fn not_resumed(record: &BoxRecord, error: CallError) -> Failure {
    let unknown = match &error {
        CallError::GaveUp { .. } | CallError::Lost { .. } => true,
        CallError::Api(body) => {
            [ErrorCode::Unresponsive, ErrorCode::ExitUnknown].contains(&body.code)
        }
        _ => false,
    };
    let failure = Failure::from(error);
    if unknown {
        return failure
            .while_trying("it is not known whether the box was resumed")
            .hint(format!("`min show {}` says whether it runs", address(record)))
            .exit(Exit::Unknown);
    }
    match ending_of(&failure) {
        Some(ending) => failure.exit(Exit::Ending(ending.shell_status())),
        None => run::nothing_was_run(failure),
    }
}

/// How a start has failed that left a box as it was.
pub(super) fn ending_of(failure: &Failure) -> Option<Ending> {
    serde_json::from_value(failure.details.get("ending")?.clone()).ok()
}

/// A value for each variable that was given when the box was made: those that are given now, what
/// follows the terminal, and else the caller's.
fn values(
    context: &Context,
    record: &BoxRecord,
    spec: &Spec,
    given: &Values,
) -> Result<Values, Failure> {
    let env = &spec.execution.env;
    let is_given = |name: &str| env.get(name) == Some(&EnvSource::Given);
    let name_of_box = address(record);
    if let Some(name) = given.keys().find(|name| !is_given(name)) {
        let message = format!("-e {name}: box {name_of_box} was not made with it");
        return Err(Failure::usage(message).hint("a box is resumed as it was made"));
    }
    let of_terminal: Values = terminal::variables(&context.env).into_iter().collect();
    let mut values = Values::new();
    for name in env.keys().filter(|name| is_given(name)) {
        let value = given.get(name).cloned();
        let value = value.or_else(|| match spec.io.pty_enabled && terminal::is_about_it(name) {
            // Empty is as good as absent for each of them; and there always is a TERM.
            true => Some(of_terminal.get(name).cloned().unwrap_or_default()),
            false => context.env.get(name).map(ByteString::from),
        });
        let Some(value) = value else {
            let message = format!(
                "box {name_of_box} was given a value of {name} when it was made, which was not \
                 stored, and you have none"
            );
            return Err(Failure::usage(message).hint(format!("give it with `-e {name}=…`")));
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}
