//! A provider in memory, whose commands are scripts: for tests of whoever uses the contract.
//!
//! Each argument of a command is one instruction; the program is only recorded.
//!
//! | instruction | does |
//! |---|---|
//! | `out:TEXT`, `err:TEXT` | prints it |
//! | `much:N` | prints N bytes, each its offset modulo 251 |
//! | `env:NAME`, `dir` | prints a variable, or where it was started |
//! | `file:PATH`, `mode:PATH` | prints a file that was written, or its permission bits |
//! | `exit:N`, `signal:N` | ends with N, or with 128 + N |
//! | `stay` | prints `echo:` and each piece of input, and ends with 0 at its end |
//! | `hang` | never ends by itself |
//! | `drop` | its stream is lost |
//!
//! A script without an end ends with 0.

#[cfg(test)]
pub(crate) mod fixtures;
mod script;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::script::{End, Surroundings, run};
use self::session::FakeSession;
use crate::conformance::Rule;
use crate::contract::{
    Answer, Capability, CommandStream, ExecOptions, Handle, Info, NetworkPolicy, Sandbox,
    SandboxError, Session, SpawnOptions, Status, StreamFault, Terminal, Unavailable,
    command_stream,
};
use crate::wire::{CommandLine, ExitCode, Output};

/// A provider in memory. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct FakeSandbox {
    world: Arc<Mutex<World>>,
    lie: Option<Rule>,
}

/// A command of the fake.
#[derive(Clone, Debug)]
pub struct FakeCommand {
    sandbox: String,
    session: String,
    subscriber: u64,
}

#[derive(Debug, Default)]
struct World {
    sandboxes: BTreeMap<String, One>,
    /// Counts instances, sessions and subscribers.
    count: u64,
}

#[derive(Debug)]
struct One {
    instance: u64,
    status: Status,
    files: BTreeMap<String, (Vec<u8>, u32)>,
    /// In the order in which they were started.
    sessions: Vec<FakeSession>,
}

impl World {
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn find(&mut self, name: &str) -> Answer<&mut One> {
        self.sandboxes.get_mut(name).ok_or(SandboxError::NotFound)
    }

    fn session(&mut self, sandbox: &str, session: &str) -> Answer<&mut FakeSession> {
        let one = self.find(sandbox)?;
        one.sessions.iter_mut().find(|it| it.id == session).ok_or(SandboxError::NotFound)
    }

    fn make(&mut self, name: &str) -> u64 {
        let instance = self.next();
        let one =
            One { instance, status: Status::Running, files: BTreeMap::new(), sessions: Vec::new() };
        self.sandboxes.insert(name.to_owned(), one);
        instance
    }
}

impl FakeSandbox {
    /// An empty provider.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that breaks a rule, and no other if it can be helped: to prove that a suite sees it.
    #[must_use]
    pub fn lying(rule: Rule) -> Self {
        Self { world: Arc::default(), lie: Some(rule) }
    }

    fn lies(&self, rule: Rule) -> bool {
        self.lie == Some(rule)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A test that panicked with it says so itself.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn surroundings(&self, one: &One, command: &CommandLine) -> Surroundings {
        let mut command = command.clone();
        if self.lies(Rule::EnvIsGiven) {
            command.env.clear();
        }
        if self.lies(Rule::DirIsTaken) {
            command.dir = None;
        }
        Surroundings { env: command.env, dir: command.dir, files: one.files.clone() }
    }

    /// What a script printed and how it ended, with what this provider makes of it.
    fn told(&self, one: &One, command: &CommandLine) -> (Vec<(Output, Vec<u8>)>, End) {
        let (mut printed, end) = run(&command.args, &self.surroundings(one, command));
        if self.lies(Rule::StderrIsTold) {
            printed.retain(|(output, _)| *output == Output::Stdout);
        }
        if self.lies(Rule::ExecTells) {
            printed.clear();
        }
        if self.lies(Rule::EndAfterOutput) && printed.len() > 2 {
            printed.pop();
        }
        let end = match end {
            End::Code(code) if code.get() == 143 && self.lies(Rule::SignalIsTold) => {
                End::Code(ExitCode::as_told(15))
            }
            End::Code(code)
                if code.get() == 3
                    && (self.lies(Rule::FailureIsData) || self.lies(Rule::SpawnTells)) =>
            {
                End::Code(ExitCode::as_told(1))
            }
            end => end,
        };
        (printed, end)
    }
}

impl Sandbox for FakeSandbox {
    type Command = FakeCommand;

