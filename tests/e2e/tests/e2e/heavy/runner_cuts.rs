//! Commands through a runner whose link is cut at random points; then with the runner and the daemon
//! killed instead. Every code that is told is the command's own, and no byte is lost or repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minimal_runner::contract::{
    ExecOptions, Sandbox as _, SandboxError, SpawnOptions, StreamFault, Terminal, Unavailable,
};
use minimal_runner::hub::RunnerSandbox;
use minimal_runner::wire::CommandLine;
use minimal_testkit::{Dice, Proxy, Running, TestEnv};
use tokio::sync::{Notify, watch};

use crate::runner::hub::{Hub, block_on, connect, serve};

/// Says how many commands; without it, 300.
const COMMANDS: &str = "MIN_RUNNER_COMMANDS";
/// Says from which seed; without it, one of the clock's, which is printed.
const SEED: &str = "MIN_RUNNER_SEED";

/// Commands at the same time.
const WORKERS: u64 = 12;

/// What an average connection carries before it is cut: the output of some commands.
const BYTES: u64 = 400_000;

/// A command, and what it must print and return.
struct Command {
    line: CommandLine,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    code: i32,
}

impl Command {
    fn draw(n: u64, dice: &mut Dice) -> Self {
        let lines = match dice.below(8) {
            0 => dice.below(20_000),
            _ => dice.below(200),
        };
        let (end, code) = match dice.below(6) {
            0 => ("kill -TERM $$".to_owned(), 128 + 15),
            1 => ("kill -KILL $$".to_owned(), 128 + 9),
            _ => {
                let code = i32::try_from(dice.below(120)).unwrap();
                (format!("exit {code}"), code)
            }
        };
        let script = format!("seq {n} {}; echo err-{n} >&2; {end}", n + lines);
        let args = vec!["-c".to_owned(), script];
        Self {
            line: CommandLine { cmd: "sh".to_owned(), args, ..CommandLine::default() },
            stdout: (n..=n + lines).flat_map(|n| format!("{n}\n").into_bytes()).collect(),
            stderr: format!("err-{n}\n").into_bytes(),
            code,
        }
    }
}

/// What is counted.
#[derive(Default)]
struct Counts {
    codes: AtomicU64,
    attaches: AtomicU64,
    errors: AtomicU64,
    /// Told of every code.
    moved: Notify,
}

/// The connection there is, and how many there have been.
type Current = watch::Receiver<(u64, Option<RunnerSandbox>)>;

/// A worker's view of the hub.
struct Worker {
    current: Current,
    counts: Arc<Counts>,
    /// Whether errors of the runner and its daemon are expected, beside those of the link.
    kills: bool,
}

impl Worker {
    async fn sandbox(&mut self) -> (u64, RunnerSandbox) {
        let current = self.current.wait_for(|(_, sandbox)| sandbox.is_some()).await.unwrap();
        (current.0, current.1.clone().unwrap())
    }

    /// Takes an error for what it is; one that the link's end explains is waited out.
    async fn bear(&mut self, error: &SandboxError, generation: u64) {
        self.counts.errors.fetch_add(1, Ordering::Relaxed);
        match error {
            SandboxError::Unavailable(
                Unavailable::RunnerDisconnected | Unavailable::RunnerOffline,
            ) => {
                drop(self.current.wait_for(|(now, _)| *now > generation).await);
            }
            SandboxError::Unavailable(Unavailable::RunnerTimeout) => {}
            SandboxError::Unavailable(_) if self.kills => {}
            other => panic!("{other:?} is no error of a link"),
        }
    }

    async fn exec(&mut self, command: &Command) {
        loop {
            let (generation, sandbox) = self.sandbox().await;
            let handle = sandbox.handle("box");
            let options = ExecOptions { stderr_to_stdout: false, ..ExecOptions::default() };
            match sandbox.exec(&handle, &command.line, &options).await {
                Ok((output, code)) => {
                    assert_eq!(code.get(), command.code);
                    assert!(output == command.stdout, "bytes differ");
                    return;
                }
                Err(error) => self.bear(&error, generation).await,
            }
        }
    }

