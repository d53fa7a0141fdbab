//! `min run`

use minimal_proto::api::{BoxRecord, CreateBox};
use minimal_proto::ending::StartFault;
use minimal_proto::{BoxName, ByteString, Ending, ErrorCode, Reason};
use serde_json::json;

use super::attach::Place;
use crate::addressee::Addressee;
use crate::args::{BoxOptions, Format, RunArgs};
use crate::context::Context;
use crate::ending_file::EndingFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::home_program;
use crate::project::Project;
use crate::project_file;
use crate::run::terminal::{self, Begin, TerminalSignals};
use crate::run::{self, Attended, Created, Signals, Streams, address};

/// Runs a command in a fresh box.
pub(super) async fn run(
    context: &Context,
    args: &RunArgs,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    let project = Project::find(context.home().as_deref());
    let file = project_file::load(context, project.as_ref()).map_err(run::nothing_was_run)?;
    if let Some(help) = run::help(args.into(), &file).map_err(run::nothing_was_run)? {
        context.printer.data(help.as_bytes())?;
        return Ok(Exit::Done);
    }
    let is_shown = args.tty && !args.detach;
    if is_shown && !args.explain && !terminal::is_at_hand() {
        return Err(run::nothing_was_run(terminal::no_tty()));
    }
    let input = !args.tty && !args.detach && !args.no_stdin && run::is_worth_reading();
    // A terminal is not held back by who looks at it.
    let pin = !args.tty && !args.detach;
    let streams = Streams { input, pin, terminal: is_shown.then(terminal::size) };
    let request = run::request(context, args.into(), &file, project, streams)
        .map_err(run::nothing_was_run)?;
    if args.explain {
        return explain(context, &request);
    }
    let mut signals = Signals::listen().map_err(|error| {
        run::nothing_was_run(
            Failure::new(ErrorCode::Internal, "listen for signals").because(&error),
        )
    })?;
    let mut terminal_signals =
        super::attach::listen(context, is_shown).map_err(run::nothing_was_run)?;
    let created = run::create(context, &request, &mut signals).await?;
    let record = created.record.clone();
    if let Some(ending) = record.ending.as_ref().filter(|ending| started_not(ending)) {
        ending_file.ended(&Addressee::from(&record), ending);
        let failure = explained(context, &request, &record, ending);
        // Told here, so that the last line is about what is left of the box.
        context.printer.failure(&failure);
        close(context, args, &created).await;
        return Ok(failure.exit);
    }
    tell_what_is_missing(context, &args.options, &record);
    if args.detach {
        return print_id(context, &record);
    }
    let signals = (&mut signals, terminal_signals.as_mut());
    let input = request.start.input;
    let left = Created { client: created.client.clone(), record, pending: Vec::new() };
    let exit = attended(context, input, created, ending_file, signals).await?;
    if exit.is_some() {
        close(context, args, &left).await;
    }
    Ok(exit.unwrap_or(Exit::Done))
}

/// Why a box did not start.
pub(super) fn explained(
    context: &Context,
    request: &CreateBox,
    record: &BoxRecord,
    ending: &Ending,
) -> Failure {
    let failure = not_started(record, ending);
    match ending.start_fault() {
        Some(StartFault::NotFound) => with_home_hint(context, request, failure),
        Some(StartFault::NotExecutable | StartFault::Other) | None => failure,
    }
}

/// Prints the id of a box that was left running.
pub(super) fn print_id(context: &Context, record: &BoxRecord) -> Result<Exit, Failure> {
    let printed = match context.printer.format() {
        Format::Table => context.printer.line(&record.id.to_string()),
        Format::Json | Format::Jsonl => context.printer.json(record),
    };
    printed.map(|()| Exit::Done).map_err(|failure| unheard(record, failure))
}

/// The box runs, and its id could not be printed: it is named where somebody may hear it.
fn unheard(record: &BoxRecord, failure: Failure) -> Failure {
    let name = address(record);
    let (what, causes) = match failure.exit {
        Exit::StdoutClosed => ("standard output was closed", Vec::new()),
        _ => ("write to standard output", failure.causes.clone()),
    };
    let message = format!("{what}; box {name} runs on: stop it with `min stop {name}`");
    Failure { message, causes, silent: false, ..failure }.detail("box", record.id.to_string())
}

/// A limit that was asked for and is not in force is said once, by name; and so is what a workspace
/// lacks, which one finds out else only by missing it.
pub(super) fn tell_what_is_missing(context: &Context, args: &BoxOptions, record: &BoxRecord) {
    let asked = [("ram", args.ram.is_some()), ("pids", args.pids.is_some())];
    for missing in record.enforcement.iter().flat_map(|enforcement| &enforcement.missing) {
        if asked.contains(&(missing.what.as_str(), true)) {
            context.printer.warn(&format!("--{} is not in force: {}", missing.what, missing.why));
        } else if missing.what.starts_with("workspace") {
            context.printer.note(&format!("Workspace: {}.", missing.why));
        }
    }
}

