//! The command line's grammar, as clap takes it: the tree of commands. What each takes is in
//! `options`, how words become values in `values`. Types only: what they do is in `commands`.

mod options;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

pub use options::{
    AttachArgs, BoxOptions, EndingArgs, EventsArgs, ExecArgs, ExecOption, ExecsArgs, HostStopArgs,
    InitArgs, KillArgs, ListArgs, LogsArgs, NetworkArg, OneBox, RemoveArgs, RestartArg, ResumeArgs,
    RunArgs, RunnerConnectArgs, RunnerInstallArgs, RunnerStatusArgs, Shell, ShellArgs, ShowArgs,
    Since, SomeBoxes, SpecArgs, StartArgs, StopArgs, StreamArg, WaitArgs, WorkspaceArg,
};

/// Runs commands in isolated boxes that outlive whoever started them, and tells how they ended.
#[derive(Debug, Parser)]
#[command(name = "min", version, max_term_width = 100, subcommand_required = true)]
#[command(arg_required_else_help = true)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the words of a command line, the program's among them.
    ///
    /// # Errors
    /// What clap says.
    pub fn read(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut cli = Self::try_parse_from(words)?;
        if let Command::Run(args)
        | Command::Box { verb: BoxVerb::Run(args) }
        | Command::Task { verb: TaskVerb::Run(args) } = &mut cli.command
        {
            args.is_command = has_dashes(words, &args.argv);
        }
        if let Command::Box { verb: BoxVerb::Start(args) } = &mut cli.command {
            args.is_command = has_dashes(words, &args.argv);
        }
        Ok(cli)
    }
}

/// Whether two dashes stand before the trailing words. Everything from the first of them on is theirs,
/// so that what stands before it is the one place where the dashes can be. No option takes them for its
/// value.
fn has_dashes(words: &[OsString], trailing: &[OsString]) -> bool {
    let before = words.len().checked_sub(trailing.len() + 1);
    before.is_some_and(|before| words[before] == "--")
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Do everything as if started in DIR
    #[arg(short = 'C', global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// How data is printed; with json and jsonl an error is an object too
    #[arg(short, long, global = true, value_name = "FORMAT", value_enum)]
    #[arg(default_value_t = OutputArg::Table, hide_default_value = true)]
    pub output: OutputArg,
    /// Never ask a question (also off a terminal)
    #[arg(long, global = true)]
    pub no_input: bool,
    /// When to use colour; the variable `NO_COLOR` turns it off
    #[arg(long, global = true, value_name = "WHEN", value_enum)]
    #[arg(default_value_t = Color::Auto, hide_default_value = true)]
    pub color: Color,
    /// Say more on stderr
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Say only what went wrong
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
}

/// How data is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people
    Table,
    /// One JSON value; of output, and of events that are followed, one a line
    Json,
    /// One JSON value a line
    Jsonl,
}

/// `--output`: a format, or one that only specs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputArg {
    /// For people
    Table,
    /// One JSON value; of output, and of events that are followed, one a line
    Json,
    /// One JSON value a line
    Jsonl,
    /// Only of `min box spec`
    Toml,
    /// Only of `min box spec`
    Yaml,
}

