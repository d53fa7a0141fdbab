//! `min shell`

use minimal_proto::api::BoxRecord;
use minimal_proto::spec::Builtin;
use minimal_proto::{ByteString, ErrorCode, State};
use minimal_sdk::Client;
use minimal_spec::Entry;

use super::attach::{self, Place};
use super::run::{explained, started_not, tell_what_is_missing};
use crate::addressee::Addressee;
use crate::args::{BoxOptions, ShellArgs};
use crate::context::Context;
use crate::daemon;
use crate::ending_file::EndingFile;
use crate::error::Failure;
use crate::exit::Exit;
use crate::project::Project;
use crate::project_file;
use crate::run::terminal::{self, Begin};
use crate::run::{self, Created, Signals, Streams, Wish, Words};

/// The session that is meant where several are and none was named.
const DEFAULT: &str = "default";

/// Shows a session of the project: the one that runs, or a new one.
pub(super) async fn run(
    context: &Context,
    args: &ShellArgs,
    ending_file: &mut EndingFile,
) -> Result<Exit, Failure> {
    if !terminal::is_at_hand() {
        let instead = "run a command with `min run`, or in a box that runs with `min exec`";
        return Err(terminal::none_at_hand("a shell", instead));
    }
    let project = Project::find(context.home().as_deref());
    let file = project_file::load(context, project.as_ref())?;
    let entry = choose(&file, args.session.as_deref())?;
    let mut signals = Signals::listen()
        .map_err(|error| Failure::new(ErrorCode::Internal, "listen for signals").because(&error))?;
    let mut terminal_signals = attach::listen(context, true)?.expect("it was asked for");
    let client = daemon::contact(context).await?;
    let root = project.as_ref().map(|project| ByteString::from(project.root.as_os_str()));
    let running = match args.new {
        true => None,
        false => running(&client, entry, root.as_ref()).await?,
    };
    let (record, begin) = match running {
        Some(record) => (record, Begin::AsItStands),
        None => {
            let argv = [entry.name.as_str().into()];
            let wish = if args.new { Wish::NewSession } else { Wish::Session };
            let options = BoxOptions::default();
            let words =
                Words { options: &options, argv: &argv, is_command: false, wish, restart: None };
            let streams = Streams { input: false, pin: false, terminal: Some(terminal::size()) };
            let request = run::request(context, words, &file, project, streams)?;
            let Created { record, .. } = run::create(context, &request, &mut signals).await?;
            if let Some(ending) = record.ending.as_ref().filter(|ending| started_not(ending)) {
                ending_file.ended(&Addressee::from(&record), ending);
                return Err(explained(context, &request, &record, ending));
            }
            tell_what_is_missing(context, &options, &record);
            (record, Begin::Fresh(0))
        }
    };
    let whose = Addressee::from(&record);
    let signals = &mut terminal_signals;
    let place = Place { begin, keyboard: true };
    let seen = attach::show(context, (&client, &whose), place, signals).await?;
    let Some(ending) = seen else { return Ok(Exit::Done) };
    ending_file.ended(&whose, &ending);
    Ok(attach::tell(context, &record, &whose, &ending, Exit::Ending(ending.shell_status())))
}

fn is_session(entry: &Entry) -> bool {
    entry.box_type.root() == Builtin::Session
}

/// The session that is meant: the named one, the only one, or the one called `default`.
fn choose<'a>(file: &'a minimal_spec::Project, named: Option<&str>) -> Result<&'a Entry, Failure> {
    let sessions: Vec<_> = file.entries().filter(|entry| is_session(entry)).collect();
    let list = || {
        let names: Vec<_> = sessions.iter().map(|entry| entry.name.as_str()).collect();
        match names.is_empty() {
            true => "this project has no sessions".to_owned(),
            false => format!("sessions of this project: {}", names.join(", ")),
        }
    };
    let wanted = match (named, sessions.as_slice()) {
        (Some(name), _) => name,
        (None, [only]) => return Ok(only),
        (None, _) => DEFAULT,
    };
    if let Some(entry) = sessions.iter().find(|entry| entry.name.as_str() == wanted) {
        return Ok(entry);
    }
    Err(match named {
        Some(name) => {
            let shown: String = name.chars().take(80).collect();
            Failure::usage(format!("there is no session `{shown}`; {}", list()))
        }
        None => Failure::usage(format!("say which session; {}", list()))
            .hint("`min shell <session>`; one called `default` is meant where none is named"),
    })
}

/// The box of a session that runs, if one does. Names are the host's: another project's may have it.
async fn running(
    client: &Client,
    entry: &Entry,
    root: Option<&ByteString>,
) -> Result<Option<BoxRecord>, Failure> {
    let name = entry.name.as_str();
    let record = match client.get(name).await {
        Ok(record) => record,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if record.state.is_none_or(State::is_ended) {
        return Ok(None);
    }
    if record.project_root.as_ref() == root && record.root_type == Some(Builtin::Session) {
        return Ok(Some(record));
    }
    let message = format!("the name `{name}` is held by a box that is no session of this project");
    let failure = Failure::new(ErrorCode::NameHeld, message)
        .detail("box", record.id.to_string())
        .hint("`min shell --new` makes a session under a name of its own");
    Err(failure)
}
