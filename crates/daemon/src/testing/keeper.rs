//! A keeper played by the test: it speaks the protocol and writes what a keeper writes, and does
//! nothing unless told to.

use std::os::unix::net::UnixStream as StdStream;

use minimal_proto::event::Started;
use minimal_proto::keeper::{
    Decoder, Enforcement, FromKeeper, Hello, Incoming, PROTOCOL, ToKeeper, encode_json,
};
use minimal_proto::stream::Stream;
use minimal_proto::{BoxId, Ending, EventData, Timestamp};
use minimal_store::{BoxDir, JournalWriter, LogWriter, StateDir};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::within;

/// One keeper and its one connection.
pub(crate) struct FakeKeeper {
    pub(crate) id: BoxId,
    stream: UnixStream,
    decoder: Decoder,
    dir: BoxDir,
    log: LogWriter,
    options: minimal_proto::api::StartOptions,
}

impl FakeKeeper {
    /// The keeper at the end of a connection, once it was told what to start.
    pub(crate) async fn born(state: &StateDir, stream: StdStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        let mut stream = UnixStream::from_std(stream).unwrap();
        let mut decoder = Decoder::default();
        let start = match hear(&mut stream, &mut decoder).await {
            Incoming::Message(ToKeeper::Start(start)) => start,
            other => panic!("{other:?}"),
        };
        let dir = state.box_dir(start.box_id).unwrap();
        let log = LogWriter::create_or_open(&dir, 1 << 30).unwrap();
        Self { id: start.box_id, stream, decoder, dir, log, options: start.options }
    }

    /// The keeper at the end of a later connection.
    pub(crate) fn over(dir: BoxDir, id: BoxId, stream: StdStream) -> Self {
        stream.set_nonblocking(true).unwrap();
        let stream = UnixStream::from_std(stream).unwrap();
        let log = LogWriter::create_or_open(&dir, 1 << 30).unwrap();
        Self { id, stream, decoder: Decoder::default(), dir, log, options: Default::default() }
    }

    /// What the daemon says next.
    pub(crate) async fn hear(&mut self) -> Incoming<ToKeeper> {
        hear(&mut self.stream, &mut self.decoder).await
    }

    /// The next message that is no question whether anybody is there and no receipt.
    pub(crate) async fn hear_request(&mut self) -> ToKeeper {
        loop {
            match self.hear().await {
                Incoming::Message(ToKeeper::Ping { request }) => self.done(request).await,
                Incoming::Message(ToKeeper::Consumed { .. }) => {}
                Incoming::Message(message) => return message,
                Incoming::Input { .. } => panic!("input"),
            }
        }
    }

    pub(crate) async fn say(&mut self, message: &FromKeeper) {
        within(self.stream.write_all(&encode_json(message))).await.unwrap();
    }

    pub(crate) async fn done(&mut self, request: u64) {
        self.say(&FromKeeper::Done { request, error: None }).await;
    }

    pub(crate) async fn hello(&mut self) {
        self.hello_with(None).await;
    }

    /// A hello with an ending that could not be written.
    pub(crate) async fn hello_with(&mut self, unsaved_ending: Option<Ending>) {
        self.say(&FromKeeper::Hello(self.as_it_stands(unsaved_ending))).await;
    }

    /// A hello.
    pub(crate) fn as_it_stands(&self, unsaved_ending: Option<Ending>) -> Hello {
        Hello {
            protocol: PROTOCOL,
            box_id: self.id,
            life: 1,
            pid: 1,
            log_end: self.log.end(),
            input_offset: 0,
            input_received: Some(0),
            input_writer: None,
            input_open: self.options.input,
            pinned: self.options.pin,
            unsaved_ending,
            execs: None,
            terminals: false,
        }
    }

    /// Appends an event, and says so if that is wanted.
    pub(crate) fn append(&mut self, data: EventData) -> FromKeeper {
        let mut journal = JournalWriter::open(&self.dir).unwrap();
        FromKeeper::Event { event: journal.append(data, Timestamp::now()).unwrap() }
    }

    /// The box runs.
    pub(crate) async fn start(&mut self) {
        self.hello().await;
        let enforcement = Enforcement {
            namespaces: vec!["pid".into()],
            users: "single".into(),
            uid_map: vec![],
            network: "none".into(),
            workspace: Some("none".into()),
            no_new_privs: true,
            seccomp: true,
            capabilities: vec![],
            limits: vec![],
            install: "none".to_owned(),
            freezer: None,
            missing: vec![],
        };
        let started = Started { life: 1, boot_id: "b".into(), keeper_pid: 1, enforcement };
        let event = self.append(EventData::Started(started));
        self.say(&event).await;
    }

    /// The box prints, and says so if that is wanted.
    pub(crate) fn print(&mut self, bytes: &[u8]) -> FromKeeper {
        let end = self.log.append(Stream::Stdout, Timestamp::now(), bytes).end;
        FromKeeper::LogEnd { end }
    }

    pub(crate) async fn prints(&mut self, bytes: &[u8]) {
        let message = self.print(bytes);
        self.say(&message).await;
    }

    /// The box ends; its ending is on disk, and nobody was told.
    pub(crate) fn end_silently(&mut self, ending: &Ending) {
        let data = match ending.start_fault() {
            Some(_) => EventData::Failed(ending.clone()),
            None => EventData::Exited(ending.clone()),
        };
        self.append(data);
    }

    /// The box ends.
    pub(crate) async fn end(mut self, ending: Ending) {
        let log_end = self.log.end();
        self.end_silently(&ending);
        self.say(&FromKeeper::Ended { ending, log_end }).await;
    }
}

/// An ending as a keeper would have written it.
pub(crate) fn ending(reason: &str, exit_code: Option<u8>, log_end: u64) -> Ending {
    serde_json::from_value(json!({
        "reason": reason, "exit_code": exit_code, "signal": null, "signal_number": null,
        "core_dumped": false, "at": Timestamp::now(), "observed_by": "keeper",
        "detail": {"log_end": log_end},
    }))
    .unwrap()
}

pub(super) async fn hear(stream: &mut UnixStream, decoder: &mut Decoder) -> Incoming<ToKeeper> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(message) = decoder.next_message().unwrap() {
            return message;
        }
        let read = within(stream.read(&mut buffer)).await.unwrap();
        assert_ne!(read, 0, "the daemon closed the connection");
        decoder.feed(&buffer[..read]);
    }
}
