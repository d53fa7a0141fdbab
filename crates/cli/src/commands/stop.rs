//! `min stop`

use minimal_proto::api::StopBox;
use serde_json::json;

use super::several::{ask_each, print_values, resolve, tell};
use crate::args::StopArgs;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::ending_in_words;
use crate::run::address;

/// Ends boxes, and returns when they have.
pub(super) async fn run(context: &Context, args: &StopArgs) -> Result<Exit, Failure> {
    let (client, records, mut worst) = resolve(context, &args.some).await?;
    let grace_ms = args.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    let stop = StopBox { force: args.force, grace_ms };
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