    async fn session(&mut self, command: &Command) {
        let mut session: Option<String> = None;
        loop {
            let (generation, sandbox) = self.sandbox().await;
            let handle = sandbox.handle("box");
            let opened = match &session {
                None => sandbox.spawn(&handle, &command.line, &SpawnOptions::default()).await,
                Some(session) => {
                    self.counts.attaches.fetch_add(1, Ordering::Relaxed);
                    sandbox.attach(&handle, session).await
                }
            };
            let (opened, mut stream) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    self.bear(&error, generation).await;
                    continue;
                }
            };
            session = Some(sandbox.session_id(&opened));
            let (stdout, stderr, terminal) = stream.collect().await;
            match terminal {
                Terminal::Exit(code) => {
                    assert_eq!(code.get(), command.code);
                    assert!(stdout == command.stdout, "bytes differ after {session:?}");
                    assert_eq!(stderr, command.stderr);
                    return;
                }
                Terminal::Fault(StreamFault::RunnerDisconnected) => {
                    assert!(command.stdout.starts_with(&stdout), "no beginning of the output");
                    assert!(command.stderr.starts_with(&stderr), "no beginning of stderr");
                    let lost = SandboxError::Unavailable(Unavailable::RunnerDisconnected);
                    self.bear(&lost, generation).await;
                }
                Terminal::Fault(fault) => panic!("{fault:?} is no fault of a link"),
            }
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn seed() -> u64 {
    let seed = number(SEED).unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_secs()
    });
    eprintln!("seed {seed}: repeat with {SEED}={seed}");
    seed
}

/// Takes whatever runner dials, for as long as the test goes on.
fn accept(hub: Hub) -> Current {
    let (sender, current) = watch::channel((0, None));
    drop(tokio::spawn(async move {
        loop {
            // One that is cut in its upgrade has not been there.
            let Ok(connected) = serve(hub.accept().await).await else { continue };
            sender.send_modify(|current| {
                *current = (current.0 + 1, Some(connected.sandbox.clone()));
            });
        }
    }));
    current
}

/// Has workers run so many commands; `between` is called now and then, with chance.
async fn run(
    current: &Current,
    commands: u64,
    kills: bool,
    dice: &mut Dice,
    mut between: impl FnMut(&mut Dice),
) -> Arc<Counts> {
    let counts = Arc::new(Counts::default());
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WORKERS {
        let (counts, next) = (Arc::clone(&counts), Arc::clone(&next));
        let mut worker = Worker { current: current.clone(), counts, kills };
        let mut dice = Dice::new(dice.below(u64::MAX));
        workers.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= commands {
                    return;
                }
                let command = Command::draw(n, &mut dice);
                match dice.below(4) {
                    0 => worker.exec(&command).await,
                    _ => worker.session(&command).await,
                }
                worker.counts.codes.fetch_add(1, Ordering::Relaxed);
                worker.counts.moved.notify_one();
            }
        });
    }
    let mut seen = 0;
    while !workers.is_empty() {
        let moved = async {
            while counts.codes.load(Ordering::Relaxed) < seen + 20 {
                counts.moved.notified().await;
            }
        };
        tokio::select! {
            ended = workers.join_next() => ended.unwrap().unwrap(),
            () = moved => {
                seen = counts.codes.load(Ordering::Relaxed);
                between(dice);
            }
        }
    }
    counts
}

