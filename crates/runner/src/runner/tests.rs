//! Both ends over a socket of the loopback, and the runner's end against a hub that a test plays.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;

use super::*;
use crate::conformance::{Broken, Fixtures, Kit, Rule, check, suite};
use crate::contract::{CommandStream, Event, SandboxError, StreamFault, Terminal, Unavailable};
use crate::fake::FakeSandbox;
use crate::fake::fixtures::{fixtures, script};
use crate::hub::{Connection, RunnerCommand, RunnerSandbox, Served};
use crate::wire::ExitCode;

type Fake = Arc<Runner<FakeSandbox>>;

/// A hub's socket to a runner, over TCP.
async fn dialled(runner: &Fake) -> (WebSocketStream<TcpStream>, JoinHandle<Ended>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let runner = Arc::clone(runner);
    let config = Some(crate::socket::config());
    let serving = tokio::spawn(async move {
        let stream = TcpStream::connect(address).await.unwrap();
        let url = format!("ws://{address}/");
        let (socket, _) =
            tokio_tungstenite::client_async_with_config(url, stream, config).await.unwrap();
        runner.serve(socket).await
    });
    let (stream, _) = listener.accept().await.unwrap();
    (tokio_tungstenite::accept_async_with_config(stream, config).await.unwrap(), serving)
}

/// The real hub's end of it.
async fn connected(runner: &Fake) -> (RunnerSandbox, JoinHandle<Served>) {
    let (socket, _) = dialled(runner).await;
    let (connection, serving) = Connection::serve(socket);
    (RunnerSandbox::new(connection), tokio::spawn(serving))
}

/// A runner of the fake, honest or lying, behind a socket.
struct Wired {
    lie: Option<Rule>,
    names: AtomicU32,
}

impl Kit for Wired {
    type Sandbox = RunnerSandbox;

    async fn fresh(&self) -> RunnerSandbox {
        let fake = self.lie.map_or_else(FakeSandbox::new, FakeSandbox::lying);
        connected(&Runner::new(fake)).await.0
    }

    fn name(&self) -> String {
        let n = self.names.fetch_add(1, Ordering::Relaxed);
        format!("runner-00112233445566778899aabbccddeeff-{n:08x}")
    }

    fn fixtures(&self) -> Fixtures {
        fixtures()
    }
}

#[tokio::test]
async fn the_suite_holds_over_a_socket() {
    assert_eq!(suite(&Wired { lie: None, names: AtomicU32::new(0) }).await, []);
}

/// What a provider lies about, its runner and its hub do not mend.
#[tokio::test]
async fn liars_are_caught_over_a_socket() {
    for lie in [Rule::LostIsNoExit, Rule::SignalIsTold, Rule::StderrIsTold, Rule::TimeoutEnds] {
        let kit = Wired { lie: Some(lie), names: AtomicU32::new(0) };
        let broken = check(&kit, lie).await;
        assert!(matches!(broken, Err(Broken { rule, .. }) if rule == lie), "{broken:?}");
    }
}

/// A hub whose frames a test writes.
struct Played(WebSocketStream<TcpStream>);

impl Played {
    async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn frame(&mut self) -> Value {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("{other:?} is no frame"),
            }
        }
    }

    /// The code and reason with which the runner closes.
    async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.0.next().await {
                Some(Ok(Message::Close(Some(frame)))) => {
                    return (frame.code.into(), frame.reason.to_string());
                }
                Some(Ok(Message::Ping(_))) => {}
                other => panic!("{other:?} is no close"),
            }
        }
    }
}

#[tokio::test]
async fn a_reply_comes_first_then_the_replay_then_what_comes() {
    let runner = Runner::new(FakeSandbox::new());
    let mut hub = Played(dialled(&runner).await.0);
    hub.send(json!({"id": 1, "op": "create", "name": "b"})).await;
    assert_eq!(hub.frame().await, json!({"id": 1, "ok": true, "result": {}}));
    let args = ["out:one", "stay"];
    hub.send(json!({"id": 2, "op": "spawn", "name": "b", "cmd": "x", "args": args, "stdin": true}))
        .await;
    let reply = hub.frame().await;
    let session = &reply["result"]["session_id"];
    assert_eq!(reply, json!({"id": 2, "ok": true, "result": {"session_id": session}}));
    let stdout = |data: &str| json!({"stream": "stdout", "session_id": session, "data": data});
    assert_eq!(hub.frame().await, stdout("b25l"));
    // Three requests in one breath: in their order.
    hub.send(json!({"id": 3, "op": "attach", "name": "b", "session_id": session})).await;
    hub.send(json!({"id": 4, "op": "stdin", "name": "b", "session_id": session, "data": "aGk="}))
        .await;
    assert_eq!(hub.frame().await, json!({"id": 3, "ok": true, "result": {"session_id": session}}));
    let mut replay = stdout("b25l");
    replay["replay_for"] = 3.into();
    assert_eq!(hub.frame().await, replay);
    let mut both = [hub.frame().await, hub.frame().await];
    both.sort_by_key(|frame| frame["id"].is_u64());
    let done = json!({"id": 4, "ok": true, "result": {}});
    assert_eq!(both, [stdout("ZWNobzpoaQ=="), done.clone()]);
    hub.send(json!({"id": 5, "op": "stdin_close", "name": "b", "session_id": session})).await;
    let mut both = [hub.frame().await, hub.frame().await];
    both.sort_by_key(|frame| frame["id"].is_u64());
    assert_eq!(both[0], json!({"stream": "exit", "session_id": session, "code": 0}));
    // Its end was the last of it; what is asked now is answered at once.
    hub.send(json!({"id": 6, "op": "stdin", "name": "b", "session_id": session, "data": "aGk="}))
        .await;
    let late = json!({"id": 6, "ok": false, "error": "command_exited", "detail": null});
    assert_eq!(hub.frame().await, late);
}

