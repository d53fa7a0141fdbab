//! What the commands take.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use minimal_proto::stream::Stream;
use minimal_proto::{BoxName, Signal, State};
use minimal_runner::dial::{HubAddress, RunnerName};

use super::values::{
    address, at_least_one, count, descriptor, duration, exec_address, since, size, state,
};

/// Options of `min host stop`.
#[derive(Debug, Args)]
pub struct HostStopArgs {
    /// Stop every box first
    #[arg(long)]
    pub boxes: bool,
    /// Kill boxes at once instead of asking them to end
    #[arg(long, requires = "boxes")]
    pub force: bool,
}

/// Options of `min runner connect`.
#[derive(Debug, Args)]
pub struct RunnerConnectArgs {
    /// The hub's address, as in `https://hub.example`
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    pub hub: HubAddress,
    /// What the hub calls this runner: small letters, digits, dots, dashes, underscores
    #[arg(long, value_name = "NAME")]
    pub name: RunnerName,
    /// The file with the hub's token, which nobody else may read
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub token_file: PathBuf,
}

/// Options of `min runner install`.
#[derive(Debug, Args)]
pub struct RunnerInstallArgs {
    /// What is connected.
    #[command(flatten)]
    pub runner: RunnerConnectArgs,
    /// Make a service of the machine (without --user what root gets)
    #[arg(long, conflicts_with = "user")]
    pub system: bool,
    /// Make a service of the user's own systemd (without --system what everybody else gets)
    #[arg(long)]
    pub user: bool,
    /// Print the unit, and write nothing
    #[arg(long)]
    pub print: bool,
}

/// Options of `min runner status`.
#[derive(Debug, Args)]
pub struct RunnerStatusArgs {
    /// Only this one
    #[arg(value_name = "NAME")]
    pub name: Option<RunnerName>,
}

/// Options of `min init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// Only this entry; without it what the project seems to need
    #[arg(value_name = "ENTRY")]
    pub entry: Option<BoxName>,
    /// The entry's type, as `min type list` has them; without it task
    #[arg(long = "type", value_name = "TYPE", requires = "entry")]
    pub box_type: Option<String>,
}

/// What a box that is made can be given.
#[derive(Clone, Debug, Default, Args)]
pub struct BoxOptions {
    /// Set a variable, or with the name alone pass on the caller's; may be given again
    #[arg(short, long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// Read variables from a file of NAME=VALUE lines; may be given again
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,
    /// Where in the box to start; relative: below /workbench
    #[arg(short, long, value_name = "DIR")]
    pub workdir: Option<OsString>,
    /// As whom: `box`, `root`, another name of the box's, or a uid
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
    /// Name the box; without one it is named after its program
    #[arg(long, allow_hyphen_values = true)]
    pub name: Option<BoxName>,
    /// Remove the box when it has ended
    #[arg(long)]
    pub rm: bool,
    /// End the box after this time, as in 90s or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
    /// Limit the box's memory, as in 512MiB or 2GiB; without it the host's size decides
    #[arg(long, value_name = "SIZE", value_parser = size, allow_hyphen_values = true)]
    pub ram: Option<u64>,
    /// Limit the box's processes and threads; without it 4096, or less on a small host
    #[arg(long, value_name = "N", value_parser = at_least_one, allow_hyphen_values = true)]
    pub pids: Option<u64>,
    /// What is at /workbench; without it overlay, or none where there is no project to give
    #[arg(long, value_enum)]
    pub workspace: Option<WorkspaceArg>,
    /// Make the box's system of this directory, with the box's changes in a layer of its own
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub rootfs: Option<PathBuf>,
    /// Show a file or directory of the host, at the same place below the home or else at the same path;
    /// MODE is ro, rw or overlay, without it ro; `\:` is a colon of a name; may be given again
    #[arg(long = "mount", value_name = "SOURCE[:DEST][:MODE]", value_hint = ValueHint::AnyPath)]
    pub mounts: Vec<OsString>,
    /// What network the box has; without it none
    #[arg(long, value_name = "MODE", value_enum)]
    pub network: Option<NetworkArg>,
}

