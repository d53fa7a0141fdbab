//! `min attach`

use minimal_proto::api::BoxRecord;
use minimal_proto::{Ending, ErrorCode, Reason};
use minimal_sdk::{AttachHandle, AttachOptions, AttachStream, CallError, Client, StreamError};

use super::exec;
use super::run::{lost, not_started};
use crate::addressee::Addressee;
use crate::args::AttachArgs;
use crate::context::Context;
use crate::daemon;
use crate::ending_file::EndingFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::terminal::{self, Begin, Screen, TerminalSignals, Watched};
use crate::run::{self, Attended, Joined, Role, Signals};
use crate::settings::Settings;

/// Joins the streams of a box or of an exec, and stays until it has ended or a signal comes.
pub(super) async fn run(
    context: &Context,
    args: &AttachArgs,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()
        .map_err(|error| Failure::new(ErrorCode::Internal, "listen for signals").because(&error))?;
    let mut terminal_signals = listen(context, terminal::is_at_hand())?;
    let client = daemon::contact(context).await?;
    let of = client.get(&args.one.address).await?;
    let (whose, has_ended) = match &args.exec.exec {
        None => (Addressee::from(&of), of.ending.is_some()),
        Some(exec) => {
            let exec = client.exec(of.id, exec).await?;
            (Addressee::exec(&of, &exec), exec.ending.is_some())
        }
    };
    if is_terminal(&client, &whose).await? {
        match &mut terminal_signals {
            Some(signals) => {
                let begin = args.from.map_or(Begin::AsItStands, Begin::Fresh);
                let place = Place { begin, keyboard: !args.watch };
                let seen = show(context, (&client, &whose), place, signals).await?;
                let Some(ending) = seen else { return Ok(Exit::Done) };
                ending_file.ended(&whose, &ending);
                let exit = Exit::Ending(ending.shell_status());
                return Ok(tell(context, &of, &whose, &ending, exit));
            }
            None if args.watch || has_ended => {}
            None => {
                let logs = whose.command("logs");
                let instead = format!("watch it with --watch, or read on with `{logs} --follow`");
                return Err(terminal::none_at_hand("attaching to a terminal", &instead));
            }
        }
    }
    let from = args.from.unwrap_or(0);
    let input = !args.watch && run::is_worth_reading();
    let options = AttachOptions { from, input, ..AttachOptions::default() };
    let (stream, handle) = join(&client, &whose, options).await?;
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
    Ok(tell(context, &of, &whose, &ending, exit))
}

/// Says what an exit status does not, and returns it.
pub(super) fn tell(
    context: &Context,
    of: &BoxRecord,
    whose: &Addressee,
    ending: &Ending,
    exit: Exit,
) -> Exit {
    match (whose.exec, ending.reason()) {
        (Some(_), _) => exec::tell(context, whose, ending),
        (None, Reason::Lost) => context.printer.failure(&lost(of, ending)),
        (None, Reason::StartFailed) => context.printer.failure(&not_started(of, ending)),
        (None, _) => {}
    }
    exit
}

/// Listens for what a client that shows a terminal heeds, from its first moment on.
///
/// # Errors
/// What sigaction(2) says; the user's settings are wrong.
pub(super) fn listen(context: &Context, shows: bool) -> Result<Option<TerminalSignals>, Failure> {
    if !shows {
        return Ok(None);
    }
    let leader = Settings::load(context)?.session_keys.leader;
    let signals = TerminalSignals::listen(leader);
    signals
        .map(Some)
        .map_err(|error| Failure::new(ErrorCode::Internal, "listen for signals").because(&error))
}

/// Whether what is to be joined has a terminal. Joined without input for that: whoever has its keyboard
/// keeps it.
async fn is_terminal(client: &Client, whose: &Addressee) -> Result<bool, CallError> {
    let (stream, _) = client.attach(whose.subject(), AttachOptions::default()).await?;
    Ok(stream.is_terminal())
}

/// How a terminal is come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) begin: Begin,
    /// Whether its keyboard is taken.
    pub(super) keyboard: bool,
}

impl Place {
    /// That of something that has just begun, and is the caller's.
    pub(super) const FRESH: Self = Self { begin: Begin::Fresh(0), keyboard: true };
}

/// Shows a terminal in the caller's: how it ended, unless the person has left it.
///
/// # Errors
/// The ending is not known, or the caller's terminal is gone.
pub(super) async fn show(
    context: &Context,
    (client, whose): (&Client, &Addressee),
    Place { begin, keyboard }: Place,
    signals: &mut TerminalSignals,
) -> Result<Option<Ending>, Failure> {
    let (from, screen) = match begin {
        Begin::Fresh(from) => (from, None),
        Begin::AsItStands => (0, Some(terminal::size())),
    };
    let options = AttachOptions { from, screen, input: keyboard, ..AttachOptions::default() };
    let (stream, handle) = client
        .attach(whose.subject(), options)
        .await
        .map_err(|error| run::unknown(whose, StreamError::Lost(error)))?;
    let screen = Screen { whose: whose.clone(), stream, handle, begin, keyboard };
    match terminal::watch(context, screen, signals).await? {
        Watched::Ended(ending) => Ok(Some(ending)),
        Watched::Detached => {
            let (words, attach) = (whose.words(), whose.command("attach"));
            context.printer.note(&format!("Detached from {words}. Come back with `{attach}`."));
            Ok(None)
        }
    }
}

/// Joins the streams. Whoever has something to write is not let in as one who only watches: what it
/// writes would be lost, and look as if it had been read.
async fn join(
    client: &Client,
    whose: &Addressee,
    options: AttachOptions,
) -> Result<(AttachStream, AttachHandle), Failure> {
    client.attach(whose.subject(), options).await.map_err(|error| match error.code() {
        ErrorCode::InputHeld => {
            let watch = whose.command("attach --watch");
            Failure::from(error).hint(format!("watch it with `{watch}`"))
        }
        _ => error.into(),
    })
}
