//! A daemon with one box that runs `cat`, with words of its own on stderr.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use minimal_proto::api::{BoxRecord, IDEMPOTENCY_KEY, LogFigures};
use minimal_proto::event::{ClientNote, Created};
use minimal_proto::stream::{
    ClientMessage, INPUT_WINDOW, InputFrame, OutputFrame, ServerMessage, Stream,
};
use minimal_proto::{BoxId, Ending, Event, EventData, Health, Timestamp};
use tokio::net::UnixListener;
use tokio::sync::watch;

use crate::random::Random;

/// How the daemon behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As the protocol asks.
    Proper,
    /// It takes no input.
    Deaf,
    /// It sends its last output twice.
    Repeats,
    /// It leaves out some output.
    Skips,
    /// It closes without a terminal message.
    NeverTells,
}

#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) input: Vec<u8>,
    pub(crate) input_sent: u64,
    pub(crate) eof: bool,
    pub(crate) signals: Vec<String>,
    pub(crate) reads: Vec<u64>,
    pub(crate) keys: BTreeSet<String>,
    pub(crate) creates: u32,
    pub(crate) attaches: u32,
    log: Vec<(Stream, Vec<u8>)>,
}

impl Facts {
    fn end(&self) -> u64 {
        self.log.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// At most `most` bytes of one stream from `offset` on.
    fn at(&self, offset: u64, most: usize) -> Option<(Stream, Vec<u8>)> {
        let mut start = 0;
        for (stream, bytes) in &self.log {
            let end = start + bytes.len() as u64;
            if offset < end {
                let skip = usize::try_from(offset - start).unwrap();
                return Some((*stream, bytes[skip..].iter().copied().take(most).collect()));
            }
            start = end;
        }
        None
    }
}

#[derive(Clone)]
pub(crate) struct Daemon {
    pub(crate) facts: Arc<Mutex<Facts>>,
    manner: Manner,
    changed: watch::Sender<()>,
}

pub(crate) fn box_id() -> BoxId {
    "01909a30-0000-7000-8000-0000deadbeef".parse().unwrap()
}

pub(crate) fn ending(log_end: u64) -> Ending {
    let ending: Ending = serde_json::from_value(serde_json::json!({
        "reason": "exit", "exit_code": 42, "signal": null, "signal_number": null,
        "core_dumped": false, "at": "2026-01-02T03:04:05.000006Z", "observed_by": "keeper",
        "detail": {}
    }))
    .unwrap();
    ending.with_detail("log_end", log_end)
}

impl Daemon {
    /// Serves a socket in `root`; answers its path.
    pub(crate) fn start(root: &Path, manner: Manner) -> (Self, PathBuf) {
        let path = root.join("daemon.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let daemon = Self { facts: Arc::default(), manner, changed: watch::Sender::new(()) };
        let router = Router::new()
            .route("/v1/boxes", post(create))
            .route("/v1/boxes/{box}", get(record))
            .route("/v1/boxes/{box}/attach", get(attach))
            .route("/v1/boxes/{box}/log", get(log))
            .route("/v1/boxes/{box}/events", get(events))
            .with_state(daemon.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (daemon, path)
    }

    /// Puts output into the log without any input.
    pub(crate) fn print(&self, stream: Stream, bytes: Vec<u8>) {
        self.facts.lock().unwrap().log.push((stream, bytes));
        self.changed.send_replace(());
    }

    /// Ends the input, and so the box.
    pub(crate) fn finish(&self) {
        self.facts.lock().unwrap().eof = true;
        self.changed.send_replace(());
    }
}

async fn create(State(daemon): State<Daemon>, headers: HeaderMap) -> Response {
    let key = headers.get(IDEMPOTENCY_KEY).unwrap().to_str().unwrap().to_owned();
    let mut facts = daemon.facts.lock().unwrap();
    facts.creates += 1;
    facts.keys.insert(key);
    axum::Json(the_record(&facts)).into_response()
}

async fn record(State(daemon): State<Daemon>) -> Response {
    axum::Json(the_record(&daemon.facts.lock().unwrap())).into_response()
}

fn the_record(facts: &Facts) -> BoxRecord {
    BoxRecord {
        schema: "min/v1/box".to_owned(),
        id: box_id(),
        name: Some("cat-1".parse().unwrap()),
        box_type: Some("task".parse().unwrap()),
        root_type: Some(minimal_proto::spec::Builtin::Task),
        state: Some(match facts.eof {
            true => minimal_proto::State::Exited,
            false => minimal_proto::State::Running,
        }),
        health: Health::Ok,
        health_reason: None,
        ending: facts.eof.then(|| ending(facts.end())),
        parent: None,
        project_root: None,
        provider: "local0".to_owned(),
        host: "here".to_owned(),
        created_at: None,
        started_at: None,
        ended_at: None,
        lives: 1,
        log_begin: 0,
        spec_digest: None,
        client_digest: None,
        identity: "none".to_owned(),
        program: Some("cat".to_owned()),
        entrypoint: None,
        paused: false,
        enforcement: None,
        execs: Vec::new(),
        log: LogFigures { bytes: facts.end(), dropped_bytes: 0 },
        disk_bytes: None,
    }
}

async fn log(
    State(daemon): State<Daemon>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    let from = query.get("from").map_or(0, |text| text.parse().unwrap());
    let mut body = Vec::new();
    let facts = daemon.facts.lock().unwrap();
    let mut offset: u64 = from;
    let mut random = Random(from);
    while let Some((stream, bytes)) = facts.at(offset, 1 + random.below(900)) {
        body.push(stream.to_byte());
        body.extend(offset.to_le_bytes());
        body.extend(7i64.to_le_bytes());
        body.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
        offset += bytes.len() as u64;
        body.extend(bytes);
    }
    in_pieces(&body)
}

async fn events(State(_): State<Daemon>) -> Response {
    let mut body = Vec::new();
    for seq in 1..=300 {
        let data = match seq {
            1 => EventData::Created(Created {
                name: "cat-1".parse().unwrap(),
                remove: false,
                idempotency_key: None,
                request_digest: None,
                spec_digest: None,
                client_digest: None,
                sources: None,
            }),
            300 => EventData::Exited(ending(0)),
            _ => EventData::Attached(ClientNote { input: true }),
        };
        let ts = Timestamp::from_micros(seq);
        let seq = u64::try_from(seq).unwrap();
        let event = Event { seq, ts, box_id: box_id(), parent: None, data };
        serde_json::to_writer(&mut body, &event).unwrap();
        body.push(b'\n');
    }
    in_pieces(&body)
}

/// A body of unknown length, so that one that breaks off can be told.
fn in_pieces(body: &[u8]) -> Response {
    let pieces: Vec<Result<Bytes, std::io::Error>> =
        body.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    Body::from_stream(futures_util::stream::iter(pieces)).into_response()
}

async fn attach(
    State(daemon): State<Daemon>,
    Query(query): Query<BTreeMap<String, String>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let from = query["from"].parse().unwrap();
    upgrade.protocols([minimal_proto::stream::SUBPROTOCOL]).on_upgrade(move |socket| async move {
        // A client that is cut off is no fault of the test.
        drop(serve(daemon, socket, from).await);
    })
}

async fn serve(daemon: Daemon, mut socket: WebSocket, from: u64) -> Result<(), axum::Error> {
    let mut random = Random(from ^ 0xabcd);
    let (attached, mut changed) = {
        let mut facts = daemon.facts.lock().unwrap();
        facts.attaches += 1;
        let attached = ServerMessage::Attached {
            box_id: box_id(),
            exec: None,
            from,
            end: facts.end(),
            input_offset: facts.input.len() as u64,
            input_open: !facts.eof,
            tty: false,
        };
        (attached, daemon.changed.subscribe())
    };
    send(&mut socket, &attached).await?;
    let mut offset = from;
    loop {
        let next = daemon.facts.lock().unwrap().at(offset, 1 + random.below(200_000));
        if let Some((stream, bytes)) = next {
            let sent = match daemon.manner {
                Manner::Repeats if offset > 0 => offset - 1,
                Manner::Skips if offset > 0 => offset + 1,
                _ => offset,
            };
            let frame = OutputFrame { stream, offset: sent, bytes: &bytes };
            socket.send(Message::Binary([&frame.header()[..], &bytes].concat().into())).await?;
            offset += bytes.len() as u64;
        } else if daemon.manner == Manner::NeverTells {
            return Ok(());
        } else if daemon.facts.lock().unwrap().eof {
            let end = daemon.facts.lock().unwrap().end();
            return send(&mut socket, &ServerMessage::Exited { ending: ending(end) }).await;
        } else {
            tokio::select! {
                message = socket.recv() => match message {
                    Some(message) => take(&daemon, &mut socket, message?).await?,
                    None => return Ok(()),
                },
                _ = changed.changed() => {}
            }
        }
    }
}

async fn send(socket: &mut WebSocket, message: &ServerMessage) -> Result<(), axum::Error> {
    socket.send(Message::Text(serde_json::to_string(message).unwrap().into())).await
}

async fn take(
    daemon: &Daemon,
    socket: &mut WebSocket,
    message: Message,
) -> Result<(), axum::Error> {
    match message {
        Message::Binary(bytes) => {
            let frame = InputFrame::parse(&bytes).unwrap();
            let accepted = {
                let mut facts = daemon.facts.lock().unwrap();
                let got = facts.input.len() as u64;
                let end = frame.offset + frame.bytes.len() as u64;
                facts.input_sent = facts.input_sent.max(end);
                assert!(end <= got + INPUT_WINDOW, "more than the window");
                if daemon.manner == Manner::Deaf {
                    return Ok(());
                }
                assert!(frame.offset <= got, "input skips bytes");
                assert!(!facts.eof || end <= got, "input after its end");
                let skip = usize::try_from(got - frame.offset).unwrap().min(frame.bytes.len());
                let new = frame.bytes[skip..].to_vec();
                facts.input.extend_from_slice(&new);
                if !new.is_empty() {
                    facts.log.push((Stream::Stdout, new));
                    let words = format!("{end}\n").into_bytes();
                    facts.log.push((Stream::Stderr, words));
                }
                facts.input.len() as u64
            };
            send(socket, &ServerMessage::InputAccepted { offset: accepted }).await?;
        }
        Message::Text(text) => match serde_json::from_str(&text).unwrap() {
            ClientMessage::Eof => {
                daemon.facts.lock().unwrap().eof = true;
                send(socket, &ServerMessage::InputClosed).await?;
            }
            ClientMessage::Signal { name } => {
                daemon.facts.lock().unwrap().signals.push(name.to_string());
                daemon.changed.send_replace(());
            }
            ClientMessage::Read { offset } => daemon.facts.lock().unwrap().reads.push(offset),
            ClientMessage::Detach => send(socket, &ServerMessage::Detached).await?,
            ClientMessage::Resize { .. } => {}
            ClientMessage::Unknown => panic!("an unknown message: {text}"),
        },
        Message::Ping(_) | Message::Pong(_) | Message::Close(_) => {}
    }
    Ok(())
}
