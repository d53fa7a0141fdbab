//! Commands that act on several boxes: each is handled, and the worst status returned.

use std::collections::BTreeSet;

use minimal_proto::api::BoxRecord;
use minimal_sdk::{CallError, Client};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::args::{Format, SomeBoxes};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;

/// The boxes that addresses mean, each once, and the worst status of those that mean none, which
/// are told.
pub(super) async fn resolve(
    context: &Context,
    boxes: &SomeBoxes,
) -> Result<(Client, Vec<BoxRecord>, Exit), Failure> {
    let client = daemon::contact(context).await?;
    let (mut records, mut seen, mut worst) = (Vec::new(), BTreeSet::new(), Exit::Done);
    for address in &boxes.addresses {
        match client.get(address).await {
            Ok(record) => {
                if seen.insert(record.id) {
                    records.push(record);
                }
            }
            // A daemon that cannot be asked about one cannot be asked about the others.
            Err(CallError::Api(body)) => worst = worst.or_worse(tell(context, &(*body).into())),
            Err(error) => return Err(error.into()),
        }
    }
    Ok((client, records, worst))
}

/// Tells a failure of one of several; answers its status.
pub(super) fn tell(context: &Context, failure: &Failure) -> Exit {
    context.printer.failure(failure);
    failure.exit
}

/// Asks something about each box, all at once; answers in the order of the boxes.
pub(super) async fn ask_each<T, F>(
    records: &[BoxRecord],
    ask: impl Fn(&BoxRecord) -> F,
) -> Vec<Result<T, CallError>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, CallError>> + Send + 'static,
{
    let mut asked = JoinSet::new();
    for (index, record) in records.iter().enumerate() {
        let answer = ask(record);
        asked.spawn(async move { (index, answer.await) });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Prints values in a machine mode: one as itself, several as an array; with `jsonl` one a line.
pub(super) fn print_values(context: &Context, values: &[Value]) -> Result<(), Failure> {
    let printer = &context.printer;
    match (printer.format(), values) {
        (Format::Table, _) | (_, []) => Ok(()),
        (Format::Json, [value]) => printer.json(value),
        (Format::Json, values) => printer.json(&values),
        (Format::Jsonl, values) => values.iter().try_for_each(|value| printer.json_line(value)),
    }
}
