//! Addresses, names, tokens; and dialling hubs that a test plays, good and bad.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::*;
use crate::contract::Backoff;
use crate::fake::FakeSandbox;
use crate::runner::Runner;

fn identity() -> Identity {
    Identity {
        name: "box-1".parse().unwrap(),
        hostname: "höst name".to_owned(),
        version: "0.1.0+a&b".to_owned(),
        root: "/var/lib/minimal".to_owned(),
    }
}

#[test]
fn an_address_becomes_that_of_the_socket() {
    for (text, shown, socket) in [
        ("https://hub.example", "https://hub.example", "wss://hub.example"),
        ("http://127.0.0.1:4000/", "http://127.0.0.1:4000", "ws://127.0.0.1:4000"),
        ("https://hub.example:443/base//", "https://hub.example/base", "wss://hub.example/base"),
        ("wss://[::1]:9/x", "https://[::1]:9/x", "wss://[::1]:9/x"),
    ] {
        let address: HubAddress = text.parse().unwrap();
        assert_eq!(address.to_string(), shown);
        let arch = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
        let expected = format!(
            "{socket}/api/runners/ws?name=box-1&hostname=h%C3%B6st%20name&os=linux&arch={arch}\
             &version=0.1.0%2Ba%26b&root=%2Fvar%2Flib%2Fminimal"
        );
        assert_eq!(address.endpoint(&identity()), expected);
    }
}

#[test]
fn what_is_no_address_is_refused_with_the_reason_and_without_its_words() {
    for (text, why) in [
        ("", "it is not a URL"),
        ("hub.example", "it does not begin with https:// or http://"),
        ("ftp://hub.example", "it begins with ftp://"),
        ("https://secret@hub.example", "it holds a user or a password"),
        ("https://hub.example?token=secret", "it has a query"),
        ("https://hub.example/#secret", "it has a query"),
        ("https://hub.example:0", "its port is not a number"),
        ("https://hub.example:", "its port is not a number"),
        ("https://hub.example:70000", "its port is not a number"),
        ("https://hub exa mple", "it is not a URL"),
    ] {
        let error = text.parse::<HubAddress>().unwrap_err().to_string();
        assert!(error.starts_with(why), "{text}: {error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn only_this_machine_is_this_machine() {
    for (text, here) in [
        ("http://localhost:1", true),
        ("http://127.3.2.1", true),
        ("http://[::1]", true),
        ("http://127.0.0.1.example", false),
        ("http://10.0.0.1", false),
    ] {
        assert_eq!(text.parse::<HubAddress>().unwrap().is_loopback(), here, "{text}");
    }
}

#[test]
fn names_are_those_that_a_hub_takes() {
    let long = "a".repeat(63);
    for good in ["a", "0", "box-1", "a.b_c-d", long.as_str()] {
        assert_eq!(good.parse::<RunnerName>().unwrap().as_str(), good);
    }
    let longer = "a".repeat(64);
    for bad in ["", "-a", ".a", "_a", "A", "a b", "a/b", "../x", "ä", "a\n", longer.as_str()] {
        assert!(bad.parse::<RunnerName>().is_err(), "{bad:?}");
    }
}

fn token_file(mode: u32, content: &[u8]) -> (tempfile::TempDir, TokenFile) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, content).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (dir, TokenFile::new(path))
}

#[test]
fn a_token_is_read_from_a_file_of_its_owners_alone() {
    let (_dir, file) = token_file(0o600, b" ar_secret-1 \n");
    let token = file.read().unwrap();
    assert_eq!(token.bearer(), "Bearer ar_secret-1");
    assert!(!format!("{token:?}{:?}", token.bearer()).contains("secret"));
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610] {
        let (_dir, file) = token_file(mode, b"ar_secret");
        let error = file.read().unwrap_err();
        assert!(matches!(error, TokenError::Open { mode: told, .. } if told == mode), "{error}");
        assert!(error.hint().unwrap().starts_with("chmod 600"));
    }
    let long = vec![b'a'; 9000];
    for bad in [&b""[..], b"\n", b"two words", b"n\0ul", "schlüssel".as_bytes(), &[0xff], &long] {
        let (_dir, file) = token_file(0o400, bad);
        assert!(matches!(file.read(), Err(TokenError::Form { .. })), "{bad:?}");
    }
    let (dir, _) = token_file(0o600, b"x");
    assert!(matches!(TokenFile::new(dir.path()).read(), Err(TokenError::NotAFile { .. })));
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(matches!(TokenFile::new(pipe).read(), Err(TokenError::NotAFile { .. })));
    let absent = TokenFile::new(dir.path().join("absent")).read();
    assert!(matches!(absent, Err(TokenError::Read { .. })));
}

