//! `min init`

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use minimal_proto::spec::Builtin;
use minimal_proto::{BoxName, ErrorCode};
use serde_json::json;

use crate::args::{Format, InitArgs};
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;
use crate::init;
use crate::project::Project;
use crate::project_file::{self, shown};

/// The name of a file that is new.
const FILE: &str = "minimal.toml";

/// Writes a file for the project, or adds an entry to the one there is.
pub(super) fn run(context: &Context, args: &InitArgs) -> Result<Exit, Failure> {
    let home = context.home();
    let Some(project) = Project::find(home.as_deref()) else {
        return Err(Failure::usage("there is no project: the working directory is gone"));
    };
    project.check_given(home.as_deref(), &context.paths()?.state_dir)?;
    let found = project_file::find(&project.directory, home.as_deref()).map(|(_, file)| file);
    match (&args.entry, found) {
        (None, Some(file)) => Err(exists(&file)),
        (None, None) => {
            let plan = init::look(&project.root, home.as_deref(), &context.env);
            let text = init::file(&plan);
            let path = project.root.join(FILE);
            let names = check(&text, None)?;
            create(&path, &text)?;
            for reason in &plan.because {
                context.printer.detail(&format!("found {reason}"));
            }
            tell(context, &path, &names)
        }
        (Some(name), None) => {
            let text = init::file(&init::Plan::only(entry(
                &minimal_spec::Project::without_file(),
                name,
                args,
            )?));
            let path = project.root.join(FILE);
            check(&text, Some(name))?;
            create(&path, &text)?;
            tell(context, &path, &[name.to_string()])
        }
        (Some(name), Some(file)) => {
            append(&file, name, args)?;
            tell(context, &file, &[name.to_string()])
        }
    }
}

/// The text of an entry, of a type that the project has.
fn entry(
    project: &minimal_spec::Project,
    name: &BoxName,
    args: &InitArgs,
) -> Result<String, Failure> {
    let word = args.box_type.as_deref().unwrap_or(Builtin::Task.as_str());
    let types = project.types();
    let Some(root) = project.root_of(word) else {
        let known: Vec<_> = types.iter().map(|info| info.name.as_str()).collect();
        return Err(Failure::usage(format!("there is no type `{word}`"))
            .hint(format!("types: {}", known.join(", "))));
    };
    Ok(init::entry(name, word, root))
}

/// Adds an entry at the end of a file; all that is in it stays as it is.
fn append(path: &Path, name: &BoxName, args: &InitArgs) -> Result<(), Failure> {
    let place = shown(path);
    let text = project_file::read(path)
        .map_err(|why| Failure::new(ErrorCode::InvalidConfig, format!("read `{place}`: {why}")))?;
    let project = minimal_spec::Project::parse(&place, &text)
        .map_err(|problems| project_file::failure(&problems))?;
    if let Some(taken) = project.entry(name.as_str())
        && let Some((_, line)) = taken.defined.position()
    {
        let message = format!("there is an entry `{name}` already: {place}:{line}");
        return Err(Failure::usage(message).hint("give the new one another name"));
    }
    let separator = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let text = format!("{text}{separator}{}", entry(&project, name, args)?);
    init::check(&place, &text, Some(name)).map_err(project_file::no_spec)?;
    replace(path, &text).map_err(|error| cannot(path, &error))
}

/// The entries of a text that is to be written. That they are right is for us to see to.
fn check(text: &str, only: Option<&BoxName>) -> Result<Vec<String>, Failure> {
    let project = init::check(FILE, text, only).map_err(|error| {
        Failure::new(ErrorCode::Internal, "write a file that is right").because(&error)
    })?;
    Ok(project.entries().map(|entry| entry.name.to_string()).collect())
}

/// Never over a file, whatever has come there since somebody looked.
fn create(path: &Path, text: &str) -> Result<(), Failure> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path);
    match file.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
        Err(error) => Err(cannot(path, &error)),
    }
}

/// The whole new text or the whole old one, whenever somebody looks.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A link stays one.
    let path = path.canonicalize()?;
    let mode = path.metadata()?.permissions().mode();
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let written = File::options().write(true).create_new(true).mode(mode & 0o777).open(&beside);
    let written = written.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &path)
    });
    if written.is_err() {
        std::fs::remove_file(&beside).ok();
    }
    written
}

fn exists(path: &Path) -> Failure {
    let message = format!("`{}` is there already, and is left as it is", shown(path));
    Failure::usage(message).hint("`min init server --type service`, say, adds an entry to it")
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::new(ErrorCode::OutputFailed, format!("write `{}`", shown(path))).because(error)
}

fn tell(context: &Context, path: &Path, names: &[String]) -> Result<Exit, Failure> {
    match context.printer.format() {
        Format::Table => {
            let names = names.join(", ");
            context.printer.note(&format!("`{}` has {names} now.", shown(path)));
        }
        Format::Json | Format::Jsonl => context.printer.json_line(&json!({
            "schema": "min/v1/init",
            "file": shown(path),
            "entries": names,
        }))?,
    }
    Ok(Exit::Done)
}
