//! From the command line to a box.

use std::collections::btree_map::Entry;
use std::io::IsTerminal as _;
use std::time::Duration;

use minimal_proto::api::{BoxRecord, CreateBox, StartOptions};
use minimal_proto::spec::{EnvSource, Workspace};
use minimal_proto::{ErrorCode, Signal, TerminalSize};
use minimal_sdk::{CallError, Client};
use uuid::Uuid;

use super::plan::{self, What, Wish, Words};
use super::sources::Sources;
use super::{Signals, sources, terminal, workspace};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::project::Project;
use crate::{daemon, variables};

/// How long a copy may take before one who watches is told what takes so long.
const SLOW: Duration = Duration::from_secs(1);

/// A box that was made, and the signals that came while it was.
#[derive(Debug)]
pub struct Created {
    /// The client that made it.
    pub client: Client,
    /// Its record.
    pub record: BoxRecord,
    /// Signals that are to be passed on.
    pub pending: Vec<Signal>,
}

/// What of a box's streams its creator is there for.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    /// It writes input.
    pub input: bool,
    /// It reads all output.
    pub pin: bool,
    /// How large its terminal is, if it has one to show.
    pub terminal: Option<TerminalSize>,
}

/// The request that a command line asks for.
///
/// # Errors
/// A mistake of usage, or something that is refused.
pub fn request(
    context: &Context,
    words: Words<'_>,
    file: &minimal_spec::Project,
    project: Option<Project>,
    streams: Streams,
) -> Result<CreateBox, Failure> {
    let options = words.options;
    let mut values = variables::collect(&options.env_file, &options.env, &context.env)?;
    let home = context.home();
    if project.is_none() {
        context.printer.warn("the working directory is gone: the box belongs to no project");
    }
    let what = plan::what(words, file, &values, home.as_deref())?;
    let mut expanded = plan::expand(file, words.wish, &what)?;
    plan::check_lifetime(words.wish, &what, &expanded.spec)?;
    let Sources { mounts, patches, rootfs } =
        sources::find(context, project.as_ref(), &mut expanded, &values)?;
    plan::inherit(context, &expanded, &mut values)?;
    let inherit_cwd = expanded.inherit_cwd;
    let begins_here = matches!(what, What::Command(..)) || inherit_cwd;
    let mut spec = expanded.spec;
    if matches!(words.wish, Wish::Start | Wish::Session) && spec.identity.name.is_none() {
        // There is one of a name at a time.
        spec.identity.name.clone_from(&spec.identity.entry);
    }
    let wish = workspace::Wish {
        workspace: std::mem::replace(&mut spec.files.workspace, Workspace::None),
        insists: spec.files.workspace_required || options.workspace.is_some(),
        begins_here,
    };
    workspace::choose(context, &wish, project.as_ref(), home.as_deref(), &mut spec)?;
    let below = project.as_ref().and_then(Project::below_root);
    if let Some(below) = below.filter(|_| inherit_cwd && spec.execution.cwd.is_none()) {
        let below = below.display();
        context
            .printer
            .note(&format!("The command starts in /workbench: the box has no `{below}`."));
    }
    if spec.io.pty_enabled {
        // What the spec says of them holds.
        for (name, value) in terminal::variables(&context.env) {
            if let Entry::Vacant(free) = spec.execution.env.entry(name.clone()) {
                free.insert(EnvSource::Given);
                values.insert(name, value);
            }
        }
    }
    // Its path may lead elsewhere for the daemon: see `StartOptions::project`.
    let is_given = spec.files.workspace != Workspace::None;
    let project_file = project.as_ref().filter(|_| is_given).and_then(Project::file);
    spec.files.project_root = project.map(|project| project.root.into_os_string().into());
    spec.check(values.iter())
        .map_err(|error| Failure::new(ErrorCode::InvalidSpec, error.to_string()))?;
    let Streams { input, pin, terminal } = streams;
    let remove = options.rm;
    let project = project_file;
    let start = StartOptions { input, pin, remove, project, terminal, mounts, patches, rootfs };
    let digest = Some(minimal_spec::digest(&spec));
    Ok(CreateBox { spec, digest, values, start })
}

/// The help of the task that is asked about, if one is.
///
/// # Errors
/// There is no such task.
pub fn help(words: Words<'_>, file: &minimal_spec::Project) -> Result<Option<String>, Failure> {
    Ok(plan::asks_for_help(words, file)?.map(|entry| plan::help(entry, words.wish)))
}