#[test]
fn an_answer_is_told_in_one_line() {
    for (content_type, body, told) in [
        ("application/json", r#"{"error":"runner_already_connected"}"#, "runner_already_connected"),
        (
            "",
            r#"{"error":"forbidden","reason":"insufficient_scope"}"#,
            "forbidden, insufficient_scope",
        ),
        ("text/plain", "not\u{1b}[2J today\nmore", "not[2J today"),
        (
            "text/html; charset=utf-8",
            "hello",
            "an HTML page: something else than a hub may be there",
        ),
        ("", "\n<!DOCTYPE html><p>", "an HTML page: something else than a hub may be there"),
        ("application/json", "[1]", "[1]"),
        ("", "", ""),
    ] {
        assert_eq!(HubAnswer::of(500, content_type, body.as_bytes()).words, told, "{body}");
    }
    let long = HubAnswer::of(502, "", "x".repeat(5000).as_bytes());
    assert_eq!(long.words.chars().count(), 201);
    assert!(long.to_string().starts_with("the hub answers 502 Bad Gateway: xxx"));
}

/// A runner that dials a listener of the test, and what it reports.
struct Dialling {
    listener: TcpListener,
    reports: mpsc::UnboundedReceiver<String>,
    leave: Option<oneshot::Sender<()>>,
    ended: JoinHandle<Result<(), DialError>>,
    _token: tempfile::TempDir,
}

impl Dialling {
    async fn begin() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (dir, token) = token_file(0o600, b"ar_secret");
        let hub = format!("http://{}/base", listener.local_addr().unwrap()).parse().unwrap();
        let dialer = Dialer { hub, identity: identity(), token };
        let (report, reports) = mpsc::unbounded_channel();
        let (leave, asked) = oneshot::channel::<()>();
        let ended = tokio::spawn(async move {
            let runner = Runner::new(FakeSandbox::new());
            let pauses = Backoff { base: Duration::ZERO, ..RETRY };
            let asked = async { drop(asked.await) };
            keep_connected(&runner, &dialer, &pauses, asked, |what| {
                let told = match what {
                    Report::Dialling => return,
                    Report::Connected => "connected".to_owned(),
                    Report::Lost { ended, .. } => format!("lost: {ended}"),
                    Report::Failed { error, attempts, .. } => format!("failed {attempts}: {error}"),
                };
                drop(report.send(told));
            })
            .await
        });
        Self { listener, reports, leave: Some(leave), ended, _token: dir }
    }

    /// Takes the next connection and answers it with these bytes; what was asked.
    async fn answer(&mut self, answer: &str) -> String {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(asked).unwrap()
    }

    async fn accept(&mut self) -> WebSocketStream<TcpStream> {
        let (stream, _) = self.listener.accept().await.unwrap();
        tokio_tungstenite::accept_async(stream).await.unwrap()
    }

    async fn report(&mut self) -> String {
        self.reports.recv().await.unwrap()
    }
}

