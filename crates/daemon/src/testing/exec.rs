//! The keeper's side of execs, played by the test.

use std::os::unix::net::UnixListener;

use minimal_proto::exec::{ExecEnd, ExecFile};
use minimal_proto::keeper::{
    Decoder, ExecStanding, ExecStart, FromKeeper, Hello, Incoming, ToKeeper, encode_json,
};
use minimal_proto::stream::Stream;
use minimal_proto::{BoxId, Ending, ErrorBody, ExecId, Timestamp};
use minimal_store::exec_dir::{END_SCHEMA, FILE_SCHEMA};
use minimal_store::{BoxDir, ExecDir, LogWriter, Unsaved};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::keeper::hear;
use super::{FakeKeeper, World, within};

/// Where a keeper takes connections for execs.
pub(crate) struct ExecDoor {
    listener: UnixListener,
    hello: Hello,
    id: BoxId,
    box_dir: BoxDir,
}

/// A connection that may become an exec's.
pub(crate) struct Caller {
    stream: UnixStream,
    decoder: Decoder,
    box_dir: BoxDir,
    id: BoxId,
}

/// One exec and its connection.
pub(crate) struct FakeExec {
    pub(crate) id: ExecId,
    pub(crate) start: Option<ExecStart>,
    caller: Caller,
    pub(crate) dir: ExecDir,
    log: LogWriter,
}

impl ExecDoor {
    pub(crate) fn of(world: &World, keeper: &FakeKeeper) -> Self {
        let hello = Hello { execs: Some(Vec::new()), ..keeper.as_it_stands(None) };
        let box_dir = world.host.state.box_dir(keeper.id).unwrap();
        Self { listener: world.listening_keeper(keeper.id), hello, id: keeper.id, box_dir }
    }

    /// What it says from now on.
    pub(crate) fn set_hello(&mut self, change: impl FnOnce(&mut Hello)) {
        change(&mut self.hello);
    }

    /// The next connection, which has heard nothing yet.
    pub(crate) async fn silent(&self) -> Caller {
        let listener = self.listener.try_clone().unwrap();
        let accepted = tokio::task::spawn_blocking(move || listener.accept());
        let (stream, _) = within(accepted).await.unwrap().unwrap();
        stream.set_nonblocking(true).unwrap();
        let box_dir = BoxDir::open(self.box_dir.path()).unwrap();
        let stream = UnixStream::from_std(stream).unwrap();
        Caller { stream, decoder: Decoder::default(), box_dir, id: self.id }
    }

    /// The next connection, which was greeted.
    pub(crate) async fn caller(&self) -> Caller {
        let mut caller = self.silent().await;
        caller.say(&FromKeeper::Hello(self.hello.clone())).await;
        caller
    }

    /// The next exec, which runs.
    pub(crate) async fn exec(&self) -> FakeExec {
        self.caller().await.exec().await
    }
}

