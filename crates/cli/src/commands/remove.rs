//! `min rm`

use minimal_proto::ErrorCode;

use super::several::{ask_each, resolve, tell};
use crate::args::RemoveArgs;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::address;

/// Removes boxes: their records, logs and files.
pub(super) async fn run(context: &Context, args: &RemoveArgs) -> Result<Exit, Failure> {
    let (client, records, mut worst) = resolve(context, &args.some).await?;
    let force = args.force;
    let answers = ask_each(&records, |record| {
        let (client, id) = (client.clone(), record.id);
        async move { client.remove(id, force).await }
    })
    .await;
    for (record, answer) in records.iter().zip(answers) {
        let name = address(record);
        match answer {
            Ok(()) => context.printer.note(&format!("Removed box {name}.")),
            Err(error) => {
                let mut failure = Failure::from(error);
                if failure.code == ErrorCode::NeedsForce {
                    failure.hint = Some(format!("`min rm --force {name}` kills it first"));
                }
                let failure = failure.while_trying(format!("remove box {name}"));
                worst = worst.or_worse(tell(context, &failure));
            }
        }
    }
    Ok(worst)
}