/// Every session there was, also those whose start nobody heard of, ends with the code of its command.
async fn all_sessions_are_true(mut worker: Worker) -> usize {
    let (sandbox, sessions) = loop {
        let (generation, sandbox) = worker.sandbox().await;
        match sandbox.list_sessions(&sandbox.handle("box")).await {
            Ok(sessions) => break (sandbox, sessions),
            Err(error) => worker.bear(&error, generation).await,
        }
    };
    for session in &sessions {
        let last = session.command.rsplit("; ").next().unwrap();
        let expected = match last {
            "kill -TERM $$" => 143,
            "kill -KILL $$" => 137,
            exit => exit.strip_prefix("exit ").unwrap().parse().unwrap(),
        };
        let code = match session.exit_code {
            Some(code) => code,
            None => {
                let attached = sandbox.attach(&sandbox.handle("box"), &session.id).await;
                match attached.unwrap().1.collect().await.2 {
                    Terminal::Exit(code) => code,
                    fault @ Terminal::Fault(_) => panic!("{session:?} ends with {fault:?}"),
                }
            }
        };
        assert_eq!(code.get(), expected, "{session:?}");
    }
    sessions.len()
}

#[test]
fn a_link_that_is_cut_at_random_loses_and_invents_nothing() {
    let env = &TestEnv::new();
    if !minimal_testkit::need::userns(env.account()) {
        return;
    }
    let (commands, seed) = (number(COMMANDS).unwrap_or(300), seed());
    block_on(async {
        let hub = Hub::listen().await;
        let proxy = Proxy::new(hub.address, seed, BYTES);
        let runner = connect(env, &format!("http://{}", proxy.address()), "one");
        let mut current = accept(hub);
        let mut worker = Worker { current: current.clone(), counts: Arc::default(), kills: false };
        loop {
            let (generation, sandbox) = worker.sandbox().await;
            match sandbox.create("box").await {
                Ok(_) => break,
                Err(error) => worker.bear(&error, generation).await,
            }
        }
        let counts = run(&current, commands, false, &mut Dice::new(seed), |_| {}).await;
        let cuts = proxy.cuts();
        proxy.calm_down();
        let generation = current.borrow_and_update().0;
        proxy.cut();
        current.wait_for(|(now, _)| *now > generation).await.unwrap();
        let sessions = all_sessions_are_true(worker).await;
        eprintln!(
            "{} true codes, {cuts} cuts, {} attaches, {} errors of the link, {sessions} sessions",
            counts.codes.load(Ordering::Relaxed),
            counts.attaches.load(Ordering::Relaxed),
            counts.errors.load(Ordering::Relaxed),
        );
        assert!(cuts > 0, "a link that is never cut shows nothing");
        runner.signal(rustix::process::Signal::TERM);
        runner.wait().assert_code(0);
    });
}

#[test]
fn killing_runner_and_daemon_at_random_invents_no_code() {
    let env = &TestEnv::new();
    if !minimal_testkit::need::userns(env.account()) {
        return;
    }
    let (commands, seed) = (number(COMMANDS).unwrap_or(300), seed());
    block_on(async {
        let hub = Hub::listen().await;
        let url = hub.url();
        let mut runner: Option<Running> = Some(connect(env, &url, "one"));
        let mut current = accept(hub);
        let sandbox = current.wait_for(|(_, sandbox)| sandbox.is_some()).await.unwrap().1.clone();
        sandbox.unwrap().create("box").await.unwrap();
        let mut kills = [0, 0];
        let counts = run(&current, commands, true, &mut Dice::new(seed), |dice| {
            if dice.below(2) == 0 {
                kills[0] += 1;
                let killed = runner.take().unwrap();
                killed.process().kill();
                drop(killed.wait());
                runner = Some(connect(env, &url, "one"));
            } else if let Some(daemon) = env.daemon() {
                kills[1] += 1;
                daemon.kill();
            }
        })
        .await;
        let [runners, daemons] = kills;
        let worker = Worker { current, counts: Arc::default(), kills: true };
        let sessions = all_sessions_are_true(worker).await;
        eprintln!(
            "{} true codes, {runners} runners and {daemons} daemons killed, {} errors, {sessions} sessions",
            counts.codes.load(Ordering::Relaxed),
            counts.errors.load(Ordering::Relaxed),
        );
        assert!(runners > 0 && daemons > 0, "nobody was killed");
        let runner = runner.unwrap();
        runner.signal(rustix::process::Signal::TERM);
        runner.wait().assert_code(0);
    });
}
