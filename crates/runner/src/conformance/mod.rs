//! The conformance suite: what a provider of sandboxes must do, one rule at a time.
//!
//! A [`Kit`] brings an adapter and commands for it; [`check`] holds the adapter against one rule, and
//! [`suite`] against all. A rule about something that the adapter does not advertise is held by
//! answering `NotSupported`. [`crate::fake::FakeSandbox::lying`] breaks each rule on purpose, and
//! tests show that the suite sees it.

mod commands;
mod sandboxes;
mod sessions;

use std::time::Duration;

use crate::contract::{CommandStream, Event, Sandbox, Terminal};
use crate::wire::{CommandLine, Output};

/// How long an event is awaited before a rule counts as broken. Nothing is expected to take so long.
const LIMIT: Duration = Duration::from_secs(20);

/// An adapter, and commands that do in its sandboxes what the rules are about.
pub trait Kit: Sync {
    /// The adapter.
    type Sandbox: Sandbox;

    /// An adapter for one rule. Nothing of it may be left when it is dropped.
    fn fresh(&self) -> impl Future<Output = Self::Sandbox> + Send;

    /// A name that no sandbox has.
    fn name(&self) -> String;

    /// The commands.
    fn fixtures(&self) -> Fixtures;
}

/// Commands for the rules.
#[derive(Clone, Debug)]
pub struct Fixtures {
    /// Prints `hello`.
    pub hello: CommandLine,
    /// Prints `oops` and returns 3.
    pub fail: CommandLine,
    /// Is ended by TERM, so that its code is 143.
    pub killed: CommandLine,
    /// Prints `out` on stdout and `err` on stderr.
    pub both: CommandLine,
    /// Prints `ready`, then `echo:` and each line of its input, and returns 0 at its end.
    pub stay: CommandLine,
    /// Prints so many bytes, each its offset modulo 251, and returns 0.
    pub much: (CommandLine, usize),
    /// Runs for ever and prints nothing.
    pub hang: CommandLine,
    /// Prints the value of `CONFORMANCE`.
    pub env: CommandLine,
    /// Prints where it was started in `/tmp`.
    pub dir: CommandLine,
    /// Prints the file of this path below the home: `a/b/file`.
    pub cat: CommandLine,
    /// Prints that file's permission bits in octal.
    pub mode: CommandLine,
    /// Prints `partial`, and then its stream is lost. None where that cannot be brought about from
    /// within.
    pub lost: Option<CommandLine>,
}

