//! `min box spec`

use minimal_proto::Spec;
use minimal_spec::{Expanded, Overrides, read_words, to_toml, to_yaml};
use serde_json::json;

use crate::args::{OutputArg, SpecArgs};
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::{Table, on_one_line};
use crate::project::Project;
use crate::project_file;

/// Prints the spec of an entry, or of a box if no entry is called so.
pub(super) async fn run(
    context: &Context,
    args: &SpecArgs,
    output: OutputArg,
) -> Result<Exit, Failure> {
    let project = Project::find(context.home().as_deref());
    let project = project_file::load(context, project.as_ref())?;
    if let Some(entry) = project.entry(&args.address) {
        let arguments = read_words(&entry.arguments(), &args.words)
            .map_err(|error| Failure::usage(error.to_string()))?;
        let overrides = Overrides { arguments, ..Overrides::default() };
        let expanded =
            project.expand(entry.name.as_str(), &overrides).map_err(project_file::no_spec)?;
        match args.explain {
            true => explain(context, &expanded, output)?,
            false => print(context, &expanded.spec, output)?,
        }
        return Ok(Exit::Done);
    }
    if !args.words.is_empty() {
        return Err(Failure::usage(format!(
            "`{}` is no entry, and a box takes no arguments",
            args.address
        )));
    }
    if args.explain {
        return Err(Failure::usage(format!(
            "`{}` is no entry, and where the values of a box's spec came from is not kept",
            args.address
        )));
    }
    let client = daemon::contact(context).await?;
    let record = client.get(&args.address).await?;
    print(context, &client.spec(record.id).await?, output)?;
    Ok(Exit::Done)
}

fn print(context: &Context, spec: &Spec, output: OutputArg) -> Result<(), Failure> {
    let text = match output {
        OutputArg::Table | OutputArg::Toml => to_toml(spec),
        OutputArg::Yaml => to_yaml(spec),
        OutputArg::Json | OutputArg::Jsonl => return context.printer.json(spec),
    };
    context.printer.data(text.as_bytes())
}

/// For each value who has set it, and where.
fn explain(context: &Context, expanded: &Expanded, output: OutputArg) -> Result<(), Failure> {
    let explained = expanded.explain();
    let place = |origin: &minimal_spec::Origin| {
        origin.position().map(|(file, line)| format!("{file}:{line}"))
    };
    match output {
        OutputArg::Json | OutputArg::Jsonl => {
            let values: Vec<_> = explained
                .iter()
                .map(|it| {
                    json!({
                        "path": it.path,
                        "value": it.value,
                        "layer": it.origin.layer.to_string(),
                        "file": it.origin.position().map(|(file, _)| file),
                        "line": it.origin.position().map(|(_, line)| line),
                    })
                })
                .collect();
            context.printer.json(&json!({
                "schema": "min/v1/spec-explained",
                "digest": minimal_spec::digest(&expanded.spec),
                "values": values,
            }))
        }
        OutputArg::Table | OutputArg::Toml | OutputArg::Yaml => {
            let mut table = Table::new(&["KEY", "VALUE", "LAYER", "LINE"]);
            for it in &explained {
                table.row([
                    on_one_line(&it.path),
                    on_one_line(&it.value.to_string()),
                    on_one_line(&it.origin.layer.to_string()),
                    place(&it.origin).unwrap_or_else(|| "-".to_owned()),
                ]);
            }
            context.printer.data(table.render().as_bytes())
        }
    }
}