/// Makes the box and starts it.
///
/// # Errors
/// Nothing was run, or it is not known; the message says which.
pub(crate) async fn create(
    context: &Context,
    request: &CreateBox,
    signals: &mut Signals,
) -> Result<Created, Failure> {
    let client = tokio::select! {
        client = daemon::contact(context) => client.map_err(nothing_was_run)?,
        signal = signals.next() => {
            let failure = Failure::new(ErrorCode::Interrupted, "interrupted");
            return Err(nothing_was_run(failure.exit(Exit::Interrupted(signal))));
        }
    };
    let mut pending = Vec::new();
    let key = Uuid::now_v7();
    let mut cancelling = Cancelling::Not;
    let created = {
        let creating = client.create(request, key);
        let slow = tokio::time::sleep(SLOW);
        tokio::pin!(creating, slow);
        let mut copies = request.spec.files.workspace == Workspace::Copy;
        loop {
            tokio::select! {
                created = &mut creating => break created,
                () = &mut slow, if copies => {
                    copies = false;
                    if std::io::stderr().is_terminal() {
                        context.printer.note("Copying the project into the box; Ctrl-C ends it.");
                    }
                }
                signal = signals.next() => {
                    let ends = |signal: &Signal| [Signal::INT, Signal::TERM].contains(signal);
                    if ends(&signal) && cancelling.is_not() {
                        // If the box runs by now this does nothing, and the signal is passed on.
                        let client = client.clone();
                        let answer = tokio::spawn(async move { client.cancel(key).await });
                        cancelling = Cancelling::Asked(answer);
                    } else if ends(&signal) && pending.iter().any(ends) {
                        return Err(Failure::new(
                            ErrorCode::Interrupted,
                            "interrupted while the box was being made; it may run",
                        )
                        .hint("`min ls` shows whether it does")
                        .exit(Exit::Interrupted(signal)));
                    }
                    pending.push(signal);
                }
            }
        }
    };
    match created {
        Ok(record) if record.ending.is_some() && cancelling.was_carried_out().await => {
            // Nothing of it ever ran, and who made it did not want it.
            if let Err(error) = client.remove(record.id, false).await {
                context.printer.detail(&Failure::from(error).in_one_line());
            }
            let failure = Failure::new(ErrorCode::Interrupted, "interrupted");
            let signal = pending.first().copied().unwrap_or(Signal::INT);
            Err(nothing_was_run(failure.exit(Exit::Interrupted(signal))))
        }
        Ok(record) => Ok(Created { client, record, pending }),
        Err(error @ (CallError::GaveUp { .. } | CallError::Lost { .. })) => {
            Err(Failure::from(error)
                .while_trying("it is not known whether the box was made")
                .hint("`min ls` shows whether it was")
                .exit(Exit::Unknown))
        }
        // There is a box then, and it may run.
        Err(CallError::Api(body))
            if [ErrorCode::Unresponsive, ErrorCode::ExitUnknown].contains(&body.code) =>
        {
            Err(Failure::from(*body)
                .while_trying("it is not known whether the command was run")
                .exit(Exit::Unknown))
        }
        Err(error) => Err(nothing_was_run(error.into())),
    }
}

/// What has become of the wish to give up a start.
enum Cancelling {
    Not,
    Asked(tokio::task::JoinHandle<Result<bool, CallError>>),
}

impl Cancelling {
    fn is_not(&self) -> bool {
        matches!(self, Self::Not)
    }

    /// Whether the start was given up for it.
    async fn was_carried_out(self) -> bool {
        match self {
            Self::Not => false,
            Self::Asked(answer) => matches!(answer.await, Ok(Ok(true))),
        }
    }
}

/// Says so, and takes a status that no command's own could be taken for, where there is one.
pub(crate) fn nothing_was_run(mut failure: Failure) -> Failure {
    failure.message = format!("nothing was run: {}", failure.message);
    if let Exit::Fault(code) = failure.exit
        && !(2..=8).contains(&code.exit_status())
    {
        failure.exit = Exit::Unknown;
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_before_a_box_have_statuses_of_their_own() {
        for code in ErrorCode::ALL {
            let failure = nothing_was_run(Failure::new(*code, "x"));
            assert!(matches!(failure.exit.status(), 2..=8 | 125), "{code}");
            assert_eq!(failure.message, "nothing was run: x");
        }
        let failure = Failure::new(ErrorCode::Interrupted, "x");
        let failure = nothing_was_run(failure.exit(Exit::Interrupted(Signal::INT)));
        assert_eq!(failure.exit.status(), 130);
    }
}