/// What may pass is tried again, whatever it is, and what will not is told.
#[tokio::test]
async fn a_hub_that_refuses_is_asked_again_or_given_up() {
    let mut dialling = Dialling::begin().await;
    let answer = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let asked = dialling.answer(&answer("409 Conflict", r#"{"error":"taken"}"#)).await;
    let asked = asked.to_ascii_lowercase();
    assert!(asked.starts_with("get /base/api/runners/ws?name=box-1&hostname="), "{asked}");
    assert!(asked.contains("\r\nauthorization: bearer ar_secret\r\n"), "{asked}");
    assert!(asked.contains("\r\nsec-websocket-version: 13\r\n"), "{asked}");
    assert!(!asked.contains("sec-websocket-protocol") && !asked.contains("extensions"), "{asked}");
    assert_eq!(dialling.report().await, "failed 1: the hub answers 409 Conflict: taken");
    for (attempt, answer, told) in [
        (2, answer("500 Internal Server Error", ""), "the hub answers 500 Internal Server Error"),
        (3, answer("200 OK", "<html>"), "the hub answers 200 OK: an HTML page"),
        (4, answer("302 Found", ""), "the hub answers 302 Found"),
        (5, "SSH-2.0-x\r\n\r\n".to_owned(), "ask the hub for a WebSocket"),
        (6, String::new(), "ask the hub for a WebSocket"),
    ] {
        dialling.answer(&answer).await;
        let report = dialling.report().await;
        assert!(report.starts_with(&format!("failed {attempt}: {told}")), "{report}");
    }
    dialling.answer(&answer("401 Unauthorized", r#"{"error":"unauthorized"}"#)).await;
    let error = dialling.ended.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the hub answers 401 Unauthorized: unauthorized");
    for status in ["400 Bad Request", "403 Forbidden", "404 Not Found"] {
        let mut dialling = Dialling::begin().await;
        dialling.answer(&answer(status, "")).await;
        let error = dialling.ended.await.unwrap().unwrap_err();
        assert!(error.to_string().ends_with(status), "{error}");
    }
}

/// A hub that accepts and hangs up has not served; one that has begins the row of pauses again.
#[tokio::test]
async fn only_a_connection_that_was_used_begins_the_pauses_again() {
    let pauses = Arc::new(Mutex::new(Vec::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_dir, token) = token_file(0o600, b"ar_secret");
    let hub = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let dialer = Dialer { hub, identity: identity(), token };
    let told = Arc::clone(&pauses);
    let dialling = tokio::spawn(async move {
        // They tell which attempt it was, and none takes long.
        let row = Backoff {
            base: Duration::from_nanos(1 << 10),
            max: Duration::from_nanos(1 << 14),
            ..RETRY
        };
        let runner = Runner::new(FakeSandbox::new());
        keep_connected(&runner, &dialer, &row, std::future::pending(), |what| {
            if let Report::Lost { again_in, .. } = what {
                told.lock().unwrap().push(again_in.as_nanos());
            }
        })
        .await
    });
    for used in [false, false, false, true, false] {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        if used {
            socket.send(Message::text(r#"{"id":1,"op":"list"}"#)).await.unwrap();
            assert!(matches!(socket.next().await, Some(Ok(Message::Text(_)))));
        }
        let frame = CloseFrame { code: 4409.into(), reason: "taken".into() };
        socket.close(Some(frame)).await.unwrap();
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    }
    // The next attempt is after the last report.
    drop(listener.accept().await.unwrap());
    dialling.abort();
    let pauses = pauses.lock().unwrap().clone();
    // Each between half of its ceiling and all of it.
    for (pause, ceiling) in pauses.iter().zip([1 << 10, 1 << 11, 1 << 12, 1 << 10, 1 << 11]) {
        assert!((ceiling / 2..=ceiling).contains(pause), "{pauses:?}");
    }
    assert_eq!(pauses.len(), 5);
}

#[tokio::test]
async fn a_runner_that_is_asked_to_leave_says_so_and_does_not_come_back() {
    let mut dialling = Dialling::begin().await;
    let mut socket = dialling.accept().await;
    assert_eq!(dialling.report().await, "connected");
    dialling.leave.take().unwrap().send(()).unwrap();
    match socket.next().await {
        Some(Ok(Message::Close(Some(frame)))) => assert_eq!(u16::from(frame.code), 1001),
        other => panic!("{other:?} is no close"),
    }
    assert!(dialling.ended.await.unwrap().is_ok());
    // And one that is not connected just goes.
    let mut dialling = Dialling::begin().await;
    let (waiting, _) = dialling.listener.accept().await.unwrap();
    dialling.leave.take().unwrap().send(()).unwrap();
    assert!(dialling.ended.await.unwrap().is_ok());
    drop(waiting);
}

#[test]
fn no_pause_is_longer_than_half_a_minute_or_none() {
    for attempts in [1, 2, 5, 6, 35, 56, 1000, u32::MAX] {
        let ceiling = RETRY.ceiling(attempts);
        assert!(ceiling >= Duration::from_secs(1) && ceiling <= Duration::from_secs(30));
        assert!(RETRY.pause(attempts) >= ceiling / 2 && RETRY.pause(attempts) <= ceiling);
    }
}
