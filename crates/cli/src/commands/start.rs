//! `min box start`

use minimal_proto::ErrorCode;

use super::run::{explained, print_id, started_not, tell_what_is_missing};
use crate::args::StartArgs;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::project::Project;
use crate::project_file;
use crate::run::{self, Signals, Streams};

/// Starts a box that runs until it is stopped.
pub(super) async fn run(context: &Context, args: &StartArgs) -> Result<Exit, Failure> {
    let project = Project::find(context.home().as_deref());
    let file = project_file::load(context, project.as_ref()).map_err(run::nothing_was_run)?;
    if let Some(help) = run::help(args.into(), &file).map_err(run::nothing_was_run)? {
        context.printer.data(help.as_bytes())?;
        return Ok(Exit::Done);
    }
    // Nobody waits at its streams.
    let streams = Streams { input: false, pin: false };
    let request = run::request(context, args.into(), &file, project, streams)
        .map_err(run::nothing_was_run)?;
    let mut signals = Signals::listen().map_err(|error| {
        run::nothing_was_run(
            Failure::new(ErrorCode::Internal, "listen for signals").because(&error),
        )
    })?;
    let created = run::create(context, &request, &mut signals).await?;
    let record = created.record;
    if let Some(ending) = record.ending.as_ref().filter(|ending| started_not(ending)) {
        return Err(explained(context, &request, &record, ending));
    }
    tell_what_is_missing(context, &args.options, &record);
    print_id(context, &record)
}
