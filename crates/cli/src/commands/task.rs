//! `min task`

use serde_json::{Value, json};

use crate::args::Format;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::{Table, on_one_line};
use crate::project::Project;
use crate::project_file;
use crate::run::{Wish, is_task, usage};
use minimal_spec::{Argument, Entry};

fn tasks(project: &minimal_spec::Project) -> impl Iterator<Item = &Entry> {
    project.entries().filter(|entry| is_task(&entry.box_type))
}

fn load(context: &Context) -> Result<minimal_spec::Project, Failure> {
    let project = Project::find(context.home().as_deref());
    project_file::load(context, project.as_ref())
}

/// Lists the tasks that the project declares.
pub(super) fn list(context: &Context) -> Result<Exit, Failure> {
    let project = load(context)?;
    match context.printer.format() {
        Format::Table => {
            let mut table = Table::new(&["TASK", "DESCRIPTION", "USAGE"]);
            for entry in tasks(&project) {
                table.row([
                    entry.name.to_string(),
                    on_one_line(&entry.description().unwrap_or_else(|| "-".to_owned())),
                    usage(entry, Wish::Run),
                ]);
            }
            context.printer.data(table.render().as_bytes())?;
        }
        Format::Json => {
            let tasks: Vec<_> = tasks(&project).map(to_json).collect();
            context.printer.json(&json!({"schema": "min/v1/task-list", "tasks": tasks}))?;
        }
        Format::Jsonl => {
            for entry in tasks(&project) {
                context.printer.json_line(&to_json(entry))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn to_json(entry: &Entry) -> Value {
    let arguments: serde_json::Map<String, Value> =
        entry.arguments().iter().map(|(name, it)| (name.clone(), argument(it))).collect();
    let place = entry.defined.position();
    json!({
        "schema": "min/v1/task",
        "name": entry.name,
        "type": entry.box_type.as_str(),
        "description": entry.description(),
        "arguments": arguments,
        "file": place.map(|(file, _)| file),
        "line": place.map(|(_, line)| line),
    })
}

fn argument(argument: &Argument) -> Value {
    json!({
        "type": argument.argument_type.to_string(),
        "default": argument.default,
        "help": argument.help,
    })
}

/// Names of tasks, or of one's arguments, one a line. Nothing if the file cannot be read: nobody is
/// there to read an error.
pub(super) fn names(context: &Context, task: Option<&str>) -> Result<Exit, Failure> {
    let Ok(project) = load(context) else { return Ok(Exit::Done) };
    let names: String = match task {
        None => tasks(&project).map(|entry| format!("{}\n", entry.name)).collect(),
        Some(task) => {
            let entry = tasks(&project).find(|entry| entry.name.as_str() == task);
            let arguments = entry.map(Entry::arguments).unwrap_or_default();
            arguments.keys().map(|name| format!("--{name}\n")).collect()
        }
    };
    context.printer.data(names.as_bytes())?;
    Ok(Exit::Done)
}