/// Options of `min run`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that a person gives")]
#[command(
    override_usage = "min run [OPTIONS] <TASK> [--ARGUMENT VALUE]...\n       min run [OPTIONS] -- <COMMAND> [ARGUMENT]..."
)]
pub struct RunArgs {
    /// Print the box's id and leave it running
    #[arg(short, long, conflicts_with_all = ["ending_file", "ending_fd"])]
    pub detach: bool,
    /// Give the command a terminal and show it in this one; leave it with Ctrl-] d
    #[arg(short, long, conflicts_with = "no_stdin")]
    pub tty: bool,
    /// What the box is given.
    #[command(flatten)]
    pub options: BoxOptions,
    /// Give the command no input
    #[arg(long)]
    pub no_stdin: bool,
    /// Where to write the ending.
    #[command(flatten)]
    pub ending: EndingArgs,
    /// Print what would be set up, and run nothing
    #[arg(long, conflicts_with_all = ["detach", "ending_file", "ending_fd"])]
    pub explain: bool,
    /// A task and its arguments; behind two dashes a program and its own, never a shell line
    #[arg(value_name = "TASK|COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub argv: Vec<OsString>,
    /// Whether two dashes stand before `argv`.
    #[arg(skip)]
    pub is_command: bool,
}

/// Options of `min box start`.
#[derive(Debug, Args)]
#[command(
    override_usage = "min box start [OPTIONS] <ENTRY> [--ARGUMENT VALUE]...\n       min box start [OPTIONS] -- <COMMAND> [ARGUMENT]...\n       min box start [OPTIONS] --bare"
)]
pub struct StartArgs {
    /// What the box is given.
    #[command(flatten)]
    pub options: BoxOptions,
    /// Without a command: a place for `min exec`
    #[arg(long, conflicts_with = "argv")]
    pub bare: bool,
    /// Do not wait until the box is ready, as its service has it
    #[arg(long)]
    pub no_wait: bool,
    /// When to start the command again; without it as the service says, and a command never
    #[arg(long, value_name = "POLICY", value_enum, conflicts_with = "bare")]
    pub restart: Option<RestartArg>,
    /// A service and its arguments; behind two dashes a program and its own, never a shell line
    #[arg(value_name = "ENTRY|COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub argv: Vec<OsString>,
    /// Whether two dashes stand before `argv`.
    #[arg(skip)]
    pub is_command: bool,
}

/// Options of `min box resume`.
#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Print the ids and leave the boxes running, as with several
    #[arg(short, long, conflicts_with_all = ["ending_file", "ending_fd"])]
    pub detach: bool,
    /// Give a value to a variable that was given when the box was made, or with the name alone pass on
    /// the caller's; may be given again
    #[arg(short, long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// Read such values from a file of NAME=VALUE lines; may be given again
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,
    /// Give the command no input
    #[arg(long)]
    pub no_stdin: bool,
    /// Do not wait until the box is ready, as its service has it
    #[arg(long)]
    pub no_wait: bool,
    /// Where to write the ending.
    #[command(flatten)]
    pub ending: EndingArgs,
    /// Which boxes.
    #[command(flatten)]
    pub some: SomeBoxes,
}

