//! `min runner install`

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use minimal_proto::ErrorCode;
use minimal_runner::dial::TokenFile;

use super::connect::token_failed;
use super::unit::{self, MARK, Manager, Unit};
use crate::args::RunnerInstallArgs;
use crate::context::Context;
use crate::error::Failure;
use crate::exit::Exit;

/// The variables that decide where the daemon is found, if they are set.
const VARIABLES: [&str; 2] = ["MINIMAL_STATE_DIR", "MINIMAL_SOCKET"];

/// Writes the unit of a runner, or prints it. Starts nothing.
pub(in super::super) fn run(context: &Context, args: &RunnerInstallArgs) -> Result<Exit, Failure> {
    let manager = match (args.system, args.user) {
        (true, _) => Manager::System,
        (_, true) => Manager::User,
        _ if rustix::process::geteuid().is_root() => Manager::System,
        _ => Manager::User,
    };
    let here = |path: &Path| {
        std::path::absolute(path).map_err(|error| {
            Failure::usage(format!("find `{}` from here", path.display())).because(&error)
        })
    };
    let token_file = here(&args.runner.token_file)?;
    TokenFile::new(&token_file).read().map_err(|error| token_failed(&error))?;
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(ErrorCode::Internal, "find this program's file").because(&error)
    })?;
    let mut variables = Vec::new();
    for variable in VARIABLES {
        if let Some(path) = context.env.path(variable) {
            variables.push((variable, here(&path)?));
        }
    }
    let name = &args.runner.name;
    let unit = Unit {
        manager,
        program: &program,
        hub: &args.runner.hub,
        name,
        token_file: &token_file,
        variables: &variables,
    };
    let text = unit.text().ok_or_else(|| {
        Failure::usage("a path that the unit must name is not UTF-8, or holds a control character")
    })?;
    if args.print {
        context.printer.data(text.as_bytes())?;
        return Ok(Exit::Done);
    }
    let directory = manager.directory(context).ok_or_else(|| {
        Failure::new(ErrorCode::InvalidConfig, "there is no home for a unit: HOME is not set")
    })?;
    let path = directory.join(unit::name(name));
    write(&directory, &path, &text)?;
    context.printer.note(&format!("Wrote {}. Now:", path.display()));
    let (systemctl, unit) = (manager.systemctl(), unit::name(name));
    context
        .printer
        .note(&format!("  {systemctl} daemon-reload && {systemctl} enable --now {unit}"));
    if manager == Manager::User {
        context.printer.note("  loginctl enable-linger    # or it ends when you log out");
    }
    Ok(Exit::Done)
}

/// Writes a unit, unless something is there that was not written here.
fn write(directory: &Path, path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: &io::Error| {
        let failure = Failure::new(ErrorCode::Internal, format!("write `{}`", path.display()));
        let failure = failure.because(error);
        match error.kind() {
            io::ErrorKind::PermissionDenied => failure.hint("`--user` makes a service of your own"),
            _ => failure,
        }
    };
    if !is_ours_or_absent(path).map_err(|error| failed(&error))? {
        let message = format!("`{}` was not written by `min runner install`", path.display());
        return Err(Failure::new(ErrorCode::Refused, message)
            .hint("`--print` prints the unit; another runner name makes another file"));
    }
    let made = DirBuilder::new().recursive(true).mode(0o755).create(directory);
    made.map_err(|error| failed(&error))?;
    let beside: PathBuf = path.with_extension("service.new");
    let written = (|| {
        // Left by one that was killed. Nothing else has that name.
        drop(fs::remove_file(&beside));
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).mode(0o644).open(&beside)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, path)
    })();
    written.map_err(|error| failed(&error))
}

/// Whether a unit may be written there. A link is somebody's decision, such as to mask the unit.
fn is_ours_or_absent(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_file() => Ok(false),
        Ok(_) => {
            let mut beginning = Vec::new();
            File::open(path)?.take(MARK.len() as u64).read_to_end(&mut beginning)?;
            Ok(beginning == MARK.as_bytes())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Where the unit of a runner is, if one was written here.
pub(super) fn installed(context: &Context, runner: &str) -> Option<PathBuf> {
    let name = unit::name(&runner.parse().ok()?);
    [Manager::User, Manager::System].into_iter().find_map(|manager| {
        let path = manager.directory(context)?.join(&name);
        (path.is_file() && is_ours_or_absent(&path).ok()?).then_some(path)
    })
}
