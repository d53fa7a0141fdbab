//! `min stop`

use minimal_proto::api::StopBox;
use serde_json::json;

use super::exec::find_one;
use super::several::{ask_each, print_values, resolve, tell};
use crate::args::StopArgs;
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::ending_in_words;
use crate::run::address;

/// Ends an exec, and returns when it has. Its box runs on.
async fn stop_exec(
    context: &Context,
    boxes: &[String],
    exec: &str,
    stop: StopBox,
) -> Result<Exit, Failure> {
    let client = daemon::contact(context).await?;
    let (whose, before) = find_one(&client, boxes, exec).await?;
    let words = whose.words();
    let record = client
        .stop_exec(whose.box_id, before.id, stop)
        .await
        .map_err(|error| Failure::from(error).while_trying(format!("stop {words}")))?;
    let how = record.ending.as_ref().map(ending_in_words).unwrap_or_default();
    let had = if before.ending.is_some() { "had already ended" } else { "has ended" };
    context.printer.note(&format!("The {words} {had}: {how}"));
    print_values(context, &[json!(record)])?;
    Ok(Exit::Done)
}

/// Ends boxes, and returns when they have.
pub(super) async fn run(context: &Context, args: &StopArgs) -> Result<Exit, Failure> {
    let grace_ms = args.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    let stop = StopBox { force: args.force, grace_ms };
    if let Some(exec) = &args.exec.exec {
        return stop_exec(context, &args.some.addresses, exec, stop).await;
    }
    let (client, records, mut worst) = resolve(context, &args.some).await?;
    let answers = ask_each(&records, |record| {
        let (client, id) = (client.clone(), record.id);
        async move { client.stop(id, stop).await }
    })
    .await;
    let mut values = Vec::new();
    for (before, answer) in records.iter().zip(answers) {
        let name = address(before);
        match answer {
            Ok(record) => {
                let ending = match &record.ending {
                    Some(ending) => ending_in_words(ending),
                    None => "its directory cannot be read, so how is not known".to_owned(),
                };
                let had = if before.ending.is_some() { "had already ended" } else { "has ended" };
                context.printer.note(&format!("Box {name} {had}: {ending}"));
                values.push(json!(record));
            }
            Err(error) => {
                let failure = Failure::from(error).while_trying(format!("stop box {name}"));
                worst = worst.or_worse(tell(context, &failure));
            }
        }
    }
    print_values(context, &values)?;
    Ok(worst)
}