macro_rules! rules {
    ($( $(#[doc = $doc:literal])+ $rule:ident => $module:ident::$check:ident; )+) => {
        /// What a provider must do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rule { $( $(#[doc = $doc])+ $rule, )+ }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[ $( Self::$rule, )+ ];
        }

        /// Holds a fresh adapter against one rule.
        ///
        /// # Errors
        /// It breaks the rule.
        pub async fn check<K: Kit>(kit: &K, rule: Rule) -> Result<(), Broken> {
            let sandbox = kit.fresh().await;
            let trial = Trial { sandbox: &sandbox, name: kit.name(), other: kit.name(), fixtures: kit.fixtures() };
            // A provider that never answers breaks the rule, too.
            let held = tokio::time::timeout(LIMIT * 3, async {
                match rule { $( Rule::$rule => Box::pin($module::$check(&trial)).await, )+ }
            });
            let held = held.await.unwrap_or_else(|_elapsed| Err("it did not come to an end".to_owned()));
            held.map_err(|what| Broken { rule, what })
        }
    };
}

rules! {
    /// A handle is made of provider and name.
    HandleIsPure => sandboxes::handle;
    /// A URL is offered by whoever gives one.
    UrlIsOffered => sandboxes::url;
    /// What is not advertised is not supported.
    HonestCapabilities => sandboxes::unadvertised;
    /// A fresh creation never adopts, and each has an id of its own.
    FreshIsFresh => sandboxes::fresh;
    /// Creation adopts what is there.
    CreateAdopts => sandboxes::adopt;
    /// What is not there is `NotFound`.
    AbsentIsNotFound => sandboxes::absent;
    /// Destroying ends in absence, however often.
    DestroyedIsGone => sandboxes::destroy;
    /// The list has what was made.
    ListIsWhole => sandboxes::list;
    /// A suspended sandbox is there, and so it is when it was resumed.
    SuspendKeeps => sandboxes::suspend;
    /// A policy is taken, also one that allows nothing.
    PolicyIsTaken => sandboxes::policy;
    /// A file has the bytes and the mode it was given, and the directories it needs.
    FilesAreWhole => sandboxes::files;
    /// A command's output and code are its own.
    ExecTells => commands::exec;
    /// A code that is not 0 is an answer.
    FailureIsData => commands::fail;
    /// stderr is part of an exec's output only on request.
    StderrIsApart => commands::exec_stderr;
    /// Variables reach the command.
    EnvIsGiven => commands::env;
    /// A command starts where it is told to.
    DirIsTaken => commands::dir;
    /// A time limit is kept, with code 124.
    TimeoutEnds => commands::timeout;
    /// Output, then the code, then nothing.
    FramesInOrder => commands::frames;
    /// A spawned command's code is its own.
    SpawnTells => commands::spawn_code;
    /// A signal is told as 128 + n.
    SignalIsTold => commands::signal;
    /// stderr comes as stderr.
    StderrIsTold => commands::spawn_stderr;
    /// The end comes after every byte.
    EndAfterOutput => commands::much;
    /// A stream that is lost is no exit.
    LostIsNoExit => commands::lost;
    /// A command that is lost is no exec with a code.
    LostExecIsNoExit => commands::lost_exec;
    /// Input for a command that has ended is refused as such, and its end is still told.
    LateInputIsRefused => commands::late_input;
    /// Input reaches the command, every byte of it, and so does its end.
    InputRoundTrip => commands::input;
    /// Letting go can be repeated, and ends nothing but the stream.
    LetGoIsTotal => sessions::let_go;
    /// Sessions are listed newest first.
    NewestFirst => sessions::newest_first;
    /// An attacher gets everything from the first byte, and then what comes.
    AttachReplays => sessions::attach;
    /// An attacher to an ended session gets its output and its end.
    EndedReplays => sessions::attach_ended;
    /// An attacher to a lost session is told that it is lost.
    LostReplaysAsLost => sessions::attach_lost;
    /// Every subscriber is told the end.
    EverySubscriberIsTold => sessions::every_subscriber;
    /// Many attachers at once see the same bytes once, in one order.
    AttachersAgree => sessions::many;
    /// A session that is not there is `NotFound`.
    UnknownSession => sessions::unknown;
    /// A terminated session has ended, however often, and its sandbox lives on.
    TerminateEnds => sessions::terminate;
}

/// A rule that an adapter breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule:?} is broken: {what}")]
pub struct Broken {
    /// Which.
    pub rule: Rule,
    /// What was seen.
    pub what: String,
}

/// Holds an adapter against every rule: those that it breaks.
pub async fn suite<K: Kit>(kit: &K) -> Vec<Broken> {
    let mut broken = Vec::new();
    for rule in Rule::ALL {
        broken.extend(check(kit, *rule).await.err());
    }
    broken
}

/// One rule's adapter, names and commands.
struct Trial<'a, S> {
    sandbox: &'a S,
    name: String,
    other: String,
    fixtures: Fixtures,
}

/// What a rule finds wrong.
type Held = Result<(), String>;

/// Fails with what was found unless it is what was expected.
#[expect(clippy::needless_pass_by_value, reason = "each is an answer that was just made")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Held {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what} is {found:?}, not {expected:?}")),
    }
}

/// Fails unless an output holds a text.
fn holds(what: &str, output: &[u8], text: &str) -> Held {
    let output = String::from_utf8_lossy(output);
    match output.contains(text) {
        true => Ok(()),
        false => Err(format!("{what} is {output:?}, without {text:?}")),
    }
}

/// An answer that must be one.
fn answered<T>(what: &str, answer: Result<T, crate::contract::SandboxError>) -> Result<T, String> {
    answer.map_err(|error| format!("{what} answers: {error}"))
}

/// The stream's next event.
async fn next(stream: &mut CommandStream) -> Result<Option<Event>, String> {
    let event = tokio::time::timeout(LIMIT, stream.next()).await;
    event.map_err(|_elapsed| "an event did not come".to_owned())
}

/// Everything to the end of a stream, after which there must be nothing.
async fn all(stream: &mut CommandStream) -> Result<(Vec<u8>, Vec<u8>, Terminal), String> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match next(stream).await? {
            Some(Event::Output(Output::Stdout, bytes)) => stdout.extend(bytes),
            Some(Event::Output(Output::Stderr, bytes)) => stderr.extend(bytes),
            Some(Event::Gap(bytes)) => return Err(format!("{bytes} bytes are missing")),
            Some(Event::Terminal(terminal)) => {
                same("what follows the terminal", next(stream).await?, None)?;
                return Ok((stdout, stderr, terminal));
            }
            None => return Err("a stream ended without a terminal".to_owned()),
        }
    }
}

/// Reads stdout until it holds a text.
async fn until(stream: &mut CommandStream, seen: &mut Vec<u8>, text: &str) -> Held {
    while !String::from_utf8_lossy(seen).contains(text) {
        match next(stream).await? {
            Some(Event::Output(Output::Stdout, bytes)) => seen.extend(bytes),
            Some(Event::Output(Output::Stderr, _)) => {}
            other => {
                let seen = String::from_utf8_lossy(seen);
                return Err(format!("{other:?} came before {text:?}; seen: {seen:?}"));
            }
        }
    }
    Ok(())
}
