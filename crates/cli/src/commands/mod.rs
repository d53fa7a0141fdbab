//! The commands, one module each.

mod attach;
mod box_names;
mod completions;
pub mod doctor;
mod events;
mod exec;
mod execs;
mod host;
mod init;
mod kill;
mod list;
mod logs;
mod pause;
mod remove;
mod resume;
mod run;
mod runner;
mod several;
mod shell;
mod show;
mod spec;
mod start;
mod stop;
mod task;
mod types;
mod version;
mod wait;

pub(crate) use doctor::with_cause as with_kernels_cause;

use crate::args::{
    BoxVerb, Command, EndingArgs, HostVerb, OutputArg, RunnerVerb, TaskVerb, TypeVerb,
};
use crate::context::Context;
use crate::ending_file::EndingFile;
use crate::error::Failure;
use crate::exit::Exit;

/// Where a command writes the ending, if it has one.
#[must_use]
pub fn ending_args(command: &Command) -> Option<&EndingArgs> {
    match command {
        Command::Run(args)
        | Command::Box { verb: BoxVerb::Run(args) }
        | Command::Task { verb: TaskVerb::Run(args) } => Some(&args.ending),
        Command::Wait(args)
        | Command::Box { verb: BoxVerb::Wait(args) }
        | Command::Task { verb: TaskVerb::Wait(args) } => Some(&args.ending),
        Command::Exec(args) | Command::Box { verb: BoxVerb::Exec(args) } => Some(&args.ending),
        Command::Attach(args) | Command::Box { verb: BoxVerb::Attach(args) } => Some(&args.ending),
        Command::Shell(args) => Some(&args.ending),
        Command::Box { verb: BoxVerb::Resume(args) } => Some(&args.ending),
        _ => None,
    }
}

/// Whether a command runs another: its faults say that nothing was run.
#[must_use]
pub fn is_run(command: &Command) -> bool {
    matches!(
        command,
        Command::Run(_)
            | Command::Exec(_)
            | Command::Box {
                verb: BoxVerb::Run(_) | BoxVerb::Exec(_) | BoxVerb::Start(_) | BoxVerb::Resume(_)
            }
            | Command::Task { verb: TaskVerb::Run(_) }
    )
}

/// Carries a command out.
///
/// # Errors
/// It was not done.
pub async fn dispatch(
    context: &Context,
    command: Command,
    output: OutputArg,
    ending: &mut EndingFile,
) -> Result<Exit, Failure> {
    if let OutputArg::Toml | OutputArg::Yaml = output
        && !matches!(command, Command::Box { verb: BoxVerb::Spec(_) })
    {
        return Err(Failure::usage("-o toml and -o yaml are of `min box spec` alone"));
    }
    let command = match command {
        Command::Box { verb: BoxVerb::Spec(args) } => {
            return spec::run(context, &args, output).await;
        }
        Command::Task { verb } => match verb {
            TaskVerb::Run(args) => Command::Run(args),
            TaskVerb::List => return task::list(context),
            TaskVerb::Logs(args) => Command::Logs(args),
            TaskVerb::Wait(args) => Command::Wait(args),
            TaskVerb::Stop(args) => Command::Stop(args),
            TaskVerb::Rm(args) => Command::Rm(args),
        },
        Command::Box { verb } => match verb {
            BoxVerb::Run(args) => Command::Run(args),
            BoxVerb::Start(args) => return start::run(context, &args).await,
            BoxVerb::Exec(args) => Command::Exec(args),
            BoxVerb::Attach(args) => Command::Attach(args),
            BoxVerb::Execs(args) => return execs::run(context, &args).await,
            BoxVerb::List(args) => Command::Ls(args),
            BoxVerb::Show(args) => Command::Show(args),
            BoxVerb::Logs(args) => Command::Logs(args),
            BoxVerb::Wait(args) => Command::Wait(args),
            BoxVerb::Events(args) => Command::Events(args),
            BoxVerb::Stop(args) => Command::Stop(args),
            BoxVerb::Kill(args) => Command::Kill(args),
            BoxVerb::Pause(boxes) => Command::Pause(boxes),
            BoxVerb::Unpause(boxes) => Command::Unpause(boxes),
            BoxVerb::Resume(args) => return resume::run(context, &args, ending).await,
            BoxVerb::Rm(args) => Command::Rm(args),
            BoxVerb::Spec(_) => unreachable!("carried out above"),
        },
        other => other,
    };
    match command {
        Command::Run(args) => run::run(context, &args, ending).await,
        Command::Exec(args) => exec::run(context, &args, ending).await,
        Command::Shell(args) => shell::run(context, &args, ending).await,
        Command::Attach(args) => attach::run(context, &args, ending).await,
        Command::Ls(args) => list::run(context, &args).await,
        Command::Show(args) => show::run(context, &args).await,
        Command::Logs(args) => logs::run(context, &args).await,
        Command::Wait(args) => wait::run(context, &args, ending).await,
        Command::Events(args) => events::run(context, &args).await,
        Command::Stop(args) => stop::run(context, &args).await,
        Command::Kill(args) => kill::run(context, &args).await,
        Command::Pause(boxes) => pause::run(context, &boxes, true).await,
        Command::Unpause(boxes) => pause::run(context, &boxes, false).await,
        Command::Rm(args) => remove::run(context, &args).await,
        Command::Host { verb: HostVerb::Show } => host::show(context).await,
        Command::Host { verb: HostVerb::Stop(args) } => host::stop(context, &args).await,
        Command::Runner { verb: RunnerVerb::Connect(args) } => {
            runner::connect(context, &args).await
        }
        Command::Runner { verb: RunnerVerb::Install(args) } => runner::install(context, &args),
        Command::Runner { verb: RunnerVerb::Status(args) } => runner::status(context, &args),
        Command::Init(args) => init::run(context, &args),
        Command::Doctor => doctor::run(context).await,
        Command::Version => version::run(context).await,
        Command::BoxNames => box_names::run(context).await,
        Command::TaskNames { task } => task::names(context, task.as_deref()),
        Command::Type { verb: TypeVerb::List } => types::list(context),
        Command::Type { verb: TypeVerb::Show { name } } => types::show(context, &name),
        Command::Completions { shell } => completions::run(context, shell),
        Command::Box { .. } | Command::Task { .. } => {
            unreachable!("replaced by its shortcut above")
        }
    }
}