    fn provider(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> BTreeSet<Capability> {
        let mut offered = BTreeSet::from([
            Capability::Suspend,
            Capability::NetworkPolicy,
            Capability::Attach,
            Capability::PublicUrl,
            Capability::TerminateSession,
            Capability::CreateNew,
        ]);
        if self.lies(Rule::HonestCapabilities) {
            offered.insert(Capability::Checkpoint);
        }
        if self.lies(Rule::UrlIsOffered) {
            offered.remove(&Capability::PublicUrl);
        }
        offered
    }

    fn handle(&self, name: &str) -> Handle {
        let name = if self.lies(Rule::HandleIsPure) { "" } else { name };
        Handle { provider: self.provider(), name: name.to_owned(), instance_id: None }
    }

    async fn create(&self, name: &str) -> Answer<Handle> {
        let mut world = self.world();
        if world.find(name).is_err() {
            world.make(name);
        } else if self.lies(Rule::CreateAdopts) {
            return Err(SandboxError::AlreadyExists);
        }
        Ok(self.handle(name))
    }

    async fn create_new(&self, name: &str) -> Answer<Handle> {
        let mut world = self.world();
        let instance = match world.find(name) {
            Ok(one) if self.lies(Rule::FreshIsFresh) => one.instance,
            Ok(_) => return Err(SandboxError::AlreadyExists),
            Err(_) => world.make(name),
        };
        Ok(Handle { instance_id: Some(instance.to_string()), ..self.handle(name) })
    }

    async fn get(&self, handle: &Handle) -> Answer<Info> {
        let mut world = self.world();
        match world.find(&handle.name) {
            Ok(one) if self.lies(Rule::SuspendKeeps) && one.status == Status::Suspended => {
                Err(SandboxError::NotFound)
            }
            Ok(one) => {
                Ok(Info { status: one.status, path: Some(format!("/fake/root/{}", handle.name)) })
            }
            Err(_) if self.lies(Rule::AbsentIsNotFound) => {
                Err(SandboxError::Unavailable(Unavailable::Other("gone".to_owned())))
            }
            Err(error) => Err(error),
        }
    }

    async fn destroy(&self, handle: &Handle) -> Answer<()> {
        if self.world().sandboxes.remove(&handle.name).is_none() && self.lies(Rule::DestroyedIsGone)
        {
            return Err(SandboxError::NotFound);
        }
        Ok(())
    }

    async fn list_all_names(&self) -> Answer<BTreeSet<String>> {
        if self.lies(Rule::ListIsWhole) {
            return Ok(BTreeSet::new());
        }
        Ok(self.world().sandboxes.keys().cloned().collect())
    }

    async fn suspend(&self, handle: &Handle) -> Answer<()> {
        self.world().find(&handle.name)?.status = Status::Suspended;
        Ok(())
    }

    async fn resume(&self, handle: &Handle) -> Answer<Handle> {
        self.world().find(&handle.name)?.status = Status::Running;
        Ok(self.handle(&handle.name))
    }

    async fn write_file(
        &self,
        handle: &Handle,
        path: &str,
        data: &[u8],
        mode: Option<u32>,
    ) -> Answer<()> {
        let mode = mode.unwrap_or(0o644);
        // What a umask would leave of it.
        let mode = if self.lies(Rule::FilesAreWhole) { mode & !0o022 } else { mode };
        self.world().find(&handle.name)?.files.insert(path.to_owned(), (data.to_vec(), mode));
        Ok(())
    }

    async fn exec(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &ExecOptions,
    ) -> Answer<(Vec<u8>, ExitCode)> {
        let (printed, end) = {
            let mut world = self.world();
            let one = world.find(&handle.name)?;
            self.told(one, command)
        };
        let merged = options.stderr_to_stdout || self.lies(Rule::StderrIsApart);
        let kept = |output: Output| output == Output::Stdout || merged;
        let output = printed.into_iter().filter(|(output, _)| kept(*output));
        let output = output.flat_map(|(_, bytes)| bytes).collect();
        let code = match end {
            End::Code(code) => code,
            // An exec has no input, so that whoever echoes it ends.
            End::Stay => ExitCode::as_told(0),
            End::Hang if options.timeout_ms.is_some() => match self.lies(Rule::TimeoutEnds) {
                true => ExitCode::as_told(137),
                false => ExitCode::as_told(124),
            },
            End::Hang => std::future::pending().await,
            End::Lost if self.lies(Rule::LostExecIsNoExit) => ExitCode::as_told(0),
            End::Lost => {
                return Err(SandboxError::Unavailable(Unavailable::ClosedBeforeExit));
            }
        };
        Ok((output, code))
    }

    async fn spawn(
        &self,
        handle: &Handle,
        command: &CommandLine,
        options: &SpawnOptions,
    ) -> Answer<(FakeCommand, CommandStream)> {
        let mut world = self.world();
        let (id, subscriber) = (format!("s-{}", world.next()), world.next());
        let one = world.find(&handle.name)?;
        let (mut printed, end) = self.told(one, command);
        if self.lies(Rule::FramesInOrder) {
            printed.clear();
        }
        let mut session = FakeSession::new(id.clone(), command, options.stdin);
        let (emitter, stream) = command_stream(StreamFault::ClosedBeforeExit);
        session.subscribe(subscriber, emitter, 0);
        for (output, bytes) in printed {
            session.print(output, bytes);
        }
        match end {
            End::Code(code) => session.end(Terminal::Exit(code)),
            End::Lost if self.lies(Rule::LostIsNoExit) => {
                session.end(Terminal::Exit(ExitCode::as_told(0)));
            }
            End::Lost => session.end(Terminal::Fault(StreamFault::ClosedBeforeExit)),
            End::Stay | End::Hang => {}
        }
        match self.lies(Rule::NewestFirst) {
            true => one.sessions.insert(0, session),
            false => one.sessions.push(session),
        }
        Ok((FakeCommand { sandbox: handle.name.clone(), session: id, subscriber }, stream))
    }

    fn session_id(&self, command: &FakeCommand) -> String {
        command.session.clone()
    }

    async fn write_stdin(&self, command: &FakeCommand, data: &[u8]) -> Answer<()> {
        let mut world = self.world();
        let session = world.session(&command.sandbox, &command.session);
        let session = session.map_err(|_gone| SandboxError::CommandExited)?;
        if session.ended.is_some() {
            return match self.lies(Rule::LateInputIsRefused) {
                true => Err(SandboxError::WriteFailed("broken pipe".to_owned())),
                false => Err(SandboxError::CommandExited),
            };
        }
        if !session.listens(command.subscriber) {
            return Err(SandboxError::CommandExited);
        }
        if !session.takes_input {
            return Err(SandboxError::WriteFailed("it was started without an input".to_owned()));
        }
        let mut echo = b"echo:".to_vec();
        match self.lies(Rule::InputRoundTrip) {
            true => echo.extend(String::from_utf8_lossy(data).as_bytes()),
            false => echo.extend_from_slice(data),
        }
        session.print(Output::Stdout, echo);
        Ok(())
    }

    async fn close_stdin(&self, command: &FakeCommand) -> Answer<()> {
        let mut world = self.world();
        if let Ok(session) = world.session(&command.sandbox, &command.session)
            && session.ended.is_none()
        {
            if self.lies(Rule::EverySubscriberIsTold) {
                session.forget_all_but(2);
            }
            session.end(Terminal::Exit(ExitCode::as_told(0)));
        }
        Ok(())
    }

    async fn stop_command(&self, command: &FakeCommand) -> Answer<()> {
        let mut world = self.world();
        if let Ok(session) = world.session(&command.sandbox, &command.session) {
            if self.lies(Rule::LetGoIsTotal) {
                session.end(Terminal::Exit(ExitCode::as_told(137)));
            }
            session.unsubscribe(command.subscriber);
        }
        Ok(())
    }

    async fn list_sessions(&self, handle: &Handle) -> Answer<Vec<Session>> {
        let mut world = self.world();
        let one = world.find(&handle.name)?;
        Ok(one.sessions.iter().rev().map(FakeSession::row).collect())
    }

    async fn attach(
        &self,
        handle: &Handle,
        session_id: &str,
    ) -> Answer<(FakeCommand, CommandStream)> {
        let mut world = self.world();
        let subscriber = world.next();
        let session = match world.session(&handle.name, session_id) {
            Ok(session) => session,
            Err(_) if self.lies(Rule::UnknownSession) => {
                return Err(SandboxError::Unavailable(Unavailable::Other("unknown".to_owned())));
            }
            Err(error) => return Err(error),
        };
        if session.ended.is_some() && self.lies(Rule::EndedReplays) {
            return Err(SandboxError::CommandExited);
        }
        if self.lies(Rule::LostReplaysAsLost)
            && let Some(Terminal::Fault(_)) = session.ended
        {
            session.ended = Some(Terminal::Exit(ExitCode::as_told(0)));
        }
        let (emitter, stream) = command_stream(StreamFault::ClosedBeforeExit);
        // The lies: the replay is left out, or its last piece comes once more.
        let from = match self.lie {
            Some(Rule::AttachReplays) => session.journal.len(),
            _ => 0,
        };
        session.subscribe(subscriber, emitter, from);
        if self.lies(Rule::AttachersAgree) && session.journal.len() > 2 {
            session.repeat_last(subscriber);
        }
        let session = session.id.clone();
        Ok((FakeCommand { sandbox: handle.name.clone(), session, subscriber }, stream))
    }

    async fn terminate_session(&self, handle: &Handle, session_id: &str) -> Answer<()> {
        let mut world = self.world();
        if let Ok(session) = world.session(&handle.name, session_id)
            && session.ended.is_none()
            && !self.lies(Rule::TerminateEnds)
        {
            session.end(Terminal::Exit(ExitCode::as_told(137)));
        }
        Ok(())
    }

    async fn apply_network_policy(&self, handle: &Handle, policy: &NetworkPolicy) -> Answer<()> {
        self.world().find(&handle.name)?;
        if policy.allow.is_empty() && self.lies(Rule::PolicyIsTaken) {
            return Err(SandboxError::Invalid("an empty policy".to_owned()));
        }
        Ok(())
    }

    async fn public_url(&self, handle: &Handle) -> Answer<String> {
        Ok(format!("https://{}.fake.invalid", handle.name))
    }
}

#[cfg(test)]
mod tests;