#[tokio::test]
async fn detach_and_attach_are_taken_in_their_order() {
    let runner = Runner::new(FakeSandbox::new());
    let mut hub = Played(dialled(&runner).await.0);
    hub.send(json!({"id": 1, "op": "create", "name": "b"})).await;
    hub.frame().await;
    hub.send(
        json!({"id": 2, "op": "spawn", "name": "b", "cmd": "x", "args": ["stay"], "stdin": true}),
    )
    .await;
    let session = hub.frame().await["result"]["session_id"].clone();
    for id in 3..50 {
        hub.send(json!({"id": 0, "op": "detach", "session_id": session})).await;
        hub.send(json!({"id": id, "op": "attach", "name": "b", "session_id": session})).await;
        assert_eq!(hub.frame().await["id"], id);
    }
    hub.send(json!({"id": 50, "op": "stdin_close", "name": "b", "session_id": session})).await;
    let both = [hub.frame().await, hub.frame().await];
    assert!(both.iter().any(|frame| frame["stream"] == "exit" && frame["code"] == 0), "{both:?}");
}

/// Nothing that a hub can send ends the connection, or goes without the answer it is due.
#[tokio::test]
async fn bad_frames_are_refused_or_left_aside_and_the_next_is_served() {
    let runner = Runner::new(FakeSandbox::new());
    let mut hub = Played(dialled(&runner).await.0);
    let golden = |file: &str| {
        let path = format!("{}/../../tests/golden/runner/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    for case in golden("requests.unreadable.jsonl") {
        hub.0.send(Message::text(case["text"].as_str().unwrap().to_owned())).await.unwrap();
    }
    hub.0.send(Message::binary(vec![0, 159, 146, 150])).await.unwrap();
    for case in golden("requests.refused.jsonl") {
        hub.send(case["frame"].clone()).await;
        // With id 0 no reply is expected: the next frame is the next request's.
        if case["reply"]["id"] != 0 {
            assert_eq!(hub.frame().await, case["reply"]);
        }
    }
    let absent = json!({"id": 98, "op": "attach", "name": "b", "session_id": "s-none"});
    hub.send(absent).await;
    let refused = json!({"id": 98, "ok": false, "error": "not_found", "detail": null});
    assert_eq!(hub.frame().await, refused);
    hub.send(json!({"id": 99, "op": "list"})).await;
    assert_eq!(hub.frame().await, json!({"id": 99, "ok": true, "result": {"names": []}}));
}

/// A frame of the longest kind is served; a longer one ends the connection, and only that.
#[tokio::test]
async fn the_longest_frame_is_served_and_a_longer_one_is_not() {
    let runner = Runner::new(FakeSandbox::new());
    let (socket, _) = dialled(&runner).await;
    let mut hub = Played(socket);
    let padded = |bytes: usize| {
        let list = json!({"id": 1, "op": "list"}).to_string();
        format!("{list}{}", " ".repeat(bytes - list.len()))
    };
    hub.0.send(Message::text(padded(crate::wire::FRAME_MAX))).await.unwrap();
    assert_eq!(hub.frame().await["ok"], true);
    let (socket, serving) = dialled(&runner).await;
    let mut hub = Played(socket);
    // The runner may have gone before all of it is written.
    drop(hub.0.send(Message::text(padded(crate::wire::FRAME_MAX + 1))).await);
    assert!(matches!(serving.await.unwrap(), Ended::Failed(_)));
}

/// An end that nobody knows is never an exit: the connection is closed once, with the reason, and
/// later attachers are refused.
#[tokio::test]
async fn an_unknown_end_closes_the_connection_and_is_told_to_whoever_asks_later() {
    let runner = Runner::new(FakeSandbox::new());
    let (socket, serving) = dialled(&runner).await;
    let mut hub = Played(socket);
    hub.send(json!({"id": 1, "op": "create", "name": "b"})).await;
    hub.frame().await;
    let args = ["out:partial", "drop"];
    hub.send(json!({"id": 2, "op": "spawn", "name": "b", "cmd": "x", "args": args})).await;
    let session = hub.frame().await["result"]["session_id"].clone();
    assert_eq!(hub.frame().await["stream"], "stdout");
    assert_eq!(hub.closed().await, (1011, "a command's end is not known".to_owned()));
    assert!(matches!(serving.await.unwrap(), Ended::ByRunner(_)));
    let mut hub = Played(dialled(&runner).await.0);
    for id in 1..3 {
        hub.send(json!({"id": id, "op": "attach", "name": "b", "session_id": session})).await;
        let refused =
            json!({"id": id, "ok": false, "error": "unavailable", "detail": "exit_unknown"});
        assert_eq!(hub.frame().await, refused);
    }
}

fn sandbox_of(sandbox: &RunnerSandbox) -> crate::contract::Handle {
    sandbox.handle("b")
}

/// The link is cut after each number of events; on the next one every byte and the code are there.
#[tokio::test]
async fn sessions_outlive_their_connection_wherever_it_is_cut() {
    let runner = Runner::new(FakeSandbox::new());
    let (sandbox, _) = connected(&runner).await;
    sandbox.create("b").await.unwrap();
    for cut in 0..12 {
        let (sandbox, serving) = connected(&runner).await;
        let handle = sandbox_of(&sandbox);
        let code = format!("exit:{}", 40 + cut);
        let command = script(&["much:300000", "err:e", &code]);
        let options = SpawnOptions::default();
        let (command, mut stream) = sandbox.spawn(&handle, &command, &options).await.unwrap();
        for _ in 0..cut {
            stream.next().await.unwrap();
        }
        serving.abort();
        let (_, _, terminal) = stream.collect().await;
        // Either it was all here before the cut, or it is said to be lost.
        let exit = Terminal::Exit(ExitCode::as_told(40 + cut));
        assert!(
            [exit.clone(), Terminal::Fault(StreamFault::RunnerDisconnected)].contains(&terminal),
            "{terminal:?}"
        );
        let (sandbox, _) = connected(&runner).await;
        let session = sandbox.session_id(&command);
        let (_, mut stream) = sandbox.attach(&handle, &session).await.unwrap();
        let (stdout, stderr, terminal) = stream.collect().await;
        assert_eq!((stdout.len(), stderr.as_slice(), terminal), (300_000, &b"e"[..], exit));
        assert!(stdout.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
    }
}

/// What a caller of a login-like command must see when its transport dies: a failure without a code.
#[tokio::test]
async fn a_command_whose_connection_dies_has_failed_without_a_code() {
    let runner = Runner::new(FakeSandbox::new());
    let (sandbox, serving) = connected(&runner).await;
    let handle = sandbox.create("b").await.unwrap();
    let (old, mut stream): (RunnerCommand, CommandStream) = sandbox
        .spawn(&handle, &script(&["out:visit", "stay"]), &SpawnOptions { stdin: true, tty: false })
        .await
        .unwrap();
    assert!(matches!(stream.next().await, Some(Event::Output(..))));
    let hanging = tokio::spawn({
        let (sandbox, handle) = (sandbox.clone(), handle.clone());
        async move {
            let command = script(&["hang"]);
            sandbox.exec(&handle, &command, &crate::contract::ExecOptions::default()).await
        }
    });
    // The exec is on its way once a later request is answered.
    sandbox.get(&handle).await.unwrap();
    serving.abort();
    let lost = Event::Terminal(Terminal::Fault(StreamFault::RunnerDisconnected));
    assert_eq!(stream.next().await, Some(lost));
    let exec = hanging.await.unwrap();
    assert!(
        matches!(
            exec,
            Err(SandboxError::Unavailable(
                Unavailable::RunnerDisconnected | Unavailable::RunnerOffline
            ))
        ),
        "{exec:?}"
    );
    // A later command is not touched by the old one's handle.
    let (sandbox, _) = connected(&runner).await;
    let command = script(&["out:ready", "stay"]);
    let options = SpawnOptions { stdin: true, tty: false };
    let (new, mut stream) = sandbox.spawn(&handle, &command, &options).await.unwrap();
    sandbox.stop_command(&old).await.unwrap();
    sandbox.write_stdin(&new, b"on").await.unwrap();
    sandbox.close_stdin(&new).await.unwrap();
    let (stdout, _, terminal) = stream.collect().await;
    assert_eq!(stdout, b"readyecho:on");
    assert_eq!(terminal, Terminal::Exit(ExitCode::as_told(0)));
}