impl OutputArg {
    /// The format of everything that is no spec.
    #[must_use]
    pub const fn format(self) -> Format {
        match self {
            Self::Json => Format::Json,
            Self::Jsonl => Format::Jsonl,
            Self::Table | Self::Toml | Self::Yaml => Format::Table,
        }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a task, or any command, in a fresh box
    Run(Box<RunArgs>),
    /// Run a command in a box that runs
    Exec(Box<ExecArgs>),
    /// Show a session of this project in this terminal: the one that runs, or a new one
    Shell(ShellArgs),
    /// Watch a box's output, from its beginning to its end, and write its input
    Attach(AttachArgs),
    /// List boxes of this project, newest first
    Ls(ListArgs),
    /// Show the record of a box, or of an exec in it
    Show(ShowArgs),
    /// Print what a box has printed
    Logs(LogsArgs),
    /// Wait until boxes have ended, and return the worst status
    Wait(WaitArgs),
    /// Print what has happened to a box
    Events(EventsArgs),
    /// End boxes: TERM to every process, then KILL
    Stop(StopArgs),
    /// Send one signal to the command of boxes
    Kill(KillArgs),
    /// Have everything in boxes stand still
    Pause(SomeBoxes),
    /// Have paused boxes go on
    Unpause(SomeBoxes),
    /// Remove boxes: their records, logs and files
    Rm(RemoveArgs),
    /// Everything about boxes
    #[command(visible_alias = "boxes", subcommand_required = true, arg_required_else_help = true)]
    Box {
        /// What to do.
        #[command(subcommand)]
        verb: BoxVerb,
    },
    /// Tasks of the project
    #[command(visible_alias = "tasks", subcommand_required = true, arg_required_else_help = true)]
    Task {
        /// What to do.
        #[command(subcommand)]
        verb: TaskVerb,
    },
    /// Types of boxes
    #[command(visible_alias = "types", subcommand_required = true, arg_required_else_help = true)]
    Type {
        /// What to do.
        #[command(subcommand)]
        verb: TypeVerb,
    },
    /// Write a minimal.toml for the project, or add an entry to the one there is
    Init(InitArgs),
    /// The daemon and its machine
    #[command(visible_alias = "hosts", subcommand_required = true, arg_required_else_help = true)]
    Host {
        /// What to do.
        #[command(subcommand)]
        verb: HostVerb,
    },
    /// Serve this machine's boxes to a hub that it dials
    #[command(visible_alias = "runners", subcommand_required = true, arg_required_else_help = true)]
    Runner {
        /// What to do.
        #[command(subcommand)]
        verb: RunnerVerb,
    },
    /// Check what this host can and cannot isolate, each with what to do
    Doctor,
    /// Print the version and build of this program and of the daemon
    Version,
    /// Print the names of boxes, for completion scripts: at once, or nothing
    #[command(name = "__boxes", hide = true)]
    BoxNames,
    /// Print the names of tasks, or the arguments of one, for completion scripts
    #[command(name = "__tasks", hide = true)]
    TaskNames {
        /// Whose arguments.
        task: Option<String>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Verbs of `min task`.
#[derive(Debug, Subcommand)]
pub enum TaskVerb {
    /// Run a task in a fresh box
    Run(Box<RunArgs>),
    /// List the tasks that the project declares
    #[command(visible_alias = "ls")]
    List,
    /// Print what a box has printed
    Logs(LogsArgs),
    /// Wait until boxes have ended, and return the worst status
    Wait(WaitArgs),
    /// End boxes: TERM to every process, then KILL
    Stop(StopArgs),
    /// Remove boxes: their records, logs and files
    Rm(RemoveArgs),
}

/// Verbs of `min type`.
#[derive(Debug, Subcommand)]
pub enum TypeVerb {
    /// List types of boxes, and where each is defined
    #[command(visible_alias = "ls")]
    List,
    /// Show what a type defaults to and what it allows
    Show {
        /// Which
        #[arg(value_name = "TYPE")]
        name: String,
    },
}

/// Verbs of `min box`.
#[derive(Debug, Subcommand)]
pub enum BoxVerb {
    /// Start a service, or any command, in a box that runs until it is stopped, and print its id
    Start(Box<StartArgs>),
    /// Run a task, or any command, in a fresh box
    Run(Box<RunArgs>),
    /// Run a command in a box that runs
    Exec(Box<ExecArgs>),
    /// Watch a box's output, from its beginning to its end, and write its input
    Attach(AttachArgs),
    /// List boxes of this project, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// List what was run in a box with `min exec`, newest first
    Execs(ExecsArgs),
    /// Show the record of a box, or of an exec in it
    Show(ShowArgs),
    /// Print what a box has printed
    Logs(LogsArgs),
    /// Print the spec of an entry as it would be run, or of a box as it was made
    Spec(SpecArgs),
    /// Wait until boxes have ended, and return the worst status
    Wait(WaitArgs),
    /// Print what has happened to a box
    Events(EventsArgs),
    /// End boxes: TERM to every process, then KILL
    Stop(StopArgs),
    /// Send one signal to the command of boxes
    Kill(KillArgs),
    /// Have everything in boxes stand still
    Pause(SomeBoxes),
    /// Have paused boxes go on
    Unpause(SomeBoxes),
    /// Begin a further life of boxes that have ended, with the files they had
    Resume(Box<ResumeArgs>),
    /// Remove boxes: their records, logs and files
    Rm(RemoveArgs),
}

/// Verbs of `min runner`.
#[derive(Debug, Subcommand)]
pub enum RunnerVerb {
    /// Dial a hub and serve it, again and again, until a signal ends it; what runs here runs on
    Connect(RunnerConnectArgs),
    /// Write a systemd unit that runs `connect`
    Install(RunnerInstallArgs),
    /// Show the runners of this machine
    Status(RunnerStatusArgs),
}

/// Verbs of `min host`.
#[derive(Debug, Subcommand)]
pub enum HostVerb {
    /// Show the daemon, its boxes by state, and whether it can isolate
    Show,
    /// Stop the daemon; boxes run on
    Stop(HostStopArgs),
}