/// Options of `min box spec`.
#[derive(Debug, Args)]
pub struct SpecArgs {
    /// An entry of the project, or a box
    #[arg(value_name = "ENTRY|BOX", value_parser = address)]
    pub address: String,
    /// Name for each value the layer, file and line that has set it
    #[arg(long)]
    pub explain: bool,
    /// Arguments of the entry
    #[arg(value_name = "--ARGUMENT VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Options of `min exec`.
#[derive(Debug, Args)]
#[command(override_usage = "min exec [OPTIONS] <BOX> -- <COMMAND> [ARGUMENT]...")]
pub struct ExecArgs {
    /// Print the exec's id and leave it running; without it the exec ends with this client
    #[arg(short, long, conflicts_with_all = ["ending_file", "ending_fd"])]
    pub detach: bool,
    /// Give the command a terminal and show it in this one; leave it with Ctrl-] d, and it runs on
    #[arg(short, long, conflicts_with = "no_stdin")]
    pub tty: bool,
    /// Set a variable, or with the name alone pass on the caller's; may be given again
    #[arg(short, long = "env", value_name = "NAME[=VALUE]")]
    pub env: Vec<OsString>,
    /// Read variables from a file of NAME=VALUE lines; may be given again
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub env_file: Vec<PathBuf>,
    /// Where in the box to start; relative: below /workbench
    #[arg(short, long, value_name = "DIR")]
    pub workdir: Option<OsString>,
    /// As whom: a name of the box's, or a uid; without it as the box's own command
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
    /// End the command after this time, as in 90s or 1h30m; the box runs on
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
    /// Give the command no input
    #[arg(long)]
    pub no_stdin: bool,
    /// Where to write the ending.
    #[command(flatten)]
    pub ending: EndingArgs,
    /// A name, an id, or at least six digits of an id's beginning or end
    #[arg(value_name = "BOX", value_parser = address)]
    pub address: String,
    /// The program and its arguments, never a shell line
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    pub argv: Vec<OsString>,
}

/// Options of `min shell`.
#[derive(Debug, Args)]
pub struct ShellArgs {
    /// Which; without it the only one, or `default`
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Start another one, under a name of its own
    #[arg(long)]
    pub new: bool,
    /// Where to write the ending.
    #[command(flatten)]
    pub ending: EndingArgs,
}

/// Options of `min attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Which box.
    #[command(flatten)]
    pub one: OneBox,
    /// Which exec in it.
    #[command(flatten)]
    pub exec: ExecOption,
    /// Begin at this offset of the output, in bytes, instead of its beginning
    #[arg(long, value_name = "OFFSET", value_parser = count, allow_hyphen_values = true)]
    pub from: Option<u64>,
    /// Only watch: leave the input to others
    #[arg(long)]
    pub watch: bool,
    /// Where to write the ending.
    #[command(flatten)]
    pub ending: EndingArgs,
}

/// Options of `min show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Which box.
    #[command(flatten)]
    pub one: OneBox,
    /// Which exec in it.
    #[command(flatten)]
    pub exec: ExecOption,
}

/// Options of `min box execs`.
#[derive(Debug, Args)]
pub struct ExecsArgs {
    /// Which box.
    #[command(flatten)]
    pub one: OneBox,
    /// Every one of them (else the last 20)
    #[arg(short, long)]
    pub all: bool,
}

/// An exec instead of its box.
#[derive(Debug, Args)]
pub struct ExecOption {
    /// Not the box, but what was run in it with `min exec`: an id, or six digits of its beginning or
    /// end
    #[arg(long = "exec", value_name = "ID", value_parser = exec_address)]
    pub exec: Option<String>,
}

/// Where to write the ending.
#[derive(Clone, Debug, Args)]
pub struct EndingArgs {
    /// Write the ending to a file, as one JSON object; also when nothing ran. There is no such file
    /// while no ending is known
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub ending_file: Option<PathBuf>,
    /// The same, to an open descriptor
    #[arg(long, value_name = "N", value_parser = descriptor, conflicts_with = "ending_file", allow_hyphen_values = true)]
    pub ending_fd: Option<i32>,
}

/// `--restart`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RestartArg {
    /// When it has returned another code than 0, or a signal has ended it
    #[value(name = "on_failure")]
    OnFailure,
    /// Whenever it has returned
    Always,
    /// Never
    Never,
}

/// `--network`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetworkArg {
    /// None but a loopback of its own
    None,
    /// The host's: what you can reach, the box can reach
    #[value(name = "host_ip")]
    HostIp,
}

