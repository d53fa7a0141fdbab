//! `min pause` and `min unpause`

use super::several::{ask_each, resolve, tell};
use crate::args::SomeBoxes;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::address;

/// Has each box stand still, or go on.
pub(super) async fn run(
    context: &Context,
    boxes: &SomeBoxes,
    still: bool,
) -> Result<Exit, Failure> {
    let (client, records, mut worst) = resolve(context, boxes).await?;
    let answers = ask_each(&records, |record| {
        let (client, id) = (client.clone(), record.id);
        async move { if still { client.pause(id).await } else { client.unpause(id).await } }
    })
    .await;
    let (verb, done) = if still { ("pause", "stands still") } else { ("unpause", "goes on") };
    for (record, answer) in records.iter().zip(answers) {
        let name = address(record);
        match answer {
            Ok(_) => context.printer.detail(&format!("Box {name} {done}.")),
            Err(error) => {
                let attempt = format!("{verb} box {name}");
                worst = worst.or_worse(tell(context, &Failure::from(error).while_trying(attempt)));
            }
        }
    }
    Ok(worst)
}
