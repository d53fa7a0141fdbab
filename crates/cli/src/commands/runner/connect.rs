//! `min runner connect`

use std::error::Error;
use std::time::{Duration, SystemTime};

use minimal_linux::cgroup::{self, Controller};
use minimal_proto::{ErrorCode, Timestamp};
use minimal_runner::dial::{DialError, Dialer, Identity, RETRY, Report, TokenFile, keep_connected};
use minimal_runner::local::LocalSandbox;
use minimal_runner::runner::Runner;
use tokio::signal::unix::{SignalKind, signal};

use super::place::{Place, Record, RunnerState};
use crate::args::RunnerConnectArgs;
use crate::context::Context;
use crate::daemon;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Printer;

/// Serves this machine's sandboxes to a hub until it is told to end.
pub(in super::super) async fn run(
    context: &Context,
    args: &RunnerConnectArgs,
) -> Result<Exit, Failure> {
    // From here on, so that one that comes early is not lost.
    let asked = Asked::listen()?;
    let token = TokenFile::new(&args.token_file);
    // What is wrong now will not be right by itself; what goes wrong later may.
    token.read().map_err(|error| token_failed(&error))?;
    if !args.hub.is_secure() && !args.hub.is_loopback() {
        let hub = &args.hub;
        context.printer.warn(&format!("{hub} is not encrypted: others can read the token"));
    }
    let client = daemon::contact(context).await?;
    let state_dir = &context.paths()?.state_dir;
    let place = Place::take(state_dir, &args.name)?;
    let identity = Identity {
        name: args.name.clone(),
        hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        root: state_dir.to_string_lossy().into_owned(),
    };
    let dialer = Dialer { hub: args.hub.clone(), identity, token };
    let can_pause = cgroup::find(Controller::Freezer).is_ok();
    let sandbox = LocalSandbox::of_runner(client, args.name.as_str()).can_pause(can_pause);
    let runner = Runner::new(sandbox);
    let mut teller = Teller::new(context.printer, place, args);
    let kept = keep_connected(&runner, &dialer, &RETRY, asked.any(), |report| teller.told(&report));
    let kept = kept.await;
    teller.stopped(kept.as_ref().err());
    match kept {
        Ok(()) => Ok(Exit::Done),
        Err(error) => {
            let attempt = format!("connect runner `{}` to {}", args.name, args.hub);
            Err(failure(&error).while_trying(attempt))
        }
    }
}

pub(super) fn token_failed(error: &minimal_runner::dial::TokenError) -> Failure {
    let mut failure = Failure::new(ErrorCode::InvalidConfig, error.to_string());
    if let Some(source) = error.source() {
        failure = failure.because(source);
    }
    failure.hint = error.hint();
    failure
}

/// What a hub's answer means for whoever called.
fn failure(error: &DialError) -> Failure {
    let code = match error {
        DialError::Answer(answer) => match answer.status {
            401 | 403 => ErrorCode::Forbidden,
            404 => ErrorCode::NotFound,
            _ => ErrorCode::BadRequest,
        },
        _ => ErrorCode::Unreachable,
    };
    let mut failure = Failure::new(code, error.to_string());
    if let Some(source) = error.source() {
        failure = failure.because(source);
    }
    failure.hint = error.hint();
    failure
}

/// Signals that ask a runner to leave.
struct Asked(Vec<tokio::signal::unix::Signal>);

impl Asked {
    fn listen() -> Result<Self, Failure> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt()];
        let streams: std::io::Result<_> = kinds.into_iter().map(signal).collect();
        streams.map(Self).map_err(|error| {
            Failure::new(ErrorCode::NoResources, "listen to signals").because(&error)
        })
    }

    /// Waits for one of them.
    async fn any(mut self) {
        std::future::poll_fn(|cx| {
            match self.0.iter_mut().any(|stream| stream.poll_recv(cx).is_ready()) {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

/// Tells people what becomes of the connection, and keeps the record.
struct Teller {
    printer: Printer,
    place: Place,
    record: Record,
}

impl Teller {
    fn new(printer: Printer, place: Place, args: &RunnerConnectArgs) -> Self {
        let record = Record {
            schema: "min/v1/runner".to_owned(),
            name: args.name.to_string(),
            hub: args.hub.to_string(),
            pid: std::process::id(),
            state: RunnerState::Connecting,
            since: Timestamp::now(),
            attempts: 0,
            next_attempt_at: None,
            error: None,
        };
        let teller = Self { printer, place, record };
        teller.write();
        teller
    }

    fn told(&mut self, report: &Report<'_>) {
        let Record { name, hub, .. } = &self.record;
        match report {
            Report::Dialling => self.is(RunnerState::Connecting, None),
            Report::Connected => {
                self.printer.note(&format!("Runner `{name}` is connected to {hub}."));
                self.record.attempts = 0;
                self.is(RunnerState::Connected, None);
            }
            Report::Lost { ended, again_in } => {
                self.waits(ended.to_string(), *again_in);
            }
            Report::Failed { error, attempts, again_in } => {
                let words = failure(error).in_one_line();
                self.record.attempts = *attempts;
                self.waits(words, *again_in);
            }
        }
    }

    fn waits(&mut self, words: String, again_in: Duration) {
        let seconds = again_in.as_secs_f32();
        self.printer.warn(&format!("{words}; trying again in {seconds:.1} s"));
        self.record.error = Some(words);
        self.is(RunnerState::Waiting, Some(again_in));
    }

    fn stopped(&mut self, error: Option<&DialError>) {
        if let Some(error) = error {
            self.record.error = Some(failure(error).in_one_line());
        }
        self.is(RunnerState::Stopped, None);
        if error.is_none() {
            self.printer.note("The runner has left; its sandboxes run on.");
        }
    }

    fn is(&mut self, state: RunnerState, again_in: Option<Duration>) {
        self.record.state = state;
        self.record.since = Timestamp::now();
        self.record.next_attempt_at = again_in.map(|pause| (SystemTime::now() + pause).into());
        self.write();
    }

    /// A record that cannot be written costs only what `min runner status` shows.
    fn write(&self) {
        if let Err(error) = self.place.write(&self.record) {
            self.printer.warn(&format!("the runner's record cannot be written: {error}"));
        }
    }
}