/// What a box has at /workbench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkspaceArg {
    /// The project, with changes kept in the box: nothing on the host changes
    Overlay,
    /// A copy of the project
    Copy,
    /// The project itself, read-write
    Bind,
    /// An empty directory of the box's own
    None,
}

/// Options of `min ls`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Boxes of every project, and every ended one (else the last 20)
    #[arg(short, long)]
    pub all: bool,
    /// Only boxes in this state
    #[arg(long, value_parser = state)]
    pub state: Option<State>,
}

/// One box.
#[derive(Debug, Args)]
pub struct OneBox {
    /// A name, an id, or at least six digits of an id's beginning or end
    #[arg(value_name = "BOX", value_parser = address)]
    pub address: String,
}

/// Several boxes.
#[derive(Debug, Args)]
pub struct SomeBoxes {
    /// Names, ids, or at least six digits of an id's beginning or end
    #[arg(value_name = "BOX", required = true, value_parser = address)]
    pub addresses: Vec<String>,
}

/// Options of `min logs`.
#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Which box.
    #[command(flatten)]
    pub one: OneBox,
    /// Which exec in it.
    #[command(flatten)]
    pub exec: ExecOption,
    /// Go on until it has ended
    #[arg(short, long)]
    pub follow: bool,
    /// Only the last lines, so many
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "since", allow_hyphen_values = true)]
    pub tail: Option<u64>,
    /// Only what was printed since a time (RFC 3339) or for a duration up to now
    #[arg(long, value_name = "TIME|DURATION", value_parser = since)]
    pub since: Option<Since>,
    /// Begin each line with the time it was printed
    #[arg(short, long)]
    pub timestamps: bool,
    /// Only what was printed to this stream
    #[arg(long, value_enum)]
    pub stream: Option<StreamArg>,
}

/// A moment in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// By the clock.
    Time(minimal_proto::Timestamp),
    /// Before now.
    Ago(Duration),
}

/// A stream by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamArg {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
}

impl From<StreamArg> for Stream {
    fn from(stream: StreamArg) -> Self {
        match stream {
            StreamArg::Stdout => Self::Stdout,
            StreamArg::Stderr => Self::Stderr,
        }
    }
}

/// Options of `min wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// Which boxes.
    #[command(flatten)]
    pub some: SomeBoxes,
    /// Which exec in it.
    #[command(flatten)]
    pub exec: ExecOption,
    /// Give up after this time, with exit status 1
    #[arg(long, value_name = "DURATION", value_parser = duration, allow_hyphen_values = true)]
    pub timeout: Option<Duration>,
    /// Where to write the ending.
    #[command(flatten)]
    pub ending: EndingArgs,
}

/// Options of `min events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// Which box.
    #[command(flatten)]
    pub one: OneBox,
    /// Go on until the box has ended
    #[arg(short, long)]
    pub follow: bool,
}

/// Options of `min stop`.
#[derive(Debug, Args)]
pub struct StopArgs {
    /// Which boxes.
    #[command(flatten)]
    pub some: SomeBoxes,
    /// Which exec in it.
    #[command(flatten)]
    pub exec: ExecOption,
    /// Kill at once
    #[arg(short, long)]
    pub force: bool,
    /// How long to wait between TERM and KILL
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "force", allow_hyphen_values = true)]
    pub grace: Option<Duration>,
}

/// Options of `min kill`.
#[derive(Debug, Args)]
pub struct KillArgs {
    /// The signal, by name or number
    #[arg(short, long, value_name = "SIGNAL", default_value = "TERM", allow_hyphen_values = true)]
    pub signal: Signal,
    /// Which boxes.
    #[command(flatten)]
    pub some: SomeBoxes,
    /// Which exec in it.
    #[command(flatten)]
    pub exec: ExecOption,
}

/// Options of `min rm`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Which boxes.
    #[command(flatten)]
    pub some: SomeBoxes,
    /// Kill boxes that run
    #[arg(short, long)]
    pub force: bool,
}

/// A shell that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}
