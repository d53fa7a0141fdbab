//! `min ls`

use std::borrow::Cow;
use std::path::PathBuf;

use minimal_proto::api::{BoxList, BoxRecord, BriefRecord};
use minimal_proto::{BoxId, BoxName, ByteString, Health, State, Timestamp};
use minimal_sdk::{CallError, Client, ListQuery};

use crate::args::{Format, ListArgs};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::{Table, age, ending_in_words};
use crate::project::Project;

/// How many ended boxes are listed without `--all`: a screen's worth.
const ENDED: usize = 20;
/// The longest page there is.
const PAGE: u32 = 10_000;

/// Something that has a place in a list of boxes, and how a page of it is asked for.
trait Listing: Sized {
    /// The box.
    fn id(&self) -> BoxId;

    /// One page, and where the next one begins.
    async fn page(
        client: &Client,
        query: &ListQuery,
    ) -> Result<(Vec<Self>, Option<BoxId>), CallError>;
}

impl Listing for BriefRecord {
    fn id(&self) -> BoxId {
        self.id
    }

    async fn page(
        client: &Client,
        query: &ListQuery,
    ) -> Result<(Vec<Self>, Option<BoxId>), CallError> {
        client.brief_list(query).await.map(|list| (list.boxes, list.next))
    }
}

impl Listing for BoxRecord {
    fn id(&self) -> BoxId {
        self.id
    }

    async fn page(
        client: &Client,
        query: &ListQuery,
    ) -> Result<(Vec<Self>, Option<BoxId>), CallError> {
        client.list(query).await.map(|list| (list.boxes, list.next))
    }
}

/// Lists boxes.
pub(super) async fn run(context: &Context, args: &ListArgs) -> Result<Exit, Failure> {
    let project = match args.all {
        true => None,
        false => Project::find(context.home().as_deref()).map(|project| project.root),
    };
    if !args.all && project.is_none() {
        context.printer.warn("the working directory is gone: listing every project's boxes");
    }
    let client = daemon::contact(context).await?;
    match context.printer.format() {
        Format::Table => {
            let boxes = matching(&client, args, project).await?;
            context.printer.data(table(&boxes, Timestamp::now()).as_bytes())?;
        }
        Format::Json => {
            let boxes = matching(&client, args, project).await?;
            let list = BoxList { schema: "min/v1/box-list".to_owned(), boxes, next: None };
            context.printer.json(&list)?;
        }
        Format::Jsonl => {
            for record in matching::<BoxRecord>(&client, args, project).await? {
                context.printer.json_line(&record)?;
            }
        }
    }
    Ok(Exit::Done)
}

async fn matching<R: Listing>(
    client: &Client,
    args: &ListArgs,
    project: Option<PathBuf>,
) -> Result<Vec<R>, Failure> {
    let project = project.map(|path| ByteString::from(path.into_os_string()));
    let query = |states: Vec<State>| ListQuery {
        states,
        broken: false,
        project: project.clone(),
        limit: None,
        after: None,
    };
    let ended = (!args.all).then_some(ENDED);
    let Some(state) = args.state else {
        if args.all {
            // Without a state, so that broken ones, which have none, are among them.
            return pages(client, query(Vec::new()), None).await;
        }
        let (over, live) = State::ALL.into_iter().partition(|state| state.is_ended());
        // Those that cannot be read are in need of somebody, whatever their project is.
        let live = ListQuery { broken: true, ..query(live) };
        let mut boxes: Vec<R> = pages(client, live, None).await?;
        boxes.extend(pages(client, query(over), ended).await?);
        // An id begins with the time it was minted.
        boxes.sort_by_key(|record| std::cmp::Reverse(record.id()));
        return Ok(boxes);
    };
    pages(client, query(vec![state]), ended.filter(|_| state.is_ended())).await
}

/// Pages until there are `most`, or all.
async fn pages<R: Listing>(
    client: &Client,
    mut query: ListQuery,
    most: Option<usize>,
) -> Result<Vec<R>, Failure> {
    let mut boxes = Vec::new();
    query.limit = Some(most.map_or(PAGE, |most| u32::try_from(most).unwrap_or(PAGE)));
    loop {
        let (page, next) = R::page(client, &query).await?;
        boxes.extend(page);
        if most.is_some_and(|most| boxes.len() >= most) {
            boxes.truncate(most.unwrap_or(boxes.len()));
            return Ok(boxes);
        }
        query.after = advance(query.after, next);
        if query.after.is_none() {
            return Ok(boxes);
        }
    }
}

/// Where the next page begins. One that does not get further is the last, whatever it says.
fn advance(before: Option<BoxId>, next: Option<BoxId>) -> Option<BoxId> {
    next.filter(|next| Some(*next) != before)
}

fn table(boxes: &[BriefRecord], now: Timestamp) -> String {
    let mut table = Table::new(&["ID", "NAME", "TYPE", "STATE", "ENDING", "AGE", "HOST"]);
    for record in boxes {
        let state = record.state.map_or("-", State::as_str);
        table.row::<Cow<'_, str>>([
            record.id.short().into(),
            record.name.as_ref().map_or("-", BoxName::as_str).into(),
            record.box_type.as_ref().map_or("-", BoxName::as_str).into(),
            match record.health {
                Health::Ok => state.into(),
                health => format!("{state} ({health})").into(),
            },
            record.ending.as_ref().map_or("-".into(), |ending| ending_in_words(ending).into()),
            record.created_at.map_or("-".into(), |created| age(now.since(created)).into()),
            record.host.as_str().into(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_box() {
        let record = |id: &str, state: Option<&str>, health: &str| -> BriefRecord {
            serde_json::from_value(serde_json::json!({
                "schema": "min/v1/box", "id": id, "name": state.map(|_| "web"), "type": state.map(|_| "task"),
                "state": state, "health": health, "health_reason": null, "ending": null, "parent": null,
                "project_root": null, "provider": "local0", "host": "here",
                "created_at": state.map(|_| "2026-01-02T03:04:05.000000Z"), "started_at": null,
                "ended_at": null, "lives": 1, "identity": "none", "program": null,
                "enforcement": null, "execs": [], "log": {"bytes": 0, "dropped_bytes": 0},
                "disk_bytes": null,
            }))
            .unwrap()
        };
        let boxes = [
            record("01909a30-0000-7000-8000-0000deadbeef", Some("running"), "unresponsive"),
            record("01909a30-0000-7000-8000-000000000001", None, "broken"),
        ];
        let now = "2026-01-02T03:09:05Z".parse().unwrap();
        insta::assert_snapshot!(table(&boxes, now), @r"
        ID        NAME  TYPE  STATE                   ENDING  AGE  HOST
        deadbeef  web   task  running (unresponsive)  -       5m   here
        00000001  -     -     - (broken)              -       -    here
        ");
    }
}
