//! `min kill`

use super::exec::find_one;
use super::several::{ask_each, resolve, tell};
use crate::args::KillArgs;
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::run::address;

/// Sends one signal to the command of each box, or to that of an exec.
pub(super) async fn run(context: &Context, args: &KillArgs) -> Result<Exit, Failure> {
    let signal = args.signal;
    if let Some(exec) = &args.exec.exec {
        let client = daemon::contact(context).await?;
        let (whose, record) = find_one(&client, &args.some.addresses, exec).await?;
        let words = whose.words();
        client.signal_exec(whose.box_id, record.id, signal).await.map_err(|error| {
            Failure::from(error).while_trying(format!("send {signal} to {words}"))
        })?;
        context.printer.detail(&format!("Sent {signal} to {words}."));
        return Ok(Exit::Done);
    }
    let (client, records, mut worst) = resolve(context, &args.some).await?;
    let answers = ask_each(&records, |record| {
        let (client, id) = (client.clone(), record.id);
        async move { client.signal(id, signal).await }
    })
    .await;
    for (record, answer) in records.iter().zip(answers) {
        let name = address(record);
        match answer {
            Ok(()) => context.printer.detail(&format!("Sent {signal} to box {name}.")),
            Err(error) => {
                let attempt = format!("send {signal} to box {name}");
                worst = worst.or_worse(tell(context, &Failure::from(error).while_trying(attempt)));
            }
        }
    }
    Ok(worst)
}