impl Caller {
    async fn say(&mut self, message: &FromKeeper) {
        within(self.stream.write_all(&encode_json(message))).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> Incoming<ToKeeper> {
        hear(&mut self.stream, &mut self.decoder).await
    }

    /// What it wants, and has not been given.
    pub(crate) async fn start(&mut self) -> ExecStart {
        match self.hear().await {
            Incoming::Message(ToKeeper::Exec(start)) => *start,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn refuse(mut self, error: ErrorBody) {
        self.say(&FromKeeper::Refused { error }).await;
    }

    /// Answers what it wants with something that is there.
    pub(crate) async fn answer(&mut self, standing: ExecStanding) {
        self.say(&FromKeeper::Exec(standing)).await;
    }

    /// Whether the other side has closed the connection.
    pub(crate) async fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        let read = tokio::io::AsyncReadExt::read(&mut self.stream, &mut byte);
        matches!(within(read).await, Ok(0) | Err(_))
    }

    /// Runs what it wants.
    pub(crate) async fn exec(self) -> FakeExec {
        self.exec_that_started(Some(Timestamp::now())).await
    }

    /// Makes the record of what it wants, and says nothing.
    pub(crate) fn make(&self, start: &ExecStart) -> (ExecDir, LogWriter) {
        let file = ExecFile {
            schema: FILE_SCHEMA.to_owned(),
            id: start.exec,
            box_id: self.id,
            life: 1,
            command: start.command.clone(),
            created_at: Timestamp::now(),
            idempotency_key: start.idempotency_key.clone(),
            request_digest: start.request_digest.clone(),
        };
        ExecDir::create(&self.box_dir, &file, 1 << 30).unwrap()
    }

    pub(crate) async fn exec_that_started(mut self, started_at: Option<Timestamp>) -> FakeExec {
        let start = self.start().await;
        let made = self.make(&start);
        let input_open = start.command.input;
        self.give(start.exec, started_at, made, input_open, Some(start)).await
    }

    /// Gives it an exec that is there.
    pub(crate) async fn join(mut self) -> FakeExec {
        let id = match self.hear().await {
            Incoming::Message(ToKeeper::JoinExec { exec }) => exec,
            other => panic!("{other:?}"),
        };
        let dir = ExecDir::open(&self.box_dir, id).unwrap();
        let input_open = dir.read_file().unwrap().command.input;
        let log = LogWriter::create_or_open(&dir, 1 << 30).unwrap();
        self.give(id, Some(Timestamp::now()), (dir, log), input_open, None).await
    }

    async fn give(
        mut self,
        id: ExecId,
        started_at: Option<Timestamp>,
        (dir, log): (ExecDir, LogWriter),
        input_open: bool,
        start: Option<ExecStart>,
    ) -> FakeExec {
        let standing = ExecStanding {
            exec: id,
            started_at,
            log_end: log.end(),
            input_offset: 0,
            input_received: 0,
            input_writer: None,
            input_open,
            pinned: true,
        };
        self.say(&FromKeeper::Exec(standing)).await;
        FakeExec { id, start, caller: self, dir, log }
    }
}

impl FakeExec {
    pub(crate) async fn say(&mut self, message: &FromKeeper) {
        self.caller.say(message).await;
    }

    /// The next message that is no question whether anybody is there and no receipt.
    pub(crate) async fn hear_request(&mut self) -> ToKeeper {
        loop {
            match self.caller.hear().await {
                Incoming::Message(ToKeeper::Ping { request }) => self.done(request).await,
                Incoming::Message(ToKeeper::Consumed { .. }) => {}
                Incoming::Message(message) => return message,
                Incoming::Input { .. } => panic!("input"),
            }
        }
    }

    /// The next input.
    pub(crate) async fn input(&mut self) -> (u64, Vec<u8>) {
        loop {
            match self.caller.hear().await {
                Incoming::Input { offset, bytes } => return (offset, bytes),
                Incoming::Message(ToKeeper::Ping { request }) => self.done(request).await,
                Incoming::Message(ToKeeper::Consumed { .. }) => {}
                Incoming::Message(other) => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn done(&mut self, request: u64) {
        self.say(&FromKeeper::Done { request, error: None }).await;
    }

    pub(crate) async fn prints(&mut self, bytes: &[u8]) {
        let end = self.log.append(Stream::Stdout, Timestamp::now(), bytes).end;
        self.say(&FromKeeper::LogEnd { end }).await;
    }

    /// It ends; its ending is on disk, and nobody was told.
    pub(crate) fn end_silently(&mut self, ending: &Ending) {
        let end = ExecEnd {
            schema: END_SCHEMA.to_owned(),
            started_at: Some(Timestamp::now()),
            ending: ending.clone().with_detail("log_end", self.log.end()),
        };
        Unsaved::new(&self.dir, &end).save().unwrap();
    }

    pub(crate) async fn end(mut self, ending: Ending) {
        self.end_silently(&ending);
        let log_end = self.log.end();
        self.say(&FromKeeper::Ended { ending, log_end }).await;
    }
}