/// Stays with a box that has just begun a life until that has ended, and says what an exit status does
/// not. None: the person has left its terminal.
pub(super) async fn attended(
    context: &Context,
    input: bool,
    created: Created,
    ending_file: &mut EndingFile,
    (signals, terminal_signals): (&mut Signals, Option<&mut TerminalSignals>),
) -> Result<Option<Exit>, Failure> {
    let record = created.record.clone();
    let whose = Addressee::from(&record);
    let attended = match terminal_signals {
        None => run::attend(context, created, input, signals).await?,
        Some(terminal_signals) => {
            let place = Place { begin: Begin::Fresh(record.log_begin), keyboard: true };
            let client = &created.client;
            let show = super::attach::show(context, (client, &whose), place, terminal_signals);
            let Some(ending) = show.await? else { return Ok(None) };
            let exit = Exit::Ending(ending.shell_status());
            Attended { ending, exit }
        }
    };
    let Attended { ending, exit } = attended;
    ending_file.ended(&whose, &ending);
    let name = address(&record);
    match ending.reason() {
        Reason::Lost => context.printer.failure(&lost(&record, &ending)),
        Reason::Timeout => context.printer.note(&format!("Box {name} ran past its timeout.")),
        Reason::Oom => context.printer.note(&format!("Box {name} ran out of memory.")),
        Reason::Stopped => context.printer.note(&format!("Box {name} was stopped.")),
        _ => {}
    }
    Ok(Some(exit))
}

/// Says so if the caller has the program in their home.
fn with_home_hint(context: &Context, request: &CreateBox, failure: Failure) -> Failure {
    let program = request.spec.execution.exec.first().map(ByteString::as_os_str);
    let path = context.env.get("PATH");
    let hint = program
        .zip(context.home())
        .and_then(|(program, home)| home_program::hint(program, path, &home));
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What is left of the box: removed on request, else named.
async fn close(context: &Context, args: &RunArgs, created: &Created) {
    let Created { client, record, .. } = created;
    if args.options.rm {
        // Without it the daemon removes the box a minute later.
        if let Err(error) = client.acknowledge(record.id).await {
            context.printer.detail(&Failure::from(error).in_one_line());
        }
    } else if !args.detach {
        let name = address(record);
        context.printer.note(&format!("Kept box {name}. Remove it with min box rm {name}."));
    }
}

pub(super) fn started_not(ending: &Ending) -> bool {
    ending.reason() == Reason::StartFailed
}

/// A start that failed: the box is there, and its ending says why.
pub(super) fn not_started(record: &BoxRecord, ending: &Ending) -> Failure {
    let text = |key: &str| ending.detail().get(key).and_then(serde_json::Value::as_str);
    let name = address(record);
    let may_have_run = ending.detail().get("may_have_run").is_some_and(|value| *value == true);
    let what = match may_have_run {
        true => format!("box {name} did not come up, and its command may have run"),
        false => format!("box {name} did not start"),
    };
    let failure = Failure::new(ErrorCode::StartFailed, what)
        .exit(Exit::Ending(ending.shell_status()))
        .detail("box", record.id.to_string())
        .detail("ending", json!(ending));
    let failure = match text("message") {
        Some(message) => Failure { causes: vec![message.to_owned()], ..failure },
        None => failure,
    };
    match ending.start_fault() {
        Some(StartFault::NotFound) => failure.hint(
            "a box sees the host's /usr, or what --rootfs names, and nothing of your home; a path in it begins with /",
        ),
        Some(StartFault::NotExecutable) => failure,
        Some(StartFault::Other) | None => {
            failure.hint(format!("`min show {name}` has the details, `min doctor` checks the host"))
        }
    }
}

/// Nobody saw the end.
pub(super) fn lost(record: &BoxRecord, ending: &Ending) -> Failure {
    Addressee::from(record).lost(ending.shell_status())
}

/// Prints what would be set up.
fn explain(context: &Context, request: &CreateBox) -> Result<Exit, Failure> {
    let spec = &request.spec;
    let program = spec.execution.exec.first().map(ByteString::as_bytes).unwrap_or_default();
    let named = spec.identity.name.clone();
    let name = named.unwrap_or_else(|| BoxName::ad_hoc(program, 1));
    let steps = minimal_keeper::plan::explain(spec, &name);
    match context.printer.format() {
        Format::Table => {
            for step in &steps {
                context.printer.line(step)?;
            }
        }
        Format::Json | Format::Jsonl => {
            context
                .printer
                .json(&json!({"schema": "min/v1/plan", "spec": spec, "steps": steps}))?;
        }
    }
    Ok(Exit::Done)
}
