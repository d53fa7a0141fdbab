//! `min type`

use serde_json::{Value, json};

use crate::args::Format;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::{Table, on_one_line};
use crate::project::Project;
use crate::project_file;
use minimal_proto::ErrorCode;
use minimal_spec::TypeInfo;

fn types(context: &Context) -> Result<Vec<TypeInfo>, Failure> {
    let project = Project::find(context.home().as_deref());
    Ok(project_file::load(context, project.as_ref())?.types())
}

fn source(info: &TypeInfo) -> String {
    let place = info.defined.as_ref().and_then(|origin| origin.position());
    place.map_or_else(|| "built-in".to_owned(), |(file, line)| format!("{file}:{line}"))
}

fn to_json(info: &TypeInfo) -> Value {
    let defaults: serde_json::Map<String, Value> =
        info.defaults().map(|(path, value)| (path, value.clone())).collect();
    let constraints: serde_json::Map<String, Value> =
        info.constraints.iter().map(|it| (it.key.clone(), json!(it.allowed))).collect();
    json!({
        "schema": "min/v1/type",
        "name": info.name,
        "extends": info.extends,
        "description": info.description,
        "source": source(info),
        "defaults": defaults,
        "constraints": constraints,
    })
}

/// Lists types.
pub(super) fn list(context: &Context) -> Result<Exit, Failure> {
    let types = types(context)?;
    match context.printer.format() {
        Format::Table => {
            let mut table = Table::new(&["TYPE", "EXTENDS", "SOURCE", "DESCRIPTION"]);
            for info in &types {
                table.row([
                    info.name.clone(),
                    info.extends.clone().unwrap_or_else(|| "-".to_owned()),
                    source(info),
                    on_one_line(&info.description),
                ]);
            }
            context.printer.data(table.render().as_bytes())?;
        }
        Format::Json => {
            let types: Vec<_> = types.iter().map(to_json).collect();
            context.printer.json(&json!({"schema": "min/v1/type-list", "types": types}))?;
        }
        Format::Jsonl => {
            for info in &types {
                context.printer.json_line(&to_json(info))?;
            }
        }
    }
    Ok(Exit::Done)
}

/// Shows a type.
pub(super) fn show(context: &Context, name: &str) -> Result<Exit, Failure> {
    let types = types(context)?;
    let Some(info) = types.iter().find(|info| info.name == name) else {
        return Err(Failure::new(ErrorCode::NotFound, format!("there is no type `{name}`"))
            .hint("`min type list` lists them"));
    };
    match context.printer.format() {
        Format::Table => {
            let mut table = Table::plain();
            let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
            row("name", info.name.clone());
            row("extends", info.extends.clone().unwrap_or_else(|| "-".to_owned()));
            row("source", source(info));
            row("description", on_one_line(&info.description));
            for (path, value) in info.defaults() {
                row("default", on_one_line(&format!("{path} = {value}")));
            }
            for constraint in &info.constraints {
                let allowed = json!(constraint.allowed);
                row("allows", on_one_line(&format!("{} = one of {allowed}", constraint.key)));
            }
            context.printer.data(table.render().as_bytes())?;
        }
        Format::Json | Format::Jsonl => context.printer.json(&to_json(info))?,
    }
    Ok(Exit::Done)
}
